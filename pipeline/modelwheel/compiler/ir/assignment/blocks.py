"""Places blocks of memory so that those that are in use at different times share it.

XLA does the same (xla/service/buffer_assignment.h), but for all that its own kernels write. What epilogues, strips and
attention keep in registers or caches needs no place any more, and the room that it had is used by others here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ....program.arrays import ALIGNMENT

Path: TypeAlias = tuple[tuple[int, int, bool], ...]
"""The branches that a node is in: the number of their node, that of the branch, and whether only one of them runs."""


@dataclass(frozen=True)
class Use:
    """Bytes that are in use from one time to another. All offsets are in bytes."""

    start: int
    size: int
    first: int
    last: int
    path: Path = ()

    def overlaps(self, other: Use) -> bool:
        """Whether both have bytes in common, if their offsets are from one place."""
        return self.start < other.start + other.size and other.start < self.start + self.size

    def meets(self, other: Use) -> bool:
        """Whether both are in use at one time."""
        if not self.path or not other.path:
            return self.first <= other.last and other.first <= self.last
        for (node, branch, is_choice), (other_node, other_branch, _) in zip(
            self.path, other.path, strict=False
        ):
            if node != other_node:
                break
            if branch != other_branch:
                return not is_choice
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Place:
    """Where a block begins."""

    allocation: int
    offset: int


@dataclass(eq=False)
class Block:
    """Memory that is in one piece. Offsets are from its origin; some may be negative."""

    uses: Sequence[Use]
    """None of a value without bytes."""
    home: Place | None = None
    """Where its origin is in XLA's plan."""
    is_pinned: bool = False
    """Whether it cannot be elsewhere: it is a parameter, a constant or a result."""

    @cached_property
    def start(self) -> int:
        """Where its first byte is."""
        return min((use.start for use in self.uses), default=0)

    @cached_property
    def stop(self) -> int:
        """Where its last byte ends."""
        return max((use.start + use.size for use in self.uses), default=0)

    @cached_property
    def first(self) -> int:
        """The first time that anything of it is in use."""
        return min((use.first for use in self.uses), default=0)

    @cached_property
    def last(self) -> int:
        """The last time."""
        return max((use.last for use in self.uses), default=0)

    @cached_property
    def is_in_branches(self) -> bool:
        """Whether any of it is used in one of several branches that run at the same time."""
        return any(not is_choice for use in self.uses for _, _, is_choice in use.path)


