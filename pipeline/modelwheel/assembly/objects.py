"""Reads the object files that XLA writes: ELF, Mach-O and COFF."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def loaded_bytes(path: Path) -> int:
    """The bytes of an object that are loaded into memory: code and its tables, without symbols."""
    return sum(_loaded_sections(path))


def _loaded_sections(path: Path) -> Iterator[int]:
    import lief

    binary = lief.COFF.parse(str(path)) if lief.is_coff(str(path)) else lief.parse(str(path))
    assert binary is not None, f"{path} came from the compiler"
    for section in binary.sections:
        if isinstance(section, lief.ELF.Section):
            loaded = section.has(lief.ELF.Section.FLAGS.ALLOC)
        # A Mach-O object has one nameless segment; its sections name the segment of the library.
        elif isinstance(section, lief.MachO.Section):
            loaded = section.segment_name in ("__TEXT", "__DATA")
        else:
            # COFF marks what the linker reads but does not keep.
            dropped = lief.PE.Section.CHARACTERISTICS
            loaded = not (
                section.has_characteristic(dropped.LNK_REMOVE)
                or section.has_characteristic(dropped.LNK_INFO)
            )
        if loaded:
            yield section.size
