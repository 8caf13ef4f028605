"""A view of shared libraries that is independent of their format: imports, exports and code.

`elf.py`, `macho.py` and `pe.py` create it from the result of LIEF; gates do not depend on formats.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...platforms import BinaryFormat

POINTER = 8
"""The size of an address, in bytes; every supported architecture has 64 bits."""


@dataclass(frozen=True)
class Import:
    """A symbol that another library must define."""

    name: str
    """The name in C, without the underscore that Mach-O prepends."""
    library: str = ""
    """The library that defines it, if the format says so."""
    version: str = ""
    """The symbol version of ELF, such as `GLIBC_2.17`."""
    weak: bool = False
    """Whether the library can be loaded without it."""


@dataclass(frozen=True)
class Section:
    """A contiguous part of a loaded image."""

    address: int
    content: bytes
    executable: bool

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.address + len(self.content)


@dataclass(frozen=True)
class Image:
    """The content of memory after loading, at the addresses in the file."""

    sections: tuple[Section, ...]
    """In ascending order; none is empty."""
    functions: dict[int, int]
    """Sizes of the known functions by address; 0 if only the start is known."""
    pointers: dict[int, int]
    """Addresses in this image that data refers to, by the place of the reference."""
    linkage: tuple[range, ...]
    """Tables of such references that are only used one by one and never indexed (`.got`)."""
    names: dict[int, str]
    """Names of addresses, if the file has any."""
    entries: dict[int, str]
    """Addresses that are called from outside: exported functions by name; the loader's entry has an empty name."""
    data: tuple[range, ...] = ()
    """Data tables inside code, in ascending order, if the format says so."""

    def section_of(self, address: int) -> Section | None:
        """The section that contains an address."""
        index = bisect.bisect_right(self._starts, address) - 1
        section = self.sections[index] if index >= 0 else None
        return section if section is not None and address < section.end else None

    def read(self, address: int, size: int) -> bytes:
        """Bytes at an address; fewer at the end of a section."""
        section = self.section_of(address)
        if section is None:
            return b""
        offset = address - section.address
        return section.content[offset : offset + size]

    def text(self, address: int) -> str | None:
        """The zero-terminated ASCII text at an address; None if there is none."""
        content, zero, _ = self.read(address, 256).partition(b"\0")
        try:
            return content.decode("ascii") if zero else None
        except UnicodeDecodeError:
            return None

    def is_code(self, address: int) -> bool:
        """Whether an address is in an executable section."""
        section = self.section_of(address)
        return section is not None and section.executable

    def is_linkage(self, address: int) -> bool:
        """Whether an address is in a table of `linkage`."""
        return any(address in table for table in self.linkage)

    @cached_property
    def _starts(self) -> list[int]:
        return [section.address for section in self.sections]


@dataclass(frozen=True)
class Binary:
    """A shared library or a Python extension."""

    member: str
    """The path in the wheel."""
    format: BinaryFormat
    machine: str
    """The architecture as in `modelwheel.platforms` (`x86_64`), or the format's own name of an unknown one."""
    libraries: tuple[str, ...]
    """The shared libraries that it requires."""
    search_paths: tuple[str, ...]
    """Directories that are searched for them first: ELF's RUNPATH and Mach-O's LC_RPATH."""
    exports: frozenset[str]
    imports: tuple[Import, ...]
    weaknesses: tuple[str, ...]
    """Properties that make it vulnerable or impossible to load, each as `has ...; fix`."""
    minimum_system: tuple[int, ...]
    """The oldest supported macOS; empty on other systems."""
    # Not the image itself: only one gate needs it, and loading copies every section.
    load_image: Callable[[], Image]

    @cached_property
    def image(self) -> Image:
        """The code and data in memory."""
        return self.load_image()
