"""Places blocks of memory so that those that are in use at different times share it.

XLA does the same (xla/service/buffer_assignment.h), but for all that its own kernels write. What epilogues, strips and
attention keep in registers or caches needs no place any more, and the room that it had is used by others here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

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

    def may_meet(self, other: Block) -> bool:
        """Whether any uses of both may be at one time."""
        if self.is_in_branches and other.is_in_branches:
            return True
        return self.first <= other.last and other.first <= self.last


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
    kept = dict(places)
    for block in candidates:
        assert block.home is not None
        is_inside = block.home.offset + block.start >= 0
        if trusted or (is_inside and not any(_meet(block, block.home, *o) for o in kept.items())):
            kept[block] = block.home
    return kept


def _meet(a: Block, at: Place, b: Block, there: Place) -> bool:
    """Whether two blocks have bytes in common at places while both are in use."""
    if at.allocation != there.allocation or not a.may_meet(b):
        return False
    way = there.offset - at.offset
    return any(
        x.start < y.start + way + y.size and y.start + way < x.start + x.size and x.meets(y)
        for x in a.uses
        for y in b.uses
    )


def _placed(
    blocks: Sequence[Block], shared: int, kept: _Places, order: _Order
) -> tuple[_Places, int]:
    """A place for each block, and the bytes that they take together in the shared allocation."""
    places = dict(kept)
    taken = [(b, place.offset) for b, place in kept.items() if place.allocation == shared]
    for block in sorted((block for block in blocks if block not in kept), key=order):
        offset = _free(block, [(other, at) for other, at in taken if block.may_meet(other)])
        places[block] = Place(shared, offset)
        taken.append((block, offset))
    size = max((at + block.stop for block, at in taken), default=0)
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
