"""Gives the functions that convert float16 names of the runtime's own, in object files for Windows.

Where a CPU level has no instructions for float16, LLVM calls functions of a compiler's library, with the number in a
vector register. Microsoft's library has none, and MinGW's takes it in another register: its results would be wrong.
`src/half.c` has these functions.
"""

from __future__ import annotations

import struct
from pathlib import Path

NAMES = {
    b"__extendhfsf2": b"modelwheel_half_to_float",
    b"__truncsfhf2": b"modelwheel_float_to_half",
    b"__truncdfhf2": b"modelwheel_double_to_half",
}

# Microsoft's "PE Format": the file's header has the place and the number of symbols; a table of strings follows them.
# A symbol begins with its name, or with zero and the place of a longer one; its last byte is the number of auxiliary
# symbols after it.
_HEADER = struct.Struct("<8xII")
_SYMBOL = struct.Struct("<II9xB")
_SIZE = struct.Struct("<I")


def rename_half_conversions(path: Path) -> None:
    """Changes the names in an object file in COFF, in place; all others stay as they are."""
    content = bytearray(path.read_bytes())
    place, number = _HEADER.unpack_from(content)
    strings = place + number * _SYMBOL.size
    (size,) = _SIZE.unpack_from(content, strings)
    added = bytearray()
    while place < strings:
        zeros, offset, auxiliary = _SYMBOL.unpack_from(content, place)
        if zeros == 0:
            first = strings + offset
            new = NAMES.get(bytes(content[first : content.index(b"\0", first)]))
            if new is not None:
                _SIZE.pack_into(content, place + 4, size + len(added))
                added += new + b"\0"
        place += _SYMBOL.size * (1 + auxiliary)
    _SIZE.pack_into(content, strings, size + len(added))
    content[strings + size : strings + size] = added
    path.write_bytes(content)
