"""Gate: binaries export only their interface, need only what every system has, and are hardened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ...platforms import SYSTEMS
from ...util.words import first_few
from ..formats.binary import Binary, Import
from ..opened import OpenedWheel, Role
from .finding import GateFinding

_PYTHON = re.compile(r"_?Py[A-Z_]\w*")
# Without `..`: nothing outside of the wheel's own directory may be loaded.
_SEARCH_PATH = re.compile(r"(\$ORIGIN|@loader_path)(/(?!\.\.(/|$))[\w.+-]+)*/?")


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Checks exports, imports, required libraries, search paths and hardening."""
    for name in wheel.contents.files:
        # auditwheel and delvewheel copy into NAME.libs, delocate into NAME.dylibs.
        if any(part.endswith((".libs", ".dylibs")) for part in PurePosixPath(name).parts[:-1]):
            yield GateFinding(name, "was copied into the wheel by the repair; link it statically")
    offered = frozenset[str]().union(*(b.exports for b in wheel.binaries_of("library")))
    for binary in wheel.binaries:
        role = wheel.role(binary)
        if role == "other":
            yield GateFinding(
                binary.member,
                "is neither the model's library nor its extension; remove it",
            )
            continue
        yield from _check_exports(wheel, binary, role)
        yield from _check_libraries(wheel, binary, role)
        yield from _check_imports(binary, role, offered)
        yield from (
            GateFinding(
                binary.member,
                f"searches {path or 'the current directory'!r} for libraries; use paths relative to "
                "the file ($ORIGIN, @loader_path)",
            )
            for path in binary.search_paths
            if not _SEARCH_PATH.fullmatch(path)
        )
        yield from (GateFinding(binary.member, weakness) for weakness in binary.weaknesses)


def _check_exports(wheel: OpenedWheel, binary: Binary, role: Role) -> Iterator[GateFinding]:
    expected = frozenset({"PyInit__core"})
    if role == "library":
        expected = _declared(wheel, binary)
    surplus, missing = sorted(binary.exports - expected), sorted(expected - binary.exports)
    if surplus:
        yield GateFinding(
            binary.member,
            f"exports {first_few(surplus)}, which may collide with other libraries in the process; "
            "link it with the list of exported symbols (library.cmake, extension.cmake)",
        )
    if missing:
        yield GateFinding(
            binary.member, f"does not export {first_few(missing)}; build the wheel again"
        )


def _declared(wheel: OpenedWheel, library: Binary) -> frozenset[str]:
    """The functions that the model's header declares."""
    header = f"{wheel.module}/include/{wheel.module}.h"
    if header not in wheel.contents.files:
        if wheel.manifest is None or "c" in wheel.manifest.model.interfaces:
            return frozenset()
        # Only the extension calls it; names that begin with the model's clash with no other library.
        own = {name for name in library.exports if name.startswith(f"{wheel.module}_")}
        return frozenset({f"{wheel.module}_api", *own})
    # The header is the contract of the C API, so a function that it does not declare is a mistake.
    text = wheel.read(header).decode(errors="replace")
    pattern = rf"^MODELWHEEL_EXPORT .*?({wheel.module}_\w+)\("
    return frozenset(re.findall(pattern, text, re.MULTILINE))


def _check_libraries(wheel: OpenedWheel, binary: Binary, role: Role) -> Iterator[GateFinding]:
    (system,) = (
        candidate for candidate in SYSTEMS.values() if candidate.binary_format == binary.format
    )
    allowed = system.libraries
    if role == "extension":
        own = rf"(@rpath/|@loader_path/(lib/)?)?(lib)?{wheel.module}\.(so|dylib|dll)"
        allowed += (*system.extension_libraries, own)
    for name in binary.libraries:
        if not any(re.fullmatch(pattern, name) for pattern in allowed):
            yield GateFinding(
                binary.member,
                f"requires {name}, which not every system has; link it statically, or avoid it",
            )


def _check_imports(binary: Binary, role: Role, offered: frozenset[str]) -> Iterator[GateFinding]:
    unknown = sorted({i.name for i in binary.imports if not _is_found(i, binary, role, offered)})
    if unknown:
        yield GateFinding(
            binary.member,
            f"requires {first_few(unknown)}, which none of its libraries defines; link the library that "
            "does, and use -Wl,--no-undefined",
        )


def _is_found(imported: Import, binary: Binary, role: Role, offered: frozenset[str]) -> bool:
    """Whether the loader will find a symbol, as far as the format says where it looks."""
    # PE and Mach-O record the library of each symbol, ELF does so through symbol versions. That the
    # libraries themselves are allowed is checked in `_check_libraries`.
    if imported.weak or imported.library or imported.name in offered:
        return True
    # PEP 513: extensions do not link libpython; the interpreter that loads them has these symbols.
    if role == "extension" and _PYTHON.fullmatch(imported.name):
        return True
    # musl's libc has no symbol versions, so any symbol that is not C++ may be from there.
    musl = any(name == "libc.so" or name.startswith("libc.musl") for name in binary.libraries)
    return musl and not imported.name.startswith("_Z")
