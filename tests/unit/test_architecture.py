"""The rooms of the pipeline and the arrows between them are those of docs/architecture.md, no more and no fewer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pipeline" / "modelwheel"
PAGE = ROOT / "docs" / "architecture.md"

_ROW = re.compile(r"^\| `(\w+)` \| ([^|\n]*) \|$", re.MULTILINE)
"""A row of the page's table: a room, and what it may import."""


def _module_name(path: Path) -> str:
    """The dotted name of a module of the package, as Python imports it."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_module_name(path): path for path in PACKAGE.rglob("*.py")}
"""Every module of the package by its name."""


def imported_names(module: str) -> Iterator[str]:
    """Absolute names of what a module imports, wherever in it: at its top, in functions, for types alone."""
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


def drawn() -> dict[str, set[str]]:
    """The page's table: every room, in its order, with the rooms that it may import."""
    text = PAGE.read_text(encoding="utf-8")
    return {room: set(re.findall(r"`(\w+)`", allowed)) for room, allowed in _ROW.findall(text)}


def measured() -> dict[str, set[str]]:
    """The same from the code.

    Left out: `__init__`, which holds the version and may be read by all, and names `api`, which it imports on first use;
    and `__main__`.
    """
    rooms: dict[str, set[str]] = {}
    for module in SOURCES:
        room = room_of(module)
        imported = {room_of(other) for other in imported_modules(module)}
        rooms.setdefault(room, set()).update(imported - {room, ""})
    return {room: arrows for room, arrows in rooms.items() if room not in ("", "__main__")}


def test_the_page_names_every_room() -> None:
    assert sorted(drawn()) == sorted(measured())


@pytest.mark.parametrize("room", sorted(measured()))
def test_a_room_imports_what_the_page_allows(room: str) -> None:
    """Also no less: an arrow that is no longer used is taken off the page."""
    assert sorted(measured()[room]) == sorted(drawn()[room])


def test_arrows_point_to_earlier_rooms() -> None:
    order = list(drawn())
    upward = [
        f"{room} -> {other}"
        for room, allowed in drawn().items()
        for other in allowed
        if order.index(other) >= order.index(room)
    ]
    assert upward == []


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph = {module: imported_modules(module) - {PACKAGE.name} for module in SOURCES}
    TopologicalSorter(graph).prepare()  # raises CycleError, which shows the circle


def test_only_the_worker_imports_tensorflow() -> None:
    importers = {
        module
        for module in SOURCES
        if any(name.split(".")[0] == "tensorflow" for name in imported_names(module))
    }
    assert importers  # else this test would look in the wrong place
    assert {m for m in importers if not m.startswith("modelwheel.compiler.")} == set()
