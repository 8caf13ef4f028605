"""Reads ELF shared libraries (Linux) into a `Binary`."""

from __future__ import annotations

from collections.abc import Iterator

import lief

from .binary import POINTER, Binary, Image, Import, Section

_MACHINES = {lief.ELF.ARCH.X86_64: "x86_64", lief.ELF.ARCH.AARCH64: "aarch64"}

_TAG = lief.ELF.DynamicEntry.TAG
_SEGMENT = lief.ELF.Segment
_SECTION = lief.ELF.Section
_BINDING = lief.ELF.Symbol.BINDING


def read(member: str, binary: lief.ELF.Binary) -> Binary:
    """Converts a parsed ELF file."""
    return Binary(
        member=member,
        format="ELF",
        machine=_MACHINES.get(binary.header.machine_type, str(binary.header.machine_type)),
        libraries=tuple(str(name) for name in binary.libraries),
        search_paths=tuple(_search_paths(binary)),
        exports=frozenset(str(symbol.name) for symbol in _exported(binary)),
        imports=tuple(_imports(binary)),
        weaknesses=tuple(_weaknesses(binary)),
        minimum_system=(),
        load_image=lambda: _image(binary),
    )


def _search_paths(binary: lief.ELF.Binary) -> Iterator[str]:
    for entry in binary.dynamic_entries:
        if isinstance(entry, lief.ELF.DynamicEntryRunPath):
            yield from str(entry.runpath).split(":")
        elif isinstance(entry, lief.ELF.DynamicEntryRpath):
            yield from str(entry.rpath).split(":")


def _exported(binary: lief.ELF.Binary) -> list[lief.ELF.Symbol]:
    """Exported symbols of every kind; LIEF's own `exported_symbols` has only functions and objects."""
    visible = (lief.ELF.Symbol.VISIBILITY.DEFAULT, lief.ELF.Symbol.VISIBILITY.PROTECTED)
    return [
        symbol
        for symbol in binary.dynamic_symbols
        # shndx 0 is SHN_UNDEF: the symbol is defined elsewhere.
        if symbol.shndx and symbol.binding != _BINDING.LOCAL and symbol.visibility in visible
    ]


def _imports(binary: lief.ELF.Binary) -> Iterator[Import]:
    # A symbol itself only has a version; which library defines it follows from the table of required versions.
    libraries = {
        str(version.name): str(requirement.name)
        for requirement in binary.symbols_version_requirement
        for version in requirement.get_auxiliary_symbols()
    }
    for symbol in binary.dynamic_symbols:
        if symbol.shndx or not symbol.name:
            continue
        version = symbol.symbol_version
        auxiliary = version.symbol_version_auxiliary if version is not None else None
        name = str(auxiliary.name) if auxiliary is not None else ""
        weak = symbol.binding == _BINDING.WEAK
        yield Import(str(symbol.name), libraries.get(name, ""), name, weak)


def _weaknesses(binary: lief.ELF.Binary) -> Iterator[str]:
    # Without this header the loader assumes that the stack has to be executable.
    stack = binary.get(_SEGMENT.TYPE.GNU_STACK)
    if stack is None or stack.has(_SEGMENT.FLAGS.X):
        yield "requires an executable stack; link it with -Wl,-z,noexecstack"
    if binary.get(_SEGMENT.TYPE.GNU_RELRO) is None:
        yield "has writable relocation tables (no RELRO); link it with -Wl,-z,relro"
    if not _binds_at_once(binary):
        yield "binds functions lazily, through writable tables; link it with -Wl,-z,now"
    if binary.has(_TAG.TEXTREL):
        yield "has relocations in its code; compile every object with -fPIC"
    if binary.has(_TAG.RPATH):
        yield "has an RPATH, which overrides LD_LIBRARY_PATH; link it with --enable-new-dtags"
    if any(s.has(_SEGMENT.FLAGS.W) and s.has(_SEGMENT.FLAGS.X) for s in binary.segments):
        yield "has memory that is writable and executable; link it without -z execstack or -N"


def _binds_at_once(binary: lief.ELF.Binary) -> bool:
    flags = lief.ELF.DynamicEntryFlags.FLAG
    return binary.has(_TAG.BIND_NOW) or any(
        entry.has(flags.BIND_NOW) or entry.has(flags.NOW)
        for entry in binary.dynamic_entries
        if isinstance(entry, lief.ELF.DynamicEntryFlags)
    )


def _image(binary: lief.ELF.Binary) -> Image:
    # Sections and not segments: an executable segment may hold read-only data as well.
    sections = [
        section
        for section in binary.sections
        if section.has(_SECTION.FLAGS.ALLOC)
        and not section.has(_SECTION.FLAGS.TLS)
        and section.type != _SECTION.TYPE.NOBITS  # .bss has no bytes in the file
        and section.size
    ]
    sections.sort(key=lambda section: section.virtual_address)
    image_sections = tuple(
        Section(s.virtual_address, bytes(s.content), s.has(_SECTION.FLAGS.EXECINSTR))
        for s in sections
    )
    linkage = tuple(
        range(s.virtual_address, s.virtual_address + s.size)
        for s in sections
        if str(s.name) in (".got", ".got.plt")
    )
    entries = {symbol.value: str(symbol.name) for symbol in _exported(binary)}
    # Pointers come last: the addends of some relocations are read from the image itself.
    image = Image(image_sections, _functions(binary), {}, linkage, _names(binary), entries)
    image.pointers.update(_pointers(binary, image))
    return image


def _functions(binary: lief.ELF.Binary) -> dict[int, int]:
    """Functions from the unwind tables, which compilers write for every function, and from symbols, if any."""
    sizes: dict[int, int] = {}
    for function in binary.functions:
        # The same function may come from both, and symbols of assembly often have size 0.
        sizes[function.address] = max(function.size, sizes.get(function.address, 0))
    return sizes


def _names(binary: lief.ELF.Binary) -> dict[int, str]:
    return {
        symbol.value: str(symbol.name)
        for symbol in binary.symbols
        if symbol.is_function and symbol.value
    }


def _pointers(binary: lief.ELF.Binary, image: Image) -> Iterator[tuple[int, int]]:
    for relocation in binary.relocations:
        if relocation.symbol is not None and relocation.symbol.name:
            # A symbol from another library has the value 0, and leads to no code of this image.
            target = relocation.symbol.value and relocation.symbol.value + relocation.addend
        elif relocation.encoding == lief.ELF.Relocation.ENCODING.RELA:
            target = relocation.addend
        else:  # REL and RELR store the addend in the relocated word
            target = int.from_bytes(image.read(relocation.address, POINTER), "little")
        if target and image.section_of(target) is not None:
            yield relocation.address, target
