"""One view of shared objects, whatever their format: what they need and offer, and their code.

`elf.py`, `macho.py` and `pe.py` fill it from what LIEF parses; no gate knows a format.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...platforms import BinaryFormat

POINTER = 8
"""Bytes of an address; every supported architecture has 64 bits."""


@dataclass(frozen=True)
class Import:
    """A symbol that another file must define."""

    name: str
    """Without the underscore that Mach-O puts before the names of C."""
    library: str = ""
    """The file that defines it, where the format tells."""
    version: str = ""
    """ELF's symbol version, such as `GLIBC_2.17`."""
    weak: bool = False
    """Whether the file can be loaded without it."""


@dataclass(frozen=True)
class Section:
    """Some bytes of a loaded image."""

    address: int
    content: bytes
    executable: bool

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.address + len(self.content)


@dataclass(frozen=True)
class Image:
    """What a loader would put into memory, at the addresses that the file itself uses."""

    sections: tuple[Section, ...]
    """Ascending, none empty."""
    functions: dict[int, int]
    """Known functions: address and size, which is 0 where only the beginning is known."""
    pointers: dict[int, int]
    """Words of data that hold an address of this image when loaded, and that address."""
    linkage: tuple[range, ...]
    """Tables of such words, each used by itself and never indexed (`.got`)."""
    names: dict[int, str]
    """Whatever the file calls an address."""
    entries: dict[int, str]
    """Functions that others find by name, with that name, or that the loader calls, with none."""
    data: tuple[range, ...] = ()
    """Tables among the code, ascending, where the format tells."""

    def section_of(self, address: int) -> Section | None:
        """The section with this address."""
        index = bisect.bisect_right(self._starts, address) - 1
        found = self.sections[index] if index >= 0 else None
        return found if found is not None and address < found.end else None

    def read(self, address: int, size: int) -> bytes:
        """Some bytes; fewer where a section ends."""
        section = self.section_of(address)
        if section is None:
            return b""
        offset = address - section.address
        return section.content[offset : offset + size]

    def text(self, address: int) -> str | None:
        """The zero-terminated text at an address; None if there is none."""
        content, zero, _ = self.read(address, 256).partition(b"\0")
        try:
            return content.decode("ascii") if zero else None
        except UnicodeDecodeError:
            return None

    def is_code(self, address: int) -> bool:
        """Whether it lies in an executable section."""
        section = self.section_of(address)
        return section is not None and section.executable

    def is_linkage(self, address: int) -> bool:
        """Whether it lies in a table of `linkage`."""
        return any(address in table for table in self.linkage)

    @cached_property
    def _starts(self) -> list[int]:
        return [section.address for section in self.sections]


@dataclass(frozen=True)
class Binary:
    """A shared object: a library or a Python extension."""

    member: str
    """Its path in the wheel."""
    format: BinaryFormat
    machine: str
    """The architecture in the words of `modelwheel.platforms` (`x86_64`), else as the format calls it."""
    libraries: tuple[str, ...]
    """Shared libraries that it needs."""
    search_paths: tuple[str, ...]
    """Where those are looked for first, as ELF's RUNPATH and Mach-O's LC_RPATH tell."""
    exports: frozenset[str]
    imports: tuple[Import, ...]
    weaknesses: tuple[str, ...]
    """What makes it easier to attack or impossible to load, each as `has ...; remedy`."""
    minimum_system: tuple[int, ...]
    """The oldest macOS that it runs on; empty for other systems."""
    load_image: Callable[[], Image]

    @cached_property
    def image(self) -> Image:
        """Its code and data."""
        return self.load_image()
