"""Cross-builds wheels for other systems with the compiler of PyPI's `ziglang`, without containers or emulators.

Linux wheels, for glibc from 2.17 on and for musl, are fit for release: auditwheel checks and tags them. Wheels for
macOS and Windows only show that a model links there. Build those of a release on these systems
(`modelwheel wheel` without `--cross`), where they can be tested.
"""

from .build import build_wheels
from .targets import CROSS_TARGETS, find_target

__all__ = ["CROSS_TARGETS", "build_wheels", "find_target"]
