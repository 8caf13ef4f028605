"""Gate: binaries offer their interface alone, need what every system has, and are hardened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ...platforms import SYSTEMS
from ..formats.binary import Binary, Import
from ..opened import OpenedWheel, Role
from .finding import GateFinding

_PYTHON = re.compile(r"_?Py[A-Z_]\w*")
_SEARCH_PATH = re.compile(r"(\$ORIGIN|@loader_path)(/(?!\.\.(/|$))[\w.+-]+)*/?")


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Exports, imports, needed libraries, search paths, hardening."""
    for name in wheel.contents.files:
        if any(part.endswith((".libs", ".dylibs")) for part in PurePosixPath(name).parts[:-1]):
            yield GateFinding(name, "was grafted into the wheel by its repair; link it statically")
    offered = frozenset[str]().union(*(b.exports for b in wheel.binaries_of("library")))
    for binary in wheel.binaries:
        role = wheel.role(binary)
        if role == "other":
            yield GateFinding(
                binary.member,
                "is neither the model's library nor its extension; nothing else may be packed",
            )
            continue
        yield from _check_exports(wheel, binary, role)
        yield from _check_libraries(wheel, binary, role)
        yield from _check_imports(binary, role, offered)
        yield from (
            GateFinding(
                binary.member,
                f"looks for libraries in {path or 'the current directory'!r}; only places beside "
                "it ($ORIGIN, @loader_path) are the same on every machine",
            )
            for path in binary.search_paths
            if not _SEARCH_PATH.fullmatch(path)
        )
        yield from (GateFinding(binary.member, weakness) for weakness in binary.weaknesses)


def _check_exports(wheel: OpenedWheel, binary: Binary, role: Role) -> Iterator[GateFinding]:
    expected = frozenset({"PyInit__core"})
    if role == "library":
        expected = _declared(wheel)
    surplus, missing = sorted(binary.exports - expected), sorted(expected - binary.exports)
    if surplus:
        yield GateFinding(
            binary.member,
            f"exports {_some(surplus)}, which could clash with other libraries of the process; "
            "link it with the list of exported symbols (library.cmake, extension.cmake)",
        )
    if missing:
        yield GateFinding(binary.member, f"does not export {_some(missing)}; build the wheel again")


def _declared(wheel: OpenedWheel) -> frozenset[str]:
    """The functions that the model's header declares."""
    header = f"{wheel.module}/include/{wheel.module}.h"
    if header not in wheel.contents.files:
        return frozenset()
    text = wheel.read(header).decode(errors="replace")
    pattern = rf"^MODELWHEEL_EXPORT .*?({wheel.module}_\w+)\("
    return frozenset(re.findall(pattern, text, re.MULTILINE))


def _some(names: list[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def _check_libraries(wheel: OpenedWheel, binary: Binary, role: Role) -> Iterator[GateFinding]:
    (system,) = (one for one in SYSTEMS.values() if one.binary_format == binary.format)
    allowed = system.libraries
    if role == "extension":
        own = rf"(@rpath/|@loader_path/(lib/)?)?(lib)?{wheel.module}\.(so|dylib|dll)"
        allowed += (*system.extension_libraries, own)
    for name in binary.libraries:
        if not any(re.fullmatch(pattern, name) for pattern in allowed):
            yield GateFinding(
                binary.member,
                f"needs {name}, which not every system has; link it statically or do without it",
            )


def _check_imports(binary: Binary, role: Role, offered: frozenset[str]) -> Iterator[GateFinding]:
    unknown = sorted({i.name for i in binary.imports if not _is_found(i, binary, role, offered)})
    if unknown:
        yield GateFinding(
            binary.member,
            f"needs {_some(unknown)}, which no library that it names defines; link what defines "
            "them, and all of it with -Wl,--no-undefined",
        )


def _is_found(found: Import, binary: Binary, role: Role, offered: frozenset[str]) -> bool:
    """Whether the loader finds a symbol, as far as the format tells where it looks."""
    if found.weak or found.library or found.name in offered:
        return True
    if role == "extension" and _PYTHON.fullmatch(found.name):
        return True
    # musl's libc has no symbol versions: what is not C++ may come from there.
    musl = any(name == "libc.so" or name.startswith("libc.musl") for name in binary.libraries)
    return musl and not found.name.startswith("_Z")
