"""The rooms of the pipeline and the arrows between them are those of docs/architecture.md, no more and no fewer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TypeAlias

import pytest

from modelwheel.compiler.passes import PIPELINE

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pipeline" / "modelwheel"
PAGE = ROOT / "docs" / "architecture.md"

_ROW = re.compile(r"^\| `([\w.]+)` \| ([^|\n]*) \|$", re.MULTILINE)
"""A row of a table of the page: a room, and what it may import."""

LARGEST_FOLDER = 20
"""Modules in a folder, beside its `__init__`."""

COMPILER = "modelwheel.compiler"
"""Its folders are rooms with a table of their own."""


def _module_name(path: Path) -> str:
    """The dotted name of a module of the package, as Python imports it."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_module_name(path): path for path in PACKAGE.rglob("*.py")}
"""Every module of the package by its name."""


@cache
def imported_names(module: str) -> tuple[str, ...]:
    """Absolute names of what a module imports, wherever in it: at its top, in functions, for types alone."""
    return tuple(_imported_names(module))


def _imported_names(module: str) -> Iterator[str]:
    path = SOURCES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def imported_modules(module: str) -> frozenset[str]:
    """The modules of the package that a module imports, itself left out."""
    found = set()
    for name in imported_names(module):
        if name in SOURCES:
            found.add(name)
        elif name.rpartition(".")[0] in SOURCES:
            found.add(name.rpartition(".")[0])
    return frozenset(found - {module})


def room_of(module: str) -> str:
    """The package or module directly below `modelwheel` that a module belongs to; empty for `modelwheel` itself."""
    return module.partition(".")[2].partition(".")[0]


def inner_room_of(module: str) -> str:
    """As `room_of`, with the folders of the compiler: `.ir`; `.` for modules directly in it."""
    if not f"{module}.".startswith(f"{COMPILER}."):
        return room_of(module)
    folder = module.removeprefix(COMPILER).removeprefix(".").partition(".")[0]
    return f".{folder}" if (PACKAGE / "compiler" / folder).is_dir() else "."


Arrows: TypeAlias = dict[str, set[str]]
"""Rooms, in their order, with the rooms that they import."""


def drawn(*, inner: bool) -> Arrows:
    """A table of the page: the package's, or the compiler's."""
    text = PAGE.read_text(encoding="utf-8")
    return {
        room: set(re.findall(r"`([\w.]+)`", allowed))
        for room, allowed in _ROW.findall(text)
        if room.startswith(".") is inner
    }


def measured(*, inner: bool) -> Arrows:
    """The same from the code.

    Left out: `__init__`, which holds the version and may be read by all, and names `api`, which it imports on first use;
    and `__main__`.
    """
    room = inner_room_of if inner else room_of
    rooms: Arrows = {}
    for module in SOURCES:
        if inner and room_of(module) != "compiler":
            continue
        imported = {room(other) for other in imported_modules(module)}
        rooms.setdefault(room(module), set()).update(imported - {room(module), ""})
    return {name: arrows for name, arrows in rooms.items() if name not in ("", "__main__")}


TABLES = pytest.mark.parametrize("inner", [False, True], ids=["package", "compiler"])


@TABLES
def test_the_page_names_every_room(inner: bool) -> None:
    assert sorted(drawn(inner=inner)) == sorted(measured(inner=inner))


@pytest.mark.parametrize(
    ("inner", "room"),
    [(inner, room) for inner in (False, True) for room in sorted(measured(inner=inner))],
)
def test_a_room_imports_what_the_page_allows(inner: bool, room: str) -> None:
    """Also no less: an arrow that is no longer used is taken off the page."""
    assert sorted(measured(inner=inner)[room]) == sorted(drawn(inner=inner)[room])


@TABLES
def test_arrows_point_to_earlier_rooms(inner: bool) -> None:
    order = [*drawn(inner=False), *drawn(inner=inner)]
    upward = [
        f"{room} -> {other}"
        for room, allowed in drawn(inner=inner).items()
        for other in allowed
        if order.index(other) >= order.index(room)
    ]
    assert upward == []


def test_nobody_imports_the_compiler() -> None:
    importers = [room for room, arrows in measured(inner=False).items() if "compiler" in arrows]
    assert importers == []


def test_no_folder_is_a_corridor() -> None:
    folders = {path.parent for path in SOURCES.values()}
    counted = {folder: len(list(folder.glob("[!_]*.py"))) for folder in folders}
    assert {folder for folder, modules in counted.items() if modules > LARGEST_FOLDER} == set()


def test_modules_of_the_compiler_have_names_of_their_own() -> None:
    """A module may only share its name with the folder that it is in."""
    rooms = ("program", "model", "workers", "compiler")
    modules = [m for m in SOURCES if room_of(m) in rooms and SOURCES[m].name != "__init__.py"]
    names = [module.rpartition(".")[2] for module in modules]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph = {module: imported_modules(module) - {PACKAGE.name} for module in SOURCES}
    TopologicalSorter(graph).prepare()  # raises CycleError, which shows the circle


def test_only_the_compiler_imports_tensorflow() -> None:
    importers = _importers("tensorflow")
    assert importers  # else this test would look in the wrong place
    assert {m for m in importers if not m.startswith(f"{COMPILER}.")} == {
        "modelwheel.bench.sides.tensorflow"
    }


@pytest.mark.parametrize("package", ["tensorflow", "google.protobuf"])
def test_passes_see_neither_tensorflow_nor_protobuf(package: str) -> None:
    seeing = [m for m in _importers(package) if inner_room_of(m) in (".passes", ".ir", "program")]
    assert seeing == []


def test_passes_know_the_types_of_what_they_read() -> None:
    """XLA's instructions are records, not messages in which a wrong name is found at run time."""
    assert [m for m in _importers("typing.Any") if inner_room_of(m) == ".passes"] == []
    assert _importers("typing.Any")  # else this test would look for the wrong name


def _importers(package: str) -> set[str]:
    return {
        module
        for module in SOURCES
        if any(f"{name}.".startswith(f"{package}.") for name in imported_names(module))
    }


def test_the_page_has_the_passes_in_their_order() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Passes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == [
        one.name for one in PIPELINE
    ]
