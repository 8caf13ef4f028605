"""Parses the platform tags of wheels (PEP 425, 600, 656)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..platforms import SYSTEM_OF_TAG_WORD, SYSTEMS, Libc, architecture_of

# Aliases that PEP 600 defines.
_LEGACY = {"manylinux1": "manylinux_2_5", "manylinux2010": "manylinux_2_12",
           "manylinux2014": "manylinux_2_17"}  # fmt: skip

_VERSIONED = re.compile(r"(manylinux|musllinux|macosx)_(\d+)_(\d+)_(\w+)")
_PLAIN = re.compile(r"(linux|win)_(\w+)")


@dataclass(frozen=True)
class PlatformTag:
    """The systems on which a wheel may be installed."""

    name: str
    system: str
    """`linux`, `macos` or `windows`, as in `modelwheel.platforms`."""
    architecture: str
    """As in `modelwheel.platforms`; an unknown one as in the tag."""
    libc: Libc = ""
    """The C library of Linux; empty for `linux_...`, which guarantees nothing."""
    version: tuple[int, ...] = ()
    """The oldest supported version of the C library or of macOS."""


def parse(tag: str) -> PlatformTag | None:
    """Parses a tag; None if no wheel of modelwheel can have it."""
    prefix, _, rest = tag.partition("_")
    name = f"{_LEGACY[prefix]}_{rest}" if prefix in _LEGACY else tag
    if match := _VERSIONED.fullmatch(name):
        word, major, minor, machine = match.groups()
        system = SYSTEM_OF_TAG_WORD[word]
        libc, version = SYSTEMS[system].tag_words[word], (int(major), int(minor))
        return PlatformTag(tag, system, architecture_of(machine), libc, version)
    if match := _PLAIN.fullmatch(name):
        word, machine = match.groups()
        # `linux` is not among the words: its tag does not name a C library.
        system = SYSTEM_OF_TAG_WORD.get(word, "linux")
        return PlatformTag(tag, system, architecture_of(machine))
    return None
