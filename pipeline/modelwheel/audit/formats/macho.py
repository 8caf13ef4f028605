"""Reads Mach-O shared libraries (macOS) into a `Binary`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lief

from .binary import POINTER, Binary, Image, Import, Section

_CPU = lief.MachO.Header.CPU_TYPE
_MACHINES = {_CPU.X86_64: "x86_64", _CPU.ARM64: "aarch64"}

_WRITE, _EXECUTE = 2, 4
"""VM_PROT_WRITE and VM_PROT_EXECUTE of mach/vm_prot.h."""

_OF_THE_LINKER = ("__mh_dylib_header", "___dso_handle")
"""Symbols that every image has; zig's linker exports them by mistake."""

_LINKAGE = ("__got", "__auth_got", "__la_symbol_ptr")


def read(member: str, file: lief.MachO.FatBinary) -> list[Binary]:
    """Converts a parsed Mach-O file: one binary for each architecture in it."""
    return [_read(member, file, index) for index in range(file.size)]


def _read(member: str, file: lief.MachO.FatBinary, index: int) -> Binary:
    binary = file.at(index)
    assert binary is not None
    return Binary(
        member=member,
        format="Mach-O",
        machine=_MACHINES.get(binary.header.cpu_type, str(binary.header.cpu_type)),
        libraries=tuple(_libraries(binary)),
        search_paths=tuple(str(command.path) for command in binary.rpaths),
        exports=frozenset(_plain(str(symbol.name)) for symbol in _exported(binary)),
        imports=tuple(_imports(binary)),
        weaknesses=tuple(_weaknesses(binary)),
        minimum_system=_minimum_system(binary),
        load_image=partial(_load, file, index),
    )


def _plain(name: str) -> str:
    return name.removeprefix("_")


def _libraries(binary: lief.MachO.Binary) -> Iterator[str]:
    own = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    return (str(library.name) for library in binary.libraries if library.command != own)


def _exported(binary: lief.MachO.Binary) -> Iterator[lief.MachO.Symbol]:
    """Exported symbols from the export trie; external symbols need not be exported."""
    # Linkers write the trie into one or the other: the latter with chained fixups.
    for command in (binary.dyld_info, binary.dyld_exports_trie):
        for export in command.exports if command is not None else ():
            if export.symbol is not None and export.symbol.name not in _OF_THE_LINKER:
                yield export.symbol


def _imports(binary: lief.MachO.Binary) -> Iterator[Import]:
    for symbol in binary.imported_symbols:
        binding = symbol.binding_info if symbol.has_binding_info else None
        library = binding.library if binding is not None else None
        weak = binding is not None and binding.weak_import
        name = "" if library is None else str(library.name)
        yield Import(_plain(str(symbol.name)), name, weak=weak)


def _weaknesses(binary: lief.MachO.Binary) -> Iterator[str]:
    if lief.MachO.Header.FLAGS.ALLOW_STACK_EXECUTION in binary.header.flags_list:
        yield "requires an executable stack; link it without -allow_stack_execute"
    writable = _WRITE | _EXECUTE
    if any(segment.init_protection & writable == writable for segment in binary.segments):
        yield "has memory that is writable and executable; link it without -segprot"
    if binary.header.cpu_type == _CPU.ARM64 and not binary.has_code_signature:
        yield "is not signed, so Macs with Apple silicon do not load it; run codesign -s - on it"


def _minimum_system(binary: lief.MachO.Binary) -> tuple[int, ...]:
    if binary.build_version is not None:
        return tuple(binary.build_version.minos)
    # LC_VERSION_MIN_MACOSX, the older command with the same meaning.
    return tuple(binary.version_min.version) if binary.version_min is not None else ()


def _load(file: lief.MachO.FatBinary, index: int) -> Image:
    """Loads the image. LIEF frees a binary together with its file, so the file is passed and kept alive."""
    binary = file.at(index)
    assert binary is not None
    return _image(binary)


def _image(binary: lief.MachO.Binary) -> Image:
    sections = sorted(binary.sections, key=lambda section: section.virtual_address)
    code = lief.MachO.Section.FLAGS
    sections = [
        s for s in sections if s.size and len(s.content) == s.size
    ]  # without zero-filled sections
    image_sections = tuple(
        Section(
            s.virtual_address,
            bytes(s.content),
            s.has(code.PURE_INSTRUCTIONS) or s.has(code.SOME_INSTRUCTIONS),
        )
        for s in sections
    )
    linkage = tuple(
        range(s.virtual_address, s.virtual_address + s.size)
        for s in sections
        if str(s.name) in _LINKAGE
    )
    names = {s.value: _plain(str(s.name)) for s in _defined(binary)}
    entries = {symbol.value: _plain(str(symbol.name)) for symbol in _exported(binary)}
    image = Image(image_sections, {}, {}, linkage, names, entries, tuple(_data_in_code(binary)))
    image.functions.update(_functions(binary, image))
    image.pointers.update(_pointers(binary, image))
    return image


def _defined(binary: lief.MachO.Binary) -> Iterator[lief.MachO.Symbol]:
    """Symbols defined in this file, except those for debuggers (N_STAB of mach-o/nlist.h)."""
    return (s for s in binary.symbols if s.value and s.name and not s.raw_type & 0xE0)


def _functions(binary: lief.MachO.Binary, image: Image) -> Iterator[tuple[int, int]]:
    """Function starts from LC_FUNCTION_STARTS, if the linker writes it, the unwind tables, and symbols."""
    addresses = {f.address for f in binary.functions} | set(image.names)
    # Mach-O has no sizes of functions.
    return ((address, 0) for address in addresses if image.is_code(address))


def _data_in_code(binary: lief.MachO.Binary) -> Iterator[range]:
    """Jump tables (LC_DATA_IN_CODE), which compilers place after the functions that use them."""
    if binary.data_in_code is not None:
        for entry in sorted(binary.data_in_code.entries, key=lambda entry: entry.offset):
            start = binary.offset_to_virtual_address(entry.offset)
            if isinstance(start, int):
                yield range(start, start + entry.length)


def _pointers(binary: lief.MachO.Binary, image: Image) -> Iterator[tuple[int, int]]:
    for relocation in binary.relocations:
        if isinstance(relocation, lief.MachO.RelocationFixup):
            target = relocation.target
        else:
            target = int.from_bytes(image.read(relocation.address, POINTER), "little")
        if image.section_of(target) is not None:
            yield relocation.address, target
