"""Wheels for other systems, cross-built on this machine with PyPI's `ziglang` as compiler: no container, no emulator.

Linux wheels, for glibc from 2.17 and for musl, are of the quality of a release: auditwheel gives them their tag.
Wheels for macOS and Windows show that a model links there; those of a release come from these systems themselves
(`modelwheel wheel` without `--cross`), where they can be run.
"""

from .build import build_wheels
from .targets import CROSS_TARGETS, find_target

__all__ = ["CROSS_TARGETS", "build_wheels", "find_target"]
