"""The contents of memory at one time: which value each byte of each allocation belongs to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .arrays import Slice

T = TypeVar("T")


@dataclass(frozen=True)
class Held(Generic[T]):
    """Bytes that hold a part of something."""

    start: int
    stop: int
    what: T | None
    """None where nothing is known."""


class Contents(Generic[T]):
    """For each allocation: parts in order, apart from each other; what none of them holds is unknown."""

    def __init__(self) -> None:
        self._parts: dict[int, Sequence[Held[T]]] = {}

    def copy(self) -> Contents[T]:
        """A record of its own with the same contents."""
        other = Contents[T]()
        other._parts = dict(self._parts)
        return other

    def write(self, part: Slice, what: T | None) -> None:
        """Notes that a slice holds something now; None if nobody knows what."""
        start, stop = part.offset, part.offset + part.size
        if start == stop:
            return
        parts = self._parts.get(part.allocation, ())
        first, last = self._range(parts, start, stop)
        new: list[Held[T]] = []
        for held in parts[first:last]:
            if held.start < start:
                new.append(Held(held.start, start, held.what))
        if what is not None:
            new.append(Held(start, stop, what))
        for held in parts[first:last]:
            if held.stop > stop:
                new.append(Held(stop, held.stop, held.what))
        # Copies share the old sequence.
        self._parts[part.allocation] = (*parts[:first], *new, *parts[last:])

    def read(self, part: Slice) -> Iterator[Held[T]]:
        """The contents of a slice, from its start to its end without gaps."""
        start, stop = part.offset, part.offset + part.size
        parts = self._parts.get(part.allocation, ())
        first, last = self._range(parts, start, stop)
        for held in parts[first:last]:
            if start < held.start:
                yield Held(start, held.start, None)
            yield Held(max(start, held.start), min(stop, held.stop), held.what)
            start = min(stop, held.stop)
        if start < stop:
            yield Held(start, stop, None)

    @staticmethod
    def _range(parts: Sequence[Held[T]], start: int, stop: int) -> tuple[int, int]:
        """The positions of the parts that have bytes between two offsets."""
        first = bisect_right(parts, start, key=lambda held: held.stop)
        last = first
        while last < len(parts) and parts[last].start < stop:
            last += 1
        return first, last


def merged(parts: Iterable[Slice]) -> list[Slice]:
    """Slices without overlaps that together are some slices; those that only touch stay apart."""
    slices: list[Slice] = []
    for part in sorted(parts, key=lambda part: (part.allocation, part.offset)):
        last = slices[-1] if slices else None
        if last is not None and last.allocation == part.allocation:
            stop = last.offset + last.size
            if part.offset < stop:
                size = max(stop, part.offset + part.size) - last.offset
                slices[-1] = last.model_copy(update={"size": size})
                continue
        if part.size:
            slices.append(Slice(allocation=part.allocation, offset=part.offset, size=part.size))
    return slices
