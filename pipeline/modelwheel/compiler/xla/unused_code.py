"""Removes the code that nothing calls from the object file that XLA wrote.

XLA puts all kernels into one section, so no linker can leave out those that the runtime computes itself. Their
instructions become traps here: no wheel then holds code that cannot be reached, and it compresses to nothing.
In Mach-O each function is a piece of its own (MH_SUBSECTIONS_VIA_SYMBOLS), which the linker leaves out.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import lief

_X86_TRAP = b"\xcc"  # int3
_ARM_TRAP = struct.pack("<I", 0xD4200000)  # brk #0
_X86_CALL = re.compile(rb"[\xe8\xe9]", re.DOTALL)  # call and jmp with 32 bits of distance
_ARM_CALLS = (0b000101, 0b100101)  # b and bl: the upper 6 bits
_ELF_RELOCATION = struct.Struct("<QIIq")
"""Offset, type, symbol, addend. Type 0 of every architecture is none."""
_COFF_RELOCATION = struct.Struct("<IIH")
"""Offset, symbol, type. Type 0 is none here too, but GNU ld refuses it in a DLL: rows are taken out."""
_COFF_HEADER, _COFF_SECTION, _COFF_COUNT = 20, 40, 32
"""Bytes of the file's header and of a section's, and where in the latter the number of its relocations is."""
_COFF_OVERFLOW = 0xFFFF
"""The number of relocations does not fit: it is elsewhere, and the object stays as it is."""


class _Function(NamedTuple):
    name: str
    start: int
    end: int


class _Relocation(NamedTuple):
    place: int
    """Where in the file its row is."""
    offset: int
    """In the section of code."""
    target: int | None
    """The place in the section of code that it refers to."""


@dataclass(frozen=True)
class _Code:
    """The section with the code of an object file; functions and relocations by ascending place."""

    first: int
    """Where it is in the file."""
    trap: bytes
    functions: Sequence[_Function]
    relocations: Sequence[_Relocation]
    count: int | None = None
    """COFF: where in the file the number of relocations is."""

    def relocations_of(self, function: _Function) -> Sequence[_Relocation]:
        """Those in the function's instructions."""
        start = bisect_left(self.relocations, function.start, key=attrgetter("offset"))
        end = bisect_left(self.relocations, function.end, key=attrgetter("offset"))
        return self.relocations[start:end]


