"""The attributes and types in a file of MLIR's bytecode, and which of them each contains; nothing else of it.

The format is described in https://mlir.llvm.org/docs/BytecodeFormat/. How attributes and types are written is each
dialect's own: BuiltinDialectBytecode.td of MLIR, VhloBytecode.cpp of StableHLO. Only those that contain others count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

_MAGIC = b"ML\xefR"
_STRINGS, _DIALECTS, _VALUES, _OFFSETS = range(4)

Kind: TypeAlias = Literal["attribute", "type"]

# By dialect, kind and code: `a` an attribute, `t` a type, `s` a string; with a star, as many as the number before says.
_CONTENTS: Mapping[tuple[str, Kind], Mapping[int, tuple[str, ...]]] = {
    ("builtin", "attribute"): {
        0: ("a*",),
        1: ("aa*",),
        2: ("s",),
        6: ("t",),
        10: ("a", "a"),
        12: ("a*",),
        13: ("a*", "a"),
        14: ("a", "a"),
    },
    ("builtin", "type"): {2: ("t*", "t*"), 9: ("t",), 14: ("a",), 15: ("t*",)},
    ("vhlo", "attribute"): {1: ("a*",), 6: ("aa*",), 14: ("s",), 16: ("t",)},
    ("vhlo", "type"): {1: ("t",), 8: ("t*", "t*"), 21: ("a",), 23: ("t*",)},
}
_PLACES = frozenset({10, 11, 12, 13, 14, 15, 22})
"""The codes of builtin attributes that are places in source files, which are not printed."""


@dataclass(frozen=True)
class Part:
    """An attribute or type."""

    size: int
    """About the bytes of its own text."""
    named: list[int]
    """Numbers of those that it contains, each as often as it does."""
    is_printed: bool = True


class _Reader:
    """Numbers from some bytes on, up to an end."""

    def __init__(self, content: bytes, place: int, end: int) -> None:
        self.content, self.place, self.end = content, place, end
        if not 0 <= place <= end <= len(content):
            raise IndexError("a section ends behind the file")

    def byte(self) -> int:
        """The next byte."""
        if self.place >= self.end:
            raise IndexError("the section ends")
        self.place += 1
        return self.content[self.place - 1]

    def number(self) -> int:
        """A number, whose first byte ends with as many zeros as it has more bytes."""
        first = self.byte()
        more = 8 if first == 0 else (first & -first).bit_length() - 1
        last = self.place + more
        if last > self.end:
            raise IndexError("the section ends")
        rest = int.from_bytes(self.content[self.place : last], "little")
        self.place = last
        return rest if first == 0 else (rest << 8 | first) >> (more + 1)


def is_bytecode(content: bytes) -> bool:
    """Whether it begins as bytecode does."""
    return content.startswith(_MAGIC)


def read_parts(content: bytes) -> list[Part]:
    """The attributes, and behind them the types; none if the file is damaged, which MLIR reports."""
    try:
        return list(_read_parts(content))
    except IndexError:
        return []


def _read_parts(content: bytes) -> Iterator[Part]:
    sections = _sections(content)
    lengths = _string_lengths(sections[_STRINGS])
    dialects = _dialects(sections[_DIALECTS], _texts(content, sections[_STRINGS], lengths))
    offsets, place = sections[_OFFSETS], sections[_VALUES].place
    attributes, types = offsets.number(), offsets.number()
    _require_room(attributes + types, offsets)
    kinds: tuple[tuple[Kind, int], ...] = (("attribute", attributes), ("type", types))
    for kind, count in kinds:
        done = 0
        while done < count:
            dialect, some = dialects[offsets.number()], offsets.number()
            if not some:
                raise IndexError("a group is empty")
            for _ in range(some):
                size, is_custom = divmod(offsets.number(), 2)
                values = _Reader(content, place, min(place + size, sections[_VALUES].end))
                contents = _CONTENTS.get((dialect, kind), {}) if is_custom else {}
                yield _read_part(values, kind, dialect, contents, attributes, lengths)
                place += size
            done += some


def _read_part(
    values: _Reader,
    kind: Kind,
    dialect: str,
    contents: Mapping[int, tuple[str, ...]],
    attributes: int,
    lengths: list[int],
) -> Part:
    size = values.end - values.place
    if not contents:
        return Part(size, [])
    code, named = values.number(), list[int]()
    for what in contents.get(code, ()):
        count = values.number() if what.endswith("*") else 1
        _require_room(count, values)
        for letter in what.removesuffix("*") * count:
            number = values.number()
            if letter == "s":
                size += lengths[number]
            else:
                named.append(number + (attributes if letter == "t" else 0))
    is_place = (dialect, kind) == ("builtin", "attribute") and code in _PLACES
    return Part(size, named, is_printed=not is_place)


def _sections(content: bytes) -> dict[int, _Reader]:
    """The sections at the top, by their numbers."""
    top = _Reader(content, len(_MAGIC), len(content))
    top.number()  # the version
    while top.byte():  # who wrote it
        pass
    sections = {}
    while top.place < top.end:
        number = top.byte()
        length = top.number()
        if number & 0x80:
            alignment = top.number()
            if alignment > 1:
                top.place += -top.place % alignment
        sections[number & 0x7F] = _Reader(content, top.place, top.place + length)
        top.place += length
    if not sections.keys() >= {_STRINGS, _DIALECTS, _VALUES, _OFFSETS}:
        raise IndexError("a section is missing")
    return sections


def _string_lengths(section: _Reader) -> list[int]:
    count = section.number()
    _require_room(count, section)
    return [section.number() for _ in range(count)][::-1]  # as they are written


def _texts(content: bytes, section: _Reader, lengths: list[int]) -> Iterator[bytes]:
    place = section.place
    for length in lengths:
        yield content[place : place + length].rstrip(b"\0")
        place += length


def _dialects(section: _Reader, texts: Iterator[bytes]) -> list[str]:
    strings = list(texts)
    names = []
    for _ in range(section.number()):
        name, is_versioned = divmod(section.number(), 2)
        names.append(strings[name].decode("ascii", "replace"))
        if is_versioned:
            section.byte()
            section.place += section.number()
    return names


def _require_room(count: int, section: _Reader) -> None:
    """Each number takes a byte, at least."""
    if count > section.end - section.place:
        raise IndexError("more numbers than bytes")
