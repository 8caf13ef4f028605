"""Hides symbols in Mach-O objects.

zig's linker for macOS accepts no list of exported symbols, so a library would export every symbol that its
objects do not hide.
"""

from __future__ import annotations

import struct
from pathlib import Path

# Offsets and flags of mach_header_64 and symtab_command (<mach-o/loader.h>) and of nlist_64 (<mach-o/nlist.h>).
_HEADER_BYTES = 32
_NUMBER_OF_COMMANDS = 16
_LC_SYMTAB = 0x2
_NLIST_BYTES = 16
_N_TYPE = 4
_N_STAB, _N_PEXT, _N_TYPE_MASK, _N_EXT = 0xE0, 0x10, 0x0E, 0x01
_N_UNDF = 0x0


def hide_symbols(path: Path) -> None:
    """Marks every symbol defined by a 64-bit little-endian object as private external, in place."""
    content = bytearray(path.read_bytes())
    for offset in _symbols(content):
        kind = content[offset + _N_TYPE]
        defined = kind & _N_TYPE_MASK != _N_UNDF and not kind & _N_STAB
        if defined and kind & _N_EXT:
            content[offset + _N_TYPE] = kind | _N_PEXT
    path.write_bytes(content)


def _symbols(content: bytearray) -> range:
    """The offsets of the symbol table's entries."""
    (commands,) = struct.unpack_from("<I", content, _NUMBER_OF_COMMANDS)
    offset = _HEADER_BYTES
    for _ in range(commands):
        command, size, table, count = struct.unpack_from("<IIII", content, offset)
        if command == _LC_SYMTAB:
            return range(table, table + count * _NLIST_BYTES, _NLIST_BYTES)
        offset += size
    return range(0)
