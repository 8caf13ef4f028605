"""Finds the memory that is free while a step runs: scratch memory, and copies of inputs and outputs, may be there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .arrays import ALIGNMENT, Slice, covers


class Access(NamedTuple):
    """The memory that a step reads and writes; of a step with others in it, everything that they use counts as read."""

    reads: tuple[Slice, ...]
    writes: tuple[Slice, ...]
    """All of it is written."""


@dataclass(frozen=True)
class Room:
    """The free parts of an allocation. Offsets are aligned."""

    gap: range
    """The largest part between values; it may be empty."""
    behind: int
    """Where all values have ended."""


class Lifetimes:
    """The parts of an allocation that are in use, and when."""

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
        for first, last, part in set(_uses(accesses, results, allocation)):
            self._add(first, last, (part.offset, part.size))

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
        """The memory that is free while each step runs."""
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


def _gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """The first aligned offset with so much room between places, which have an offset and a size."""
    start = 0
    for offset, length in sorted(taken):
        if start + size <= offset:
            break
        start = max(start, _aligned(offset + length))
    return start


def _uses(
    accesses: Sequence[Access], results: Sequence[Slice], allocation: int
) -> Iterator[tuple[int, int, Slice]]:
    """The slices of an allocation that hold something, each from one step to another, by their numbers."""
    # Callers read after all steps.
    times = [*accesses, Access(tuple(results), ())]
    for time, (seen, changed) in enumerate(times):
        yield from ((time, time, part) for part in changed if part.allocation == allocation)
        for part in seen:
            if part.allocation == allocation:
                yield _written(times, part, time), time, part


def _written(accesses: Sequence[Access], part: Slice, time: int) -> int:
    """The last step before that writes all of a slice."""
    for before in reversed(range(time)):
        if any(covers(other, part) for other in accesses[before].writes):
            return before
    return 0
