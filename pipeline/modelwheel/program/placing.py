"""Places the values of a program in one piece of memory, so that those that live at different times share it.

XLA does the same (xla/service/buffer_assignment.h), but for all that its own kernels write. What epilogues, strips and
attention keep in registers or caches needs no place any more, and the room that it had is used by others here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from .arrays import ALIGNMENT, Slice, covers, overlap


class Access(NamedTuple):
    """What a step reads and writes; of a step with others in it, everything that they use counts as read."""

    reads: tuple[Slice, ...]
    writes: tuple[Slice, ...]
    """All of it is written."""


@dataclass(frozen=True)
class _Use:
    """A slice that holds something from one step to another, by their numbers; the last one reads or writes it."""

    first: int
    last: int
    part: Slice


@dataclass(frozen=True)
class _Value:
    """Slices that overlap while they are in use: they keep their distances."""

    uses: Sequence[_Use]
    first: int
    last: int
    place: Slice
    """All of it."""

    @classmethod
    def of(cls, uses: Sequence[_Use]) -> _Value:
        """The value that has these uses."""
        parts = [use.part for use in uses]
        start = min(part.offset for part in parts)
        size = max(part.offset + part.size for part in parts) - start
        place = Slice(allocation=parts[0].allocation, offset=start, size=size)
        return cls(uses, min(use.first for use in uses), max(use.last for use in uses), place)


_Order: TypeAlias = Callable[[_Value], tuple[int, ...]]

_ORDERS: tuple[_Order, ...] = (
    lambda v: (-v.place.size, v.first, v.place.offset),
    lambda v: (-v.place.size * (v.last - v.first + 1), v.first, v.place.offset),
)
"""In which values get places: the largest first, so that small ones find gaps. None is best for all programs."""


@dataclass(frozen=True)
class Placement:
    """Where the values of some allocations are: in one."""

    size: int
    _moves: Mapping[tuple[int, Slice], int]
    """How far each slice moves, by the step that uses it."""
    _allocation: int

    def moved(self, time: int, part: Slice) -> Slice:
        """Where a slice is that the step with a number, or one inside it, uses."""
        way = self._moves.get((time, part.whole))
        if way is None:
            return part
        return part.model_copy(update={"allocation": self._allocation, "offset": part.offset + way})


def placed(
    accesses: Sequence[Access],
    results: Sequence[Slice],
    shared: int,
    others: Collection[int],
) -> Placement:
    """Places the values of some allocations in one of them.

    Args:
        accesses: What each step reads and writes.
        results: What callers read in the end; it stays where it is.
        shared: The allocation of all in the end. As planned by XLA, with the others in its gaps or behind it, is one way
            that is tried.
        others: Allocations of one value each, which move there.
    """
    uses = _uses(accesses, results, shared, others)
    values = _values(uses, others)
    planned = [value for value in values if value.place.allocation == shared]
    fixed = [value for value in planned if any(overlap(value.place, result) for result in results)]
    ways = [_offsets(values, planned, _ORDERS[0]), *(_offsets(values, fixed, o) for o in _ORDERS)]
    offsets, size = min(ways, key=lambda way: way[1])
    moves = {
        (use.last, use.part): offset - value.place.offset
        for value, offset in zip(values, offsets, strict=True)
        for use in value.uses
    }
    return Placement(size, moves, shared)


@dataclass(frozen=True)
class Room:
    """What is free of an allocation. Offsets are aligned."""

    gap: range
    """The largest part between values; it may be empty."""
    behind: int
    """Where all values have ended."""


class Lifetimes:
    """What of an allocation is in use, and when."""

    def __init__(
        self, accesses: Sequence[Access], results: Sequence[Slice], allocation: int
    ) -> None:
        """Finds it.

        Args:
            accesses: What each step reads and writes.
            results: What callers read in the end.
            allocation: The allocation.
        """
        self.end = len(accesses)
        """When callers read: the number that a step after all others would have."""
        self._living: list[list[tuple[int, int]]] = [[] for _ in range(self.end + 1)]
        for use in _uses(accesses, results, allocation, ()):
            self._add(use.first, use.last, (use.part.offset, use.part.size))

    def _add(self, first: int, last: int, place: tuple[int, int]) -> None:
        for time in range(first, last + 1):
            self._living[time].append(place)

    def reserve(self, first: int, last: int, size: int) -> int:
        """The offset of so many more bytes, in use from one step to another: the first where nothing else is then."""
        living = self._living[first : last + 1]
        offset = _gap({place for places in living for place in places}, size)
        self._add(first, last, (offset, size))
        return offset

    @property
    def size(self) -> int:
        """Where everything has ended, at any time."""
        return max((offset + size for places in self._living for offset, size in places), default=0)

    def rooms(self) -> list[Room]:
        """What is free while each step runs."""
        return [_room(places) for places in self._living[: self.end]]


def _room(places: Iterable[tuple[int, int]]) -> Room:
    gap, behind = range(0), 0
    for offset, size in sorted(places):
        if offset - behind > len(gap):
            gap = range(behind, offset)
        behind = max(behind, _aligned(offset + size))
    return Room(gap, behind)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _offsets(
    values: Sequence[_Value], fixed: Sequence[_Value], order: _Order
) -> tuple[list[int], int]:
    """An offset for each value, and the bytes that they take together."""
    taken = [(value, value.place.offset) for value in fixed]
    kept = {id(value) for value in fixed}
    for value in sorted((value for value in values if id(value) not in kept), key=order):
        beside = [
            (offset, other.place.size)
            for other, offset in taken
            if other.first <= value.last and value.first <= other.last
        ]
        # What moves keeps its distance from aligned places.
        odd = value.place.offset % ALIGNMENT
        taken.append((value, _gap(beside, value.place.size + odd) + odd))
    found = {id(value): offset for value, offset in taken}
    size = max((offset + value.place.size for value, offset in taken), default=0)
    return [found[id(value)] for value in values], size


def _gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """The first aligned offset with so much room between places, which have an offset and a size."""
    start = 0
    for offset, length in sorted(taken):
        if start + size <= offset:
            break
        start = max(start, _aligned(offset + length))
    return start


def _values(uses: Sequence[_Use], others: Collection[int]) -> list[_Value]:
    """Uses that overlap in memory and time, together, and those of each of `others`."""

    def is_same(a: Slice, b: Slice) -> bool:
        return overlap(a, b) or (a.allocation == b.allocation and a.allocation in others)

    groups: list[int] = list(range(len(uses)))

    def group(number: int) -> int:
        while groups[number] != number:
            groups[number] = number = groups[groups[number]]
        return number

    current: list[int] = []
    for number, use in enumerate(uses):  # by their first steps
        current = [other for other in current if uses[other].last >= use.first]
        for other in current:
            if is_same(uses[other].part, use.part):
                groups[group(other)] = group(number)
        current.append(number)
    members: dict[int, list[_Use]] = {}
    for number, use in enumerate(uses):
        members.setdefault(group(number), []).append(use)
    return [_Value.of(found) for found in members.values()]


def _uses(
    accesses: Sequence[Access], results: Sequence[Slice], shared: int, others: Collection[int]
) -> list[_Use]:
    """When which slices of some allocations are in use, in the order of their first steps."""
    # Callers read after all steps.
    times = [*accesses, Access(tuple(results), ())]
    began: dict[int, int] = {}
    found = set[_Use]()
    for time, (seen, changed) in enumerate(times):
        for part in (*seen, *changed):
            first = began.setdefault(part.allocation, time)
            if part.allocation in others:
                found.add(_Use(first, time, part))
        found.update(_Use(time, time, part) for part in changed if part.allocation == shared)
        found.update(
            _Use(_written(times, part, time), time, part)
            for part in seen
            if part.allocation == shared
        )
    return sorted(found, key=_position)


def _position(use: _Use) -> tuple[int, ...]:
    part = use.part
    return (
        use.first,
        use.last,
        part.allocation,
        part.offset,
        part.size,
        part.step,
        part.iterations,
    )


def _written(accesses: Sequence[Access], part: Slice, time: int) -> int:
    """The last step before that writes all of a slice."""
    for before in reversed(range(time)):
        if any(covers(other, part) for other in accesses[before].writes):
            return before
    return 0
