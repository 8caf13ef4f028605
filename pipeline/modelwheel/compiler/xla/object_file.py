"""Reads the object files that tfcompile writes in addition to the kernels.

`*_metadata.o` holds one message in its only read-only section. `*_constants.o` holds every constant, each behind a 64-byte
head that begins with its length (tensorflow/compiler/aot/embedded_constant_buffers.cc).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lief

from ...errors import UnsupportedProgramError

# In ELF, Mach-O and COFF.
_READ_ONLY_SECTIONS = (".rodata", "__const", ".rdata")
_CONSTANT_SUFFIX = "_constant_buffer_contents"
_CONSTANT_HEAD_BYTES = 64


def _parse(path: Path) -> Any:
    binary = lief.parse(str(path))
    if binary is None:
        raise UnsupportedProgramError(f"{path.name} is not an object file")
    return binary


def read_only_section(path: Path) -> bytes:
    """The content of the only read-only section.

    Raises:
        UnsupportedProgramError: There is none, or several.
    """
    binary = _parse(path)  # must outlive its sections and symbols, which LIEF does not copy
    sections = [
        section
        for section in binary.sections
        if section.size and str(section.name).startswith(_READ_ONLY_SECTIONS)
    ]
    if len(sections) != 1:
        names = ", ".join(str(section.name) for section in sections) or "none"
        raise UnsupportedProgramError(
            f"{path.name} should have one read-only section, but has: {names}"
        )
    return bytes(sections[0].content)


def read_constants(path: Path) -> list[bytes]:
    """The constants in the order of their numbers; an object without constants has no section."""
    binary = _parse(path)
    # Constants are found by the names of symbols: Arm's ELF files have others too ($d, $x). Sizes
    # come from the head of each, since only ELF symbols have a size.
    offsets: dict[int, int] = {}
    for symbol in binary.symbols:
        name = str(symbol.name)
        if name.endswith(_CONSTANT_SUFFIX):
            digits = name.removesuffix(_CONSTANT_SUFFIX).rpartition("_Constant_")[2]
            offsets[int(digits)] = int(symbol.value)
    if not offsets:
        return []
    content = read_only_section(path)
    constants = []
    for number in range(len(offsets)):
        start = offsets[number]
        length = int.from_bytes(content[start : start + 8], "little")
        start += _CONSTANT_HEAD_BYTES
        constants.append(content[start : start + length])
    return constants
