"""Copies of packages whose libraries have another instruction in place of CPUID, which `cpu.cpp` answers.

It is `int 0xa2`, of the same length. The two bytes of CPUID occur in other instructions and in tables too, where they
must stay. So functions that have them are decoded from their start, which the unwind tables of a library say.
"""

from __future__ import annotations

import logging
import mmap
import os
import shutil
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lief

_CPUID = b"\x0f\xa2"
_IN_PLACE_OF_CPUID = b"\xcd\xa2"
_LONGEST = 15
"""Bytes of the longest instruction."""

_log = logging.getLogger(__name__)


def is_possible() -> bool:
    """Whether the decoder is installed."""
    return find_spec("iced_x86") is not None


def patched_package(name: str, directory: Path) -> Path | None:
    """A directory with a copy of an installed package whose libraries are patched.

    A library with a place that cannot be decided is a symbolic link to the package's own: a process that has loaded
    it has loaded something outside the copy.

    Args:
        name: The package.
        directory: Where copies of packages are made; one that is there is used again.

    Returns:
        The directory to import from; None if no copy can be made.
    """
    root = directory / name
    if not root.exists():
        spec = find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            return None
        root.mkdir(parents=True)
        package = Path(spec.submodule_search_locations[0])
        libraries = package.with_name(f"{name}.libs")  # where auditwheel puts what a package needs
        try:
            copy_package(package, root / name)
            copy_package(libraries, root / libraries.name)
        except OSError as error:
            shutil.rmtree(root / name, ignore_errors=True)
            _log.warning("%s uses the whole CPU: its copy failed: %s", name, error)
    return root if (root / name).exists() else None


def copy_package(package: Path, target: Path) -> None:
    """Makes the copy of a directory; see `patched_package`.

    Raises:
        OSError: A file cannot be read or written.
    """
    for name, _, files in os.walk(package, followlinks=True):
        directory = target / Path(name).relative_to(package)
        directory.mkdir()
        for file in files:
            _place(Path(name, file), directory / file)


def _place(source: Path, target: Path) -> None:
    path = source.resolve()
    search = find_cpuid(path) if ".so" in source.suffixes else None
    if search is None:
        target.symlink_to(path)
    elif search.undecided:
        _log.warning("%s: %d places may be CPUID or not, so it stays", source, search.undecided)
        target.symlink_to(path)
    elif search.offsets:
        shutil.copyfile(path, target)
        with target.open("r+b") as file:
            for offset in search.offsets:
                file.seek(offset)
                file.write(_IN_PLACE_OF_CPUID)
    else:
        # No symbolic link: what such a library loads from its own directory would not be the copy.
        try:
            os.link(path, target)
        except OSError:  # another file system, or a file that may not be linked
            shutil.copyfile(path, target)


# --- finding the instruction ----------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """CPUID in a library."""

    offsets: tuple[int, ...] = ()
    """Where it is in the file."""
    undecided: int = 0
    """How many places look like it, in code that cannot be decoded up to there."""


@dataclass(frozen=True)
class _Piece:
    """Consecutive code of a library."""

    address: int
    offset: int
    size: int


def find_cpuid(library: Path) -> Found:
    """Finds the CPUID instructions of a library; none if it is not for x86-64.

    Raises:
        OSError: It cannot be read.
    """
    with library.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return Found()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _find(library, content) if content.find(_CPUID) >= 0 else Found()


def _find(library: Path, content: mmap.mmap) -> Found:
    import lief

    lief.logging.disable()  # it logs to standard output
    options = lief.ELF.ParserConfig()
    for name in ("relocations", "dyn_symbols", "symtab_symbols", "symbol_versions", "notes"):
        setattr(options, f"parse_{name}", False)
    binary = lief.ELF.parse(str(library), options)
    if binary is None or binary.header.machine_type != lief.ELF.ARCH.X86_64:
        return Found()
    functions = sorted(
        (function.address, function.size) for function in binary.functions if function.size
    )
    offsets: list[int] = []
    undecided = 0
    for piece in _pieces(binary):
        for (start, _), places in _regions(content, piece, functions).items():
            instructions, decoded = _decode(content, piece, start, places[-1])
            offsets += [
                place - piece.address + piece.offset for place in places if place in instructions
            ]
            undecided += sum(place >= decoded for place in places)
    return Found(tuple(offsets), undecided)


def _pieces(binary: lief.ELF.Binary) -> Iterator[_Piece]:
    """The code of a library: its sections, or the segments if it has no table of these."""
    import lief

    sections = [part for part in binary.sections if part.has(lief.ELF.Section.FLAGS.EXECINSTR)]
    for section in sections:
        if section.type != lief.ELF.Section.TYPE.NOBITS:
            yield _Piece(section.virtual_address, section.offset, section.size)
    if not sections:
        for segment in binary.segments:
            if segment.type == lief.ELF.Segment.TYPE.LOAD and segment.has(lief.ELF.Segment.FLAGS.X):
                yield _Piece(segment.virtual_address, segment.file_offset, segment.physical_size)


def _regions(
    content: mmap.mmap, piece: _Piece, functions: Sequence[tuple[int, int]]
) -> Mapping[tuple[int, int], list[int]]:
    """Addresses where CPUID may be, by what is decoded for them: a function, or what is between two."""
    by_region: dict[tuple[int, int], list[int]] = {}
    end = piece.offset + piece.size
    offset = content.find(_CPUID, piece.offset, end)
    while offset >= 0:
        address = offset - piece.offset + piece.address
        number = bisect_right(functions, (address, 1 << 64)) - 1
        start, size = functions[number] if number >= 0 else (piece.address, 0)
        if address >= start + size:
            start, size = start + size, 0  # code without unwind tables: plain assembler
        by_region.setdefault((max(start, piece.address), size), []).append(address)
        offset = content.find(_CPUID, offset + 1, end)
    return by_region


def _decode(content: mmap.mmap, piece: _Piece, start: int, last: int) -> tuple[frozenset[int], int]:
    """The addresses of CPUID, and the address from which decoding failed.

    Args:
        content: The file.
        piece: Where the code is.
        start: The address of an instruction.
        last: The last address of interest.
    """
    import iced_x86 as iced

    shift = piece.offset - piece.address
    code = content[start + shift : min(last + _LONGEST + 1, piece.address + piece.size) + shift]
    addresses = set()
    for instruction in iced.Decoder(64, code, ip=start):
        if instruction.ip > last:
            break
        if instruction.code == iced.Code.CPUID and instruction.len == len(_CPUID):
            addresses.add(instruction.ip)
        elif instruction.code in (iced.Code.INVALID, iced.Code.CPUID):  # with a prefix
            return frozenset(addresses), instruction.ip
    return frozenset(addresses), last + 1