def blank_unused_functions(path: Path, used: Collection[str]) -> None:
    """Overwrites functions of an object file with traps, in place, and drops their relocations.

    Args:
        path: An object in ELF, COFF or Mach-O; the last stays as it is.
        used: The functions that the program calls. Those that they call stay too.
    """
    if lief.is_macho(str(path)):
        return
    code = _coff_code(path) if lief.is_coff(str(path)) else _elf_code(path)
    if code is None:
        return
    content = bytearray(path.read_bytes())
    reached = _reach(code, content, used)
    unused = [function for function in code.functions if function not in reached]
    for function in unused:
        start, end = code.first + function.start, code.first + function.end
        content[start:end] = code.trap * ((end - start) // len(code.trap))
    _drop(code, content, {r for f in unused for r in code.relocations_of(f)})
    path.write_bytes(content)


def _drop(code: _Code, content: bytearray, gone: Collection[_Relocation]) -> None:
    if code.count is None:
        for relocation in gone:
            # Type 0 with symbol 0: nothing to do.
            struct.pack_into("<Q", content, relocation.place + 8, 0)
        return
    size = _COFF_RELOCATION.size
    kept = [content[r.place : r.place + size] for r in code.relocations if r not in gone]
    first = min((r.place for r in code.relocations), default=0)
    content[first : first + len(code.relocations) * size] = b"".join(kept) + bytes(len(gone) * size)
    struct.pack_into("<H", content, code.count, len(kept))


def _reach(code: _Code, content: bytearray, used: Collection[str]) -> set[_Function]:
    starts = [function.start for function in code.functions]
    waiting = [function for function in code.functions if function.name in used]
    reached = set(waiting)
    while waiting:
        function = waiting.pop()
        for target in _targets(code, content, function):
            called = code.functions[max(bisect_right(starts, target) - 1, 0)]
            if called.start <= target < called.end and called not in reached:
                reached.add(called)
                waiting.append(called)
    return reached


def _targets(code: _Code, content: bytearray, function: _Function) -> Iterator[int]:
    """Places in the section that a function may call or refer to; a few more than it does."""
    for relocation in code.relocations_of(function):
        if relocation.target is not None:
            yield relocation.target
    body = bytes(content[code.first + function.start : code.first + function.end])
    if code.trap == _ARM_TRAP:
        for number, (word,) in enumerate(struct.iter_unpack("<I", body[: len(body) // 4 * 4])):
            if word >> 26 in _ARM_CALLS:
                words = (word & 0x3FFFFFF) - ((word & 0x2000000) << 1)
                yield function.start + 4 * (number + words)
        return
    for match in _X86_CALL.finditer(body, 0, max(len(body) - 4, 0)):
        (distance,) = struct.unpack_from("<i", body, match.end())
        yield function.start + match.end() + 4 + distance


def _elf_code(path: Path) -> _Code | None:
    elf = lief.ELF.parse(str(path))
    assert elf is not None, f"{path} came from the compiler"
    sections = list(elf.sections)
    (number,) = [n for n, section in enumerate(sections) if section.name == ".text"]
    symbols = list(elf.symbols)
    relocations = []
    for section in sections:
        if section.type == lief.ELF.Section.TYPE.RELA and section.information == number:
            content = bytes(section.content)
            for place in range(0, len(content), _ELF_RELOCATION.size):
                offset, _, index, addend = _ELF_RELOCATION.unpack_from(content, place)
                symbol = symbols[index]
                # From the end of the operand: x86 counts from there.
                target = symbol.value + max(addend + 4, 0) if symbol.shndx == number else None
                relocations.append(_Relocation(section.offset + place, offset, target))
    functions = [
        _Function(str(symbol.name), symbol.value, symbol.value + symbol.size)
        for symbol in symbols
        if symbol.type == lief.ELF.Symbol.TYPE.FUNC and symbol.shndx == number and symbol.size
    ]
    arm = elf.header.machine_type == lief.ELF.ARCH.AARCH64
    functions.sort(key=attrgetter("start"))
    relocations.sort(key=attrgetter("offset"))
    trap = _ARM_TRAP if arm else _X86_TRAP
    return _Code(sections[number].offset, trap, functions, relocations) if functions else None


def _coff_code(path: Path) -> _Code | None:
    coff = lief.COFF.parse(str(path))
    assert coff is not None, f"{path} came from the compiler"
    (number,) = [n for n, s in enumerate(coff.sections, start=1) if s.name == ".text"]
    section = list(coff.sections)[number - 1]
    if section.numberof_relocations == _COFF_OVERFLOW:
        return None
    # A function begins at a symbol, and ends where the next one does.
    starts = {
        s.value: str(s.name) for s in coff.symbols if s.section_idx == number and s.is_function
    }
    places = [*sorted(starts.items()), (section.sizeof_raw_data, "")]
    functions = [_Function(name, start, end) for (start, name), (end, _) in pairwise(places)]
    by_index = {}
    index = 0
    for symbol in coff.symbols:
        by_index[index] = symbol
        index += 1 + len(list(symbol.auxiliary_symbols))
    content = path.read_bytes()
    relocations = []
    for row in range(section.numberof_relocations):
        place = section.pointerto_relocation + row * _COFF_RELOCATION.size
        offset, reference, _ = _COFF_RELOCATION.unpack_from(content, place)
        entry = by_index.get(reference)
        target = entry.value if entry is not None and entry.section_idx == number else None
        relocations.append(_Relocation(place, offset, target))
    relocations.sort(key=attrgetter("offset"))
    count = _COFF_HEADER + (number - 1) * _COFF_SECTION + _COFF_COUNT
    first = section.pointerto_raw_data
    return _Code(first, _X86_TRAP, functions, relocations, count) if functions else None
