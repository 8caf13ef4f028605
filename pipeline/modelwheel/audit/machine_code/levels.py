"""Assigns the functions of a model's library to CPU levels, from the library's own dispatch tables.

`modelwheel::Level` and `modelwheel::Variant` (`src/program.h`) name the function that runs each level and
batch size. Code that is reachable from the functions of one level only belongs to that level; code that is
also reachable from elsewhere must run on lower levels too. Names of functions are not needed, and wheels
have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..formats.binary import Image
from .code import Code

LAYOUT = {
    "offsetof(Level, name)": 0,
    "offsetof(Level, variants)": 8,
    "offsetof(Variant, batch_size)": 0,
    "offsetof(Variant, run)": 40,
    "sizeof(Variant)": 80,
}
"""Bytes; `program.h` has a static assertion for each, and a test compares the two."""

_SIZE_BYTES = 8
"""`sizeof(std::size_t)`: every supported architecture has 64 bits."""


@dataclass(frozen=True)
class Entry:
    """A function that the runtime calls for one level and batch size."""

    level: str
    batch_size: int
    slot: int
    """The address of the pointer to it."""
    address: int


def find_entries(image: Image, levels: Sequence[str], batch_sizes: Sequence[int]) -> list[Entry]:
    """Finds the functions of every level; a level without a complete table has none.

    Args:
        image: The library.
        levels: The names of its levels.
        batch_sizes: Those of a level's variants, in the order of the table: ascending, and repeated for
            each length.
    """
    entries = []
    to_variants = LAYOUT["offsetof(Level, variants)"] - LAYOUT["offsetof(Level, name)"]
    for slot, target in image.pointers.items():
        # A `Level` is any pair of adjacent pointers of which the first leads to the name of a level.
        variants = image.pointers.get(slot + to_variants)
        level = image.text(target)
        if level is not None and level in levels and variants is not None:
            # Any two pointers may look like a `Level`: the batch sizes of the manifest and pointers
            # to code confirm it.
            own = list(_read_variants(image, level, variants, batch_sizes))
            entries += own if len(own) == len(batch_sizes) else []
    return sorted(entries, key=lambda entry: (levels.index(entry.level), entry.batch_size))


def _read_variants(
    image: Image, level: str, address: int, batch_sizes: Sequence[int]
) -> Iterator[Entry]:
    for index, size in enumerate(batch_sizes):
        start = address + index * LAYOUT["sizeof(Variant)"]
        stored = image.read(start + LAYOUT["offsetof(Variant, batch_size)"], _SIZE_BYTES)
        slot = start + LAYOUT["offsetof(Variant, run)"]
        run = image.pointers.get(slot)
        if int.from_bytes(stored, "little") == size and run and image.is_code(run):
            yield Entry(level, size, slot, run)


@dataclass(frozen=True)
class Place:
    """The level that a function runs on, and why."""

    level: str
    """The lowest such level; empty for code that every CPU may run."""
    route: tuple[int, ...]
    """Addresses of functions: the entry, the functions called in between, and the function itself."""


def assign(
    code: Code, entries: Sequence[Entry], levels: Sequence[str], prefix: str
) -> dict[int, Place]:
    """Returns the lowest level that runs each reachable function, by the function's address.

    Args:
        code: The functions of the library.
        entries: The entries of all levels.
        levels: The names of the levels, lowest first.
        prefix: The prefix of exported functions; another gate checks that nothing else is exported.
    """
    # The order matters: `_add` keeps the first level that reaches a function. First comes everything that
    # does not go through a dispatch table: exported functions, and pointers in data other than the entries
    # and linkage tables (a linkage table only forwards calls, which the graph follows by themselves).
    image = code.image
    apart = {entry.slot for entry in entries} | code.named_pointers()
    roots = [t for slot, t in image.pointers.items() if slot not in apart and image.is_code(t)]
    places: dict[int, Place] = {}
    interface = [a for a, name in image.entries.items() if not name or name.startswith(prefix)]
    _add(places, "", code.reach([*interface, *roots]))
    for level in levels:
        _add(places, level, code.reach(e.address for e in entries if e.level == level))
    return places


def _add(places: dict[int, Place], level: str, reached: dict[int, int | None]) -> None:
    for address in reached:
        if address not in places:
            places[address] = Place(level, tuple(_route(reached, address)))


def _route(reached: dict[int, int | None], address: int | None) -> list[int]:
    route = []
    while address is not None:
        route.append(address)
        address = reached[address]
    return route[::-1]
