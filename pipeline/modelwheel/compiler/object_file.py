"""Reads the object files that XLA writes: sections and symbols of ELF, Mach-O and COFF with 64-bit addresses, little-endian.

LIEF reads them too, and much more: importing it takes a quarter of a second, in a worker and in a build.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from ..errors import UnsupportedProgramError

Format: TypeAlias = Literal["elf", "macho", "coff"]

# The tables of each format: /usr/include/elf.h, mach-o/loader.h and nlist.h, and "PE Format" of Microsoft.
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_ELF_SECTION = struct.Struct("<IIQQQQIIQQ")
_ELF_SYMBOL = struct.Struct("<IBBHQQ")
_MACHO_HEADER = struct.Struct("<8I")
_MACHO_SEGMENT = struct.Struct("<II16sQQQQiiII")
_MACHO_SECTION = struct.Struct("<16s16sQQ8I")
_MACHO_TABLE = struct.Struct("<6I")
_MACHO_SYMBOL = struct.Struct("<IBBHQ")
_COFF_HEADER = struct.Struct("<HHIIIHH")
_COFF_SECTION = struct.Struct("<8sIIIIIIHHI")
_COFF_SYMBOL = struct.Struct("<8sIhHBB")

_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_ELF_SYMBOLS, _ELF_RELOCATIONS, _ELF_ALLOCATED, _ELF_FUNCTION = 2, 4, 2, 2
_ELF_ROW = 24
"""Bytes of a relocation with an addend."""
_MACHO_MAGIC, _MACHO_SEGMENT_64, _MACHO_SYMTAB, _MACHO_LOADED = (
    0xFEEDFACF,
    0x19,
    2,
    {"__TEXT", "__DATA"},
)
_COFF_MACHINES = {0x8664, 0xAA64}
_COFF_DROPPED = 0x800 | 0x200
"""IMAGE_SCN_LNK_REMOVE and IMAGE_SCN_LNK_INFO: what the linker reads but does not keep."""
_COFF_FUNCTION = 2


class Section(NamedTuple):
    """A section."""

    name: str
    place: int
    """Where its content is in the file."""
    size: int
    loaded: bool
    """Whether it is part of a program in memory."""
    relocations: int = 0
    """Where in the file the rows of its relocations are."""
    relocation_count: int = 0
    address: int = 0


class Symbol(NamedTuple):
    """A symbol."""

    number: int
    """Its number in the table, by which relocations name it."""
    name: str
    section: int | None
    """The number of its section in `ObjectFile.sections`."""
    value: int
    """Its place in the section."""
    size: int
    """0 if the format has none."""
    is_function: bool


@dataclass(frozen=True)
class ObjectFile:
    """An object file."""

    format: Format
    machine: int
    """As the format numbers them."""
    content: bytes
    sections: tuple[Section, ...]
    """In the order of their numbers, which begin with 0 here."""
    _symbols: tuple[int, int, int]
    """Where the table of symbols is, how many there are, and where their names are."""

    def content_of(self, section: Section) -> bytes:
        """The bytes of a section."""
        return self.content[section.place : section.place + section.size]

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """All symbols, without what belongs to another one."""
        read = {"elf": _elf_symbols, "macho": _macho_symbols, "coff": _coff_symbols}[self.format]
        try:
            return tuple(read(self, *self._symbols))
        except (struct.error, ValueError, OverflowError) as error:
            raise UnsupportedProgramError(f"an object file has broken symbols: {error}") from None


def read_object(path: Path) -> ObjectFile:
    """Reads an object file.

    Raises:
        UnsupportedProgramError: It is not one, or it is damaged.
    """
    content = path.read_bytes()
    try:
        if content.startswith(_ELF_64_LITTLE):
            return _read_elf(content)
        if content[:4] == _MACHO_MAGIC.to_bytes(4, "little"):
            return _read_macho(content)
        if int.from_bytes(content[:2], "little") in _COFF_MACHINES:
            return _read_coff(content)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise UnsupportedProgramError(f"{path.name} is a damaged object file: {error}") from None
    raise UnsupportedProgramError(f"{path.name} is not an object file")


def loaded_bytes(path: Path) -> int:
    """The bytes of an object file that are loaded into memory: code and its tables, without symbols."""
    return sum(section.size for section in read_object(path).sections if section.loaded)


def _text(content: bytes, start: int) -> str:
    """The name at a place; it ends with a zero."""
    return content[start : content.index(b"\0", start)].decode()


def _padded(name: bytes) -> str:
    return name.rstrip(b"\0").decode()


def _read_elf(content: bytes) -> ObjectFile:
    header = _ELF_HEADER.unpack_from(content)
    machine, first, size, count, names = header[2], header[6], header[11], header[12], header[13]
    rows = [_ELF_SECTION.unpack_from(content, first + size * number) for number in range(count)]
    relocations = {row[7]: row for row in rows if row[1] == _ELF_RELOCATIONS}
    sections = []
    for number, (name, _, flags, address, place, length, *_) in enumerate(rows):
        related = relocations.get(number)
        sections.append(
            Section(
                _text(content, rows[names][4] + name),
                place,
                length,
                bool(flags & _ELF_ALLOCATED),
                related[4] if related else 0,
                related[5] // _ELF_ROW if related else 0,
                address,
            )
        )
    tables = [row for row in rows if row[1] == _ELF_SYMBOLS]
    symbols = (0, 0, 0)
    if tables:
        table = tables[0]
        symbols = (table[4], table[5] // _ELF_SYMBOL.size, rows[table[6]][4])
    return ObjectFile("elf", machine, content, tuple(sections), symbols)


def _elf_symbols(file: ObjectFile, first: int, count: int, names: int) -> Iterator[Symbol]:
    for index in range(count):
        row = _ELF_SYMBOL.unpack_from(file.content, first + index * _ELF_SYMBOL.size)
        name, info, _, section, value, size = row
        known = section if 0 < section < len(file.sections) else None
        function = info & 0xF == _ELF_FUNCTION
        yield Symbol(index, _text(file.content, names + name), known, value, size, function)


def _read_macho(content: bytes) -> ObjectFile:
    _, machine, _, _, commands, *_ = _MACHO_HEADER.unpack_from(content)
    place = _MACHO_HEADER.size
    sections: list[Section] = []
    symbols = (0, 0, 0)
    for _ in range(commands):
        command, size = struct.unpack_from("<II", content, place)
        if command == _MACHO_SEGMENT_64:
            count = _MACHO_SEGMENT.unpack_from(content, place)[9]
            for number in range(count):
                at = place + _MACHO_SEGMENT.size + number * _MACHO_SECTION.size
                # An object has one nameless segment; its sections name the segment of the library.
                name, segment, address, length, start, *_ = _MACHO_SECTION.unpack_from(content, at)
                loaded = _padded(segment) in _MACHO_LOADED
                sections.append(Section(_padded(name), start, length, loaded, address=address))
        elif command == _MACHO_SYMTAB:
            _, _, *table, _ = _MACHO_TABLE.unpack_from(content, place)
            symbols = (table[0], table[1], table[2])
        place += max(size, 8)
    return ObjectFile("macho", machine, content, tuple(sections), symbols)


def _macho_symbols(file: ObjectFile, first: int, count: int, names: int) -> Iterator[Symbol]:
    for index in range(count):
        row = _MACHO_SYMBOL.unpack_from(file.content, first + index * _MACHO_SYMBOL.size)
        name, _, section, _, value = row
        known = section - 1 if 0 < section <= len(file.sections) else None
        start = 0 if known is None else file.sections[known].address
        yield Symbol(
            index, _text(file.content, names + name), known, value - start, 0, is_function=False
        )


def _read_coff(content: bytes) -> ObjectFile:
    machine, count, _, table, symbols, more, _ = _COFF_HEADER.unpack_from(content)
    names = table + symbols * _COFF_SYMBOL.size
    sections = []
    for number in range(count):
        place = _COFF_HEADER.size + more + number * _COFF_SECTION.size
        name, _, _, size, start, related, _, rows, _, flags = _COFF_SECTION.unpack_from(
            content, place
        )
        text = _padded(name)
        if text.startswith("/"):
            text = _text(content, names + int(text[1:]))
        sections.append(Section(text, start, size, not flags & _COFF_DROPPED, related, rows))
    return ObjectFile("coff", machine, content, tuple(sections), (table, symbols, names))


def _coff_symbols(file: ObjectFile, first: int, count: int, names: int) -> Iterator[Symbol]:
    index = 0
    while index < count:
        row = _COFF_SYMBOL.unpack_from(file.content, first + index * _COFF_SYMBOL.size)
        name, value, section, kind, _, more = row
        zeros, place = struct.unpack("<II", name)
        text = _padded(name) if zeros else _text(file.content, names + place)
        known = section - 1 if 0 < section <= len(file.sections) else None
        yield Symbol(index, text, known, value, 0, kind >> 4 & 3 == _COFF_FUNCTION)
        index += 1 + more
