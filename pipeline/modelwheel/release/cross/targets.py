"""The platforms that wheels are cross-built for with zig, by the platform tags of these wheels."""

from __future__ import annotations

import re

from ...errors import UsageError
from ...platforms import WHEEL_PLATFORMS, WheelPlatform
from ...util.words import suggest

CROSS_TARGETS = {known.cross_tag: known for known in WHEEL_PLATFORMS.values()}
"""Every platform of wheels by the platform tag of cross-built wheels."""


_GLIBC = re.compile(r"manylinux(?:_2_(?P<minor>[1-9][0-9]*)|2014)_(?P<architecture>\w+)")


def find_target(tag: str) -> WheelPlatform:
    """The platform with this tag, or with an older C library, whose wheels install wherever those of the tag do.

    Raises:
        UsageError: The tag is unknown.
    """
    if tag in CROSS_TARGETS:
        return CROSS_TARGETS[tag]
    if asked := _GLIBC.fullmatch(tag):
        for known, target in CROSS_TARGETS.items():
            ours = _GLIBC.fullmatch(known)
            if ours is None or ours["architecture"] != asked["architecture"]:
                continue
            if int(ours["minor"]) <= int(asked["minor"] or 17):
                return target
    raise UsageError(f"cannot cross-build for {tag!r}; {suggest(tag, CROSS_TARGETS)}", code="MW204")


def can_build_extensions(target: WheelPlatform) -> bool:
    """Whether wheels with a Python extension can be cross-built.

    Extensions need the headers of Python. These differ in `pyconfig.h` between operating systems, and no
    package index has them. Between the processors and C libraries of Linux no difference reaches an
    extension, so this machine's headers serve for all of them. For macOS and Windows only wheels without an
    extension are cross-built (`package.bindings: shared`).
    """
    return bool(target.libc)


def python_platform(target: WheelPlatform) -> str:
    """Python's `sysconfig.get_platform()` there, from which the build backend makes the platform tag."""
    return target.platform if target.libc else target.cross_tag
