"""Which wheel serves which Python on which platform, as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from packaging.tags import Tag

from ...platforms import PYTHONS, architecture_of
from .wheels import IndexedWheel

_ARCHITECTURES = {"x86_64": "x86-64", "aarch64": "Arm64", "universal2": "universal"}
_SYSTEMS = (
    (re.compile(r"manylinux_(\d+)_(\d+)_(\w+)"), "Linux", "glibc {}.{}"),
    (re.compile(r"musllinux_(\d+)_(\d+)_(\w+)"), "Linux", "musl {}.{}"),
    (re.compile(r"macosx_(\d+)_(\d+)_(\w+)"), "macOS", "{}.{}"),
)
_OLD_NAMES = {"manylinux1": "2_5", "manylinux2010": "2_12", "manylinux2014": "2_17"}
"""What the first names of manylinux stand for (PEP 600)."""


class Place(NamedTuple):
    """The system and CPU that a wheel runs on."""

    system: str
    architecture: str
    libc: str
    """`glibc`, `musl`, or empty."""
    oldest: str
    """The oldest version of the C library or system that will do (`glibc 2.28`); empty if any will."""

    @property
    def name(self) -> str:
        """In one word or two: what pages filter by."""
        musl = " musl" if self.libc == "musl" else ""
        return f"{self.system} {self.architecture}{musl}".strip()

    @property
    def order(self) -> tuple[str, ...]:
        """The sort key of pages: Linux, macOS, Windows."""
        return (self.system.lower(), self.libc, self.architecture)


def place_of(wheel: IndexedWheel) -> Place:
    """The system and CPU that a wheel runs on; of several platform tags, the one with the oldest version counts."""
    places = [_parse(tag.platform) for tag in wheel.tags]
    return min(
        places, key=lambda place: [int(number) for number in re.findall(r"\d+", place.oldest)]
    )


def _parse(platform: str) -> Place:
    old, _, rest = platform.partition("_")
    if old in _OLD_NAMES:
        platform = f"manylinux_{_OLD_NAMES[old]}_{rest}"
    for pattern, system, oldest in _SYSTEMS:
        if match := pattern.fullmatch(platform):
            text = oldest.format(match[1], match[2])
            libc = text.partition(" ")[0] if " " in text else ""
            return Place(system, _architecture(match[3]), libc, text.removesuffix(".0"))
    if platform.startswith("win"):
        return Place("Windows", _architecture(platform.partition("_")[2] or "x86"), "", "")
    if platform.startswith("linux_"):
        return Place("Linux", _architecture(rest), "", "as where it was built")
    return Place("Any system" if platform == "any" else platform, "", "", "")


def _architecture(name: str) -> str:
    known = architecture_of(name)
    return _ARCHITECTURES.get(known, known)


@dataclass(frozen=True)
class Cell:
    """A wheel, or none, over some columns beside each other."""

    wheel: IndexedWheel | None
    columns: int


@dataclass(frozen=True)
class Row:
    """One platform."""

    place: Place
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Grid:
    """All wheels of a version."""

    pythons: tuple[str, ...]
    """The columns: `3.13`, and `3.14t` for a free-threaded one; those come last."""
    rows: tuple[Row, ...]

    @property
    def complete(self) -> bool:
        """Whether there is a wheel for every Python on every platform."""
        return all(cell.wheel is not None for row in self.rows for cell in row.cells)


def make_grid(wheels: Sequence[IndexedWheel]) -> Grid:
    """The table of one version's wheels."""
    tags = {f"{tag.interpreter}{'t' * tag.abi.endswith('t')}" for w in wheels for tag in w.tags}
    known = {*PYTHONS, *(tag for tag in tags if re.fullmatch(r"cp3\d+t?", tag))}
    columns = sorted(known, key=lambda name: (name.endswith("t"), _minor(name)))
    by_place: dict[Place, list[IndexedWheel]] = {}
    for wheel in wheels:
        by_place.setdefault(place_of(wheel)._replace(oldest=""), []).append(wheel)
    rows = [
        Row(place_of(of_place[0]), tuple(_cells(of_place, columns)))
        for _, of_place in sorted(by_place.items(), key=lambda item: item[0].order)
    ]
    return Grid(tuple(f"3.{name.removeprefix('cp3')}" for name in columns), tuple(rows))


def _cells(wheels: Sequence[IndexedWheel], columns: Iterable[str]) -> Iterator[Cell]:
    """The wheels of a platform along the columns; one that serves neighbours has one cell for them."""
    last: Cell | None = None
    for column in columns:
        wheel = next((w for w in wheels if any(_serves(tag, column) for tag in w.tags)), None)
        if last is not None and wheel is not None and last.wheel is wheel:
            last = Cell(wheel, last.columns + 1)
            continue
        if last is not None:
            yield last
        last = Cell(wheel, 1)
    if last is not None:
        yield last


def _serves(tag: Tag, column: str) -> bool:
    """Whether a wheel with a tag can be installed on the Python of a column (PEP 425, 703)."""
    plain, threaded = column.removesuffix("t"), column.endswith("t")
    if tag.abi in ("abi3", "abi3t"):
        return (tag.abi == "abi3t") == threaded and _minor(tag.interpreter) <= _minor(plain)
    if tag.abi == "none":
        generic = tag.interpreter in ("py3", "py2.py3")
        return generic or tag.interpreter == plain or _older_generic(tag.interpreter, plain)
    return tag.interpreter == plain and tag.abi == column


def _older_generic(interpreter: str, plain: str) -> bool:
    return interpreter.startswith("py3") and _minor(interpreter) <= _minor(plain)


def _minor(name: str) -> int:
    """The minor version in `cp314`, `cp314t` or `py310`."""
    digits = re.sub(r"\D", "", name)[1:]
    return int(digits or 0)