class _Taken:
    """Blocks at their places; finds those that may be in use at the time of another one by arrays of times."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[tuple[Block, int]]] = {}
        """By allocation, with the offsets of their origins."""
        self._times: dict[int, np.ndarray[Any, Any]] = {}
        """By allocation, one column for each block: the first and the last time, and whether it is in branches."""

    def add(self, block: Block, place: Place) -> None:
        """Puts a block at a place."""
        index = place.allocation
        blocks = self._blocks.setdefault(index, [])
        times = self._times.get(index)
        if times is None or len(blocks) == times.shape[1]:
            self._times[index] = larger = np.zeros((3, 2 * len(blocks) or 8), np.int64)
            if times is not None:
                larger[:, : len(blocks)] = times
            times = larger
        times[:, len(blocks)] = block.first, block.last, block.is_in_branches
        blocks.append((block, place.offset))

    def near(self, block: Block, allocation: int) -> Iterator[tuple[Block, int]]:
        """The blocks of an allocation of which any uses may be at the time of uses of another block."""
        blocks = self._blocks.get(allocation)
        if not blocks:
            return
        first, last, is_in_branches = self._times[allocation][:, : len(blocks)]
        may_meet = (first <= block.last) & (block.first <= last)
        if block.is_in_branches:
            may_meet |= is_in_branches.astype(bool)
        for number in np.flatnonzero(may_meet).tolist():
            yield blocks[number]


_Order: TypeAlias = Callable[[Block], tuple[int, ...]]


def _by_size(block: Block) -> tuple[int, ...]:
    return (block.start - block.stop, block.first, _home_offset(block))


def _by_area(block: Block) -> tuple[int, ...]:
    size = block.stop - block.start
    return (-size * (block.last - block.first + 1), block.first, _home_offset(block))


_ORDERS: tuple[_Order, ...] = (_by_size, _by_area)
"""In which blocks get places: the largest first, so that small ones find gaps. None is best for all programs."""


def plan(
    blocks: Sequence[Block], shared: int, movable: frozenset[int], *, trusted: bool
) -> tuple[list[Place], int]:
    """A place for each block, and the bytes of the shared allocation.

    Args:
        blocks: All blocks.
        shared: The allocation of all that moves.
        movable: The allocations whose blocks may move: `shared` and those that are to disappear.
        trusted: Whether blocks at their homes are known to be apart while they are in use. Otherwise one that meets
            another there moves.
    """
    pinned = {block: block.home for block in blocks if block.is_pinned and block.home}
    staying = [b for b in blocks if b not in pinned and b.home and b.home.allocation not in movable]
    planned = [b for b in blocks if b not in pinned and b.home and b.home.allocation == shared]
    fixed = _kept(pinned, staying, trusted=trusted)
    ways = [_placed(blocks, shared, _kept(fixed, planned, trusted=trusted), _by_size)]
    ways += [_placed(blocks, shared, fixed, order) for order in _ORDERS]
    places, size = min(ways, key=lambda way: way[1])
    return [places[block] for block in blocks], size


_Places: TypeAlias = dict[Block, Place]


def _kept(places: _Places, candidates: Iterable[Block], *, trusted: bool) -> _Places:
    """Places of some blocks, with those of others that can stay at their homes."""
    kept, taken = dict(places), _taken(places)
    for block in candidates:
        assert block.home is not None
        is_inside = block.home.offset + block.start >= 0
        if trusted or (is_inside and not _meets_any(block, block.home, taken)):
            kept[block] = block.home
            taken.add(block, block.home)
    return kept


def _taken(places: _Places) -> _Taken:
    taken = _Taken()
    for block, place in places.items():
        taken.add(block, place)
    return taken


def _meets_any(block: Block, at: Place, taken: _Taken) -> bool:
    """Whether a block has bytes in common with others while both are in use."""
    return any(
        x.start < y.start + there - at.offset + y.size
        and y.start + there - at.offset < x.start + x.size
        and x.meets(y)
        for other, there in taken.near(block, at.allocation)
        for x in block.uses
        for y in other.uses
    )


def _placed(
    blocks: Sequence[Block], shared: int, kept: _Places, order: _Order
) -> tuple[_Places, int]:
    """A place for each block, and the bytes that they take together in the shared allocation."""
    places, taken = dict(kept), _taken(kept)
    for block in sorted((block for block in blocks if block not in kept), key=order):
        places[block] = Place(shared, _free(block, taken.near(block, shared)))
        taken.add(block, places[block])
    size = max((p.offset + b.stop for b, p in places.items() if p.allocation == shared), default=0)
    return places, size


def _free(block: Block, taken: Iterable[tuple[Block, int]]) -> int:
    """The first offset for the origin of a block where none of its bytes meets those of others while both are in use."""
    barred = sorted(
        (at + other.start - use.start - use.size, at + other.start + other.size - use.start)
        for occupied, at in taken
        for other in occupied.uses
        for use in block.uses
        if use.size and other.size and use.meets(other)
    )
    # What moves keeps its distance from aligned places.
    odd = _home_offset(block) % ALIGNMENT
    offset = _aligned(-block.start, odd)
    for low, high in barred:
        if offset <= low:
            break
        offset = max(offset, _aligned(high, odd))
    return offset


def _aligned(offset: int, odd: int) -> int:
    """The first offset from another one on that is so far behind an aligned one."""
    return -((odd - offset) // ALIGNMENT) * ALIGNMENT + odd


def _home_offset(block: Block) -> int:
    return block.home.offset if block.home else 0
