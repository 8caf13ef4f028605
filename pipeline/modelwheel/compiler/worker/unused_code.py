"""Removes the code that nothing calls from the object file that XLA wrote.

XLA puts all kernels into one section, so no linker can leave out those that the runtime computes itself. Their
instructions become traps here: no wheel then holds code that cannot be reached, and it compresses to nothing.
In Mach-O each function is a piece of its own (MH_SUBSECTIONS_VIA_SYMBOLS), which the linker leaves out.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
"""Offset, symbol, type. Type 0 is IMAGE_REL_AMD64_ABSOLUTE: none."""


class _Function(NamedTuple):
    name: str
    start: int
    end: int


class _Relocation(NamedTuple):
    place: int
    """Where in the file its type is, in ELF with the symbol: zeros mean that there is nothing to do."""
    type_bytes: int
    offset: int
    """In the section of code."""
    target: int | None
    """The place in the section of code that it refers to."""


@dataclass(frozen=True)
class _Code:
    """The section with the code of an object file; functions by ascending start."""

    first: int
    """Where it is in the file."""
    trap: bytes
    functions: Sequence[_Function]
    relocations: Sequence[_Relocation]


def blank_unused_functions(path: Path, used: Collection[str]) -> None:
    """Overwrites functions of an object file with traps, in place; their relocations become none.

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
    for function in code.functions:
        if function in reached:
            continue
        start, end = code.first + function.start, code.first + function.end
        content[start:end] = code.trap * ((end - start) // len(code.trap))
        for relocation in code.relocations:
            if function.start <= relocation.offset < function.end:
                end_of_type = relocation.place + relocation.type_bytes
                content[relocation.place : end_of_type] = bytes(relocation.type_bytes)
    path.write_bytes(content)


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
    for relocation in code.relocations:
        if relocation.target is not None and function.start <= relocation.offset < function.end:
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
                relocations.append(_Relocation(section.offset + place + 8, 8, offset, target))
    functions = [
        _Function(str(symbol.name), symbol.value, symbol.value + symbol.size)
        for symbol in symbols
        if symbol.type == lief.ELF.Symbol.TYPE.FUNC and symbol.shndx == number and symbol.size
    ]
    arm = elf.header.machine_type == lief.ELF.ARCH.AARCH64
    functions.sort(key=lambda function: function.start)
    trap = _ARM_TRAP if arm else _X86_TRAP
    return _Code(sections[number].offset, trap, functions, relocations) if functions else None


def _coff_code(path: Path) -> _Code | None:
    coff = lief.COFF.parse(str(path))
    assert coff is not None, f"{path} came from the compiler"
    (number,) = [n for n, s in enumerate(coff.sections, start=1) if s.name == ".text"]
    section = list(coff.sections)[number - 1]
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
        found = by_index.get(reference)
        target = found.value if found is not None and found.section_idx == number else None
        relocations.append(_Relocation(place + 8, 2, offset, target))
    return (
        _Code(section.pointerto_raw_data, _X86_TRAP, functions, relocations) if functions else None
    )
