"""Reads PE shared libraries (Windows) into a `Binary`."""

from __future__ import annotations

from collections.abc import Iterator

import lief

from .binary import POINTER, Binary, Image, Import, Section

_TYPES = lief.PE.Header.MACHINE_TYPES
_MACHINES = {_TYPES.AMD64: "x86_64", _TYPES.ARM64: "aarch64"}

_SECTION = lief.PE.Section.CHARACTERISTICS


def read(member: str, binary: lief.PE.Binary) -> Binary:
    """Converts a parsed PE file."""
    return Binary(
        member=member,
        format="PE",
        machine=_MACHINES.get(binary.header.machine, str(binary.header.machine)),
        libraries=tuple(dict.fromkeys(str(library) for library in _libraries(binary))),
        search_paths=(),
        exports=frozenset(_exports(binary)),
        imports=tuple(_imports(binary)),
        weaknesses=tuple(_weaknesses(binary)),
        minimum_system=(),
        load_image=lambda: _image(binary),
    )


def _libraries(binary: lief.PE.Binary) -> Iterator[str]:
    for table in (binary.imports, binary.delay_imports):
        yield from (str(library.name) for library in table)


def _exports(binary: lief.PE.Binary) -> Iterator[str]:
    exported = binary.get_export()
    if exported is not None:
        yield from (str(entry.name or f"#{entry.ordinal}") for entry in exported.entries)


def _imports(binary: lief.PE.Binary) -> Iterator[Import]:
    for table in (binary.imports, binary.delay_imports):
        for library in table:
            for entry in library.entries:
                name = f"#{entry.ordinal}" if entry.is_ordinal else str(entry.name)
                yield Import(name, str(library.name))


def _weaknesses(binary: lief.PE.Binary) -> Iterator[str]:
    flags = lief.PE.OptionalHeader.DLL_CHARACTERISTICS
    header = binary.optional_header
    if not header.has(flags.NX_COMPAT):
        yield "allows executable data; link it with /NXCOMPAT"
    if not header.has(flags.DYNAMIC_BASE):
        yield "requires a fixed address; link it with /DYNAMICBASE"
    for section in binary.sections:
        if section.has_characteristic(_SECTION.MEM_WRITE) and section.has_characteristic(
            _SECTION.MEM_EXECUTE
        ):
            yield f"has memory that is writable and executable ({section.name!s}); link it without /SECTION"


def _image(binary: lief.PE.Binary) -> Image:
    base = binary.optional_header.imagebase
    sections = sorted(binary.sections, key=lambda section: section.virtual_address)
    image_sections = tuple(
        Section(
            base + s.virtual_address,
            bytes(s.content),
            s.has_characteristic(_SECTION.MEM_EXECUTE),
        )
        for s in sections
        if len(s.content)
    )
    names = _names(binary, base)
    # The loader calls DllMain, which no export names.
    entries = {base + binary.optional_header.addressof_entrypoint: "", **names}
    image = Image(image_sections, _functions(binary, base), {}, (), names, entries)
    image.pointers.update(_pointers(binary, image, base))
    return image


def _functions(binary: lief.PE.Binary, base: int) -> dict[int, int]:
    """Functions from the unwind table (.pdata), in which leaf functions may be missing."""
    functions = {base + f.address: 0 for f in binary.functions}
    for entry in binary.exceptions:
        if isinstance(entry, lief.PE.RuntimeFunctionX64):
            functions[base + entry.rva_start] = entry.rva_end - entry.rva_start
    return functions


def _names(binary: lief.PE.Binary, base: int) -> dict[int, str]:
    exported = binary.get_export()
    if exported is None:
        return {}
    # The address of a forwarded export is that of a text (`OTHER.function`), not of code.
    return {base + e.address: str(e.name) for e in exported.entries if not e.is_forwarded}


def _pointers(binary: lief.PE.Binary, image: Image, base: int) -> Iterator[tuple[int, int]]:
    dir64 = lief.PE.RelocationEntry.BASE_TYPES.DIR64
    for block in binary.relocations:
        for entry in block.entries:
            # The rest is padding (IMAGE_REL_BASED_ABSOLUTE) or of 32-bit code.
            if entry.type != dir64:
                continue
            slot = base + entry.address
            target = int.from_bytes(image.read(slot, POINTER), "little")
            if image.section_of(target) is not None:
                yield slot, target
