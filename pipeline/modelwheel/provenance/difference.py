"""Names the first place where a wheel or source distribution differs from the one built again."""

from __future__ import annotations

from collections.abc import Iterable

from ..wheelfile.contents import Contents

_SHOWN = 60
"""Characters of a line that a sentence repeats."""


def first_difference(theirs: Contents, ours: Contents, names: Iterable[str]) -> str:
    """The first of these files that differs, and where: a line of a text, or a byte and its section."""
    name = min(names)
    if name not in theirs.files:
        return f"{name} is missing"
    if name not in ours.files:
        return f"{name} should not be there"
    return compare_content(name, theirs.read(name), ours.read(name))


def compare_content(name: str, theirs: bytes, ours: bytes) -> str:
    """Where two different contents of the file `name` begin to differ."""
    try:
        return _compare_text(name, theirs.decode(), ours.decode())
    except UnicodeDecodeError:
        return compare_bytes(name, theirs, ours)


def compare_bytes(name: str, theirs: bytes, ours: bytes) -> str:
    """The first byte in which two contents differ, with the section of a library that holds it."""
    for offset, (byte, again) in enumerate(zip(theirs, ours, strict=False)):
        if byte != again:
            section = _find_section(theirs, offset)
            where = f" ({section})" if section else ""
            return f"{name}, byte {offset:#x}{where}: {byte:#04x} instead of {again:#04x}"
    return f"{name}: {len(theirs)} bytes instead of {len(ours)}"


def _compare_text(name: str, theirs: str, ours: str) -> str:
    pairs = zip(theirs.splitlines(), ours.splitlines(), strict=False)
    for number, (line, again) in enumerate(pairs, start=1):
        if line != again:
            return f"{name}, line {number}: {_shorten(line)} instead of {_shorten(again)}"
    # One is the beginning of the other, or they differ in the ends of lines.
    return compare_bytes(name, theirs.encode(), ours.encode())


def _shorten(line: str) -> str:
    return ascii(line if len(line) <= _SHOWN else f"{line[:_SHOWN]}...")


def _find_section(content: bytes, offset: int) -> str:
    """The section of a library that holds a byte; "" outside of all, and for files that are none."""
    import lief  # of the extra `build`

    binary = lief.parse(content)
    for section in () if binary is None else binary.sections:
        if section.offset <= offset < section.offset + section.size:
            return str(section.name)
    return ""
