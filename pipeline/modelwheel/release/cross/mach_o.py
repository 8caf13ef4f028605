"""Hides symbols in Mach-O objects. zig's linker for macOS takes no list of exported symbols: all that an object does not
hide would be visible in the library.
"""

from __future__ import annotations

import struct
from pathlib import Path

# struct symtab_command and struct nlist_64 of <mach-o/loader.h> and <mach-o/nlist.h>.
_HEADER_BYTES = 32
_NUMBER_OF_COMMANDS = 16
_LC_SYMTAB = 0x2
_NLIST_BYTES = 16
_N_TYPE = 4
_N_STAB, _N_PEXT, _N_TYPE_MASK, _N_EXT = 0xE0, 0x10, 0x0E, 0x01
_N_UNDF = 0x0


def hide_symbols(path: Path) -> None:
    """Makes every symbol that a 64-bit little-endian object defines private to what it is linked into."""
    content = bytearray(path.read_bytes())
    for offset in _symbols(content):
        kind = content[offset + _N_TYPE]
        defined = kind & _N_TYPE_MASK != _N_UNDF and not kind & _N_STAB
        if defined and kind & _N_EXT:
            content[offset + _N_TYPE] = kind | _N_PEXT
    path.write_bytes(content)


def _symbols(content: bytearray) -> range:
    """Where the entries of the symbol table begin."""
    (commands,) = struct.unpack_from("<I", content, _NUMBER_OF_COMMANDS)
    offset = _HEADER_BYTES
    for _ in range(commands):
        command, size, table, count = struct.unpack_from("<IIII", content, offset)
        if command == _LC_SYMTAB:
            return range(table, table + count * _NLIST_BYTES, _NLIST_BYTES)
        offset += size
    return range(0)
