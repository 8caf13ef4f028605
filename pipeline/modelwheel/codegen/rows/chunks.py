"""Bytes of arrays in as many equal chunks as a batch has rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...program.aliases import has_all_bytes
from ...program.arrays import Slice, overlap
from ...program.view import View


@dataclass(frozen=True)
class Chunks:
    """For each row of a batch some bytes: as many, at equal distances; perhaps so in each iteration of a loop."""

    allocation: int
    start: int
    """Where those of the first row begin."""
    size: int
    """Bytes for each row, gaps in them included; at most `period`."""
    period: int
    """From the start of one row to that of the next."""
    rows: int
    filled: bool = False
    """Whether all bytes for each row belong to the array."""
    step: int = 0
    """From one iteration to another, where no row has its bytes of all iterations together: at least all rows. An array
    with the steps of a sequence before the batch is as one of such iterations."""
    iterations: int = 1

    @property
    def hull(self) -> Slice:
        """From the first byte to the last."""
        way = (self.iterations - 1) * self.step
        size = way + (self.rows - 1) * self.period + self.size
        return Slice(allocation=self.allocation, offset=self.start, size=size)

    @property
    def distances(self) -> tuple[int, ...]:
        """The extents that arrays have in common whose rows may be compared."""
        return self.allocation, self.period, self.rows, self.step, self.iterations


class _Loop(NamedTuple):
    """Evenly spaced parts of an array; the distance is in bytes."""

    times: int
    step: int


def chunks_of(view: View, axes: Sequence[int], rows: int, groups: int = 1) -> Chunks | None:
    """An array as rows of a batch; None if the bytes of rows are not apart.

    Args:
        view: The array; in a loop, those of all iterations.
        axes: The axes of rows, from the slowest varying to the fastest; each row has as many of their elements.
        rows: The number of rows.
        groups: How often all rows follow each other along these axes: 1 if the elements of one row do.
    """
    if 0 in view.shape or min(view.strides, default=0) < 0:
        return None
    period, loops = _apart(view, axes, rows, groups)
    item, part = view.element_type.item_bytes, view.slice
    inside = [loop for loop in loops if loop.step < period]
    outside = [loop for loop in loops if loop.step >= period]
    size = item + sum((loop.times - 1) * loop.step for loop in inside)
    if not period or size > period:
        return None
    filled = math.prod(loop.times for loop in inside) * item == size
    step, way = abs(part.step), part.step * (part.iterations - 1)
    start = part.offset + view.start * item + min(way, 0)
    if size + abs(way) <= period:
        filled = filled and step <= size
        size += abs(way)
    else:
        outside.append(_Loop(part.iterations, step))
    repeated = _merged(outside, rows * period)
    if repeated is None:
        return None
    count, step = repeated
    return Chunks(part.allocation, start, size, period, rows, filled, step, count)


def _apart(view: View, axes: Sequence[int], rows: int, groups: int) -> tuple[int, Sequence[_Loop]]:
    """The distance of rows, 0 if they are not evenly spaced, and the other loops over the elements."""
    item = view.element_type.item_bytes
    steps = [_Loop(*axis) for axis in zip(view.shape, view.strides, strict=True)]
    loops = [loop for axis, loop in enumerate(steps) if axis not in axes]
    period = 0
    for count, step in (steps[axis] for axis in axes):
        if period:
            loops.append(_Loop(count, step))
            continue
        before = math.gcd(count, groups)
        groups //= before
        loops.append(_Loop(before, count // before * step))
        if before < count:
            each, rest = divmod(count // before, rows)
            if rest or groups > 1:
                return 0, ()
            period = each * step * item
            loops.append(_Loop(each, step))
    return period, [_Loop(count, step * item) for count, step in loops if count > 1]


def _merged(loops: Sequence[_Loop], least: int) -> _Loop | None:
    """Loops as a single one, of steps of at least so many bytes; None if there is no such loop."""
    merged = _Loop(1, 0)
    for loop in sorted(loops, key=lambda one: one.step):
        follows = not merged.step or loop.step == merged.times * merged.step
        if loop.step < least or not follows:
            return None
        merged = _Loop(merged.times * loop.times, merged.step or loop.step)
    return merged


def chunks_of_bytes(view: View, rows: int, groups: int = 1) -> Chunks | None:
    """A slice as rows of a batch, several times; None if its elements do not divide, are not all of it, or are others in
    each iteration."""
    part = view.slice
    is_whole = part.size == view.elements * view.element_type.item_bytes
    if part.step or not part.size or not is_whole or view.elements % (rows * groups):
        return None
    size = part.size // (rows * groups)
    step = rows * size if groups > 1 else 0
    place = part.allocation, part.offset, size, size, rows
    return Chunks(*place, filled=True, step=step, iterations=groups)


class Demands:
    """The memory that later steps read: bytes of rows, of which they need the first ones only, or other bytes."""

    def __init__(self, wholes: Sequence[Slice] = (), chunks: Sequence[Chunks] = ()) -> None:
        self._wholes = set(wholes)
        self._chunks = set(chunks)

    def copy(self) -> Demands:
        """These demands in a record of their own."""
        return Demands(tuple(self._wholes), tuple(self._chunks))

    def add(self, other: Demands) -> bool:
        """Adds what another record has; returns whether something is new."""
        before = len(self._wholes), len(self._chunks)
        self._wholes |= other._wholes
        self._chunks |= other._chunks
        return before != (len(self._wholes), len(self._chunks))

    def read(self, part: Slice | Chunks) -> None:
        """Notes that a step reads bytes: of rows, the first ones only."""
        if isinstance(part, Chunks):
            self._chunks.add(part)
        else:
            self._wholes.add(part.whole)

    def need_all(self, written: Slice | Chunks) -> bool:
        """Whether more is read of what a step writes than what belongs to the first rows."""
        hull = written.hull if isinstance(written, Chunks) else written.whole
        if any(overlap(hull, whole) for whole in self._wholes):
            return True
        return any(
            overlap(hull, read.hull)
            and not (isinstance(written, Chunks) and _reads_own_rows(read, written))
            for read in self._chunks
        )

    def written(self, view: View, ways: Sequence[Chunks]) -> None:
        """Notes that all of an array is written: whoever reads it reads nothing of before.

        Args:
            view: The array.
            ways: It as rows of a batch.
        """
        if has_all_bytes(view) and abs(view.slice.step) <= view.slice.size:
            self._fill(view.slice.whole)
        for chunks in ways:
            if chunks.filled:
                self._chunks = {read for read in self._chunks if not _has(chunks, read)}
                if chunks.size == chunks.period and chunks.step in (0, chunks.rows * chunks.period):
                    self._fill(chunks.hull)

    def _fill(self, part: Slice) -> None:
        self._wholes = {left for whole in self._wholes for left in _without(whole, part)}
        self._chunks = {read for read in self._chunks if list(_without(read.hull, part))}


def _reads_own_rows(read: Chunks, written: Chunks) -> bool:
    """Whether a reader of some first rows meets nothing that is written for later ones."""
    distance = read.start - written.start
    # What is read of row i begins here, from where row i is written: it must end before row i + 1 is. Before it there are
    # the last rows of another iteration, if there is one.
    ends = distance + read.size <= written.period and (distance >= 0 or not read.step)
    return ends and read.distances == written.distances


def _has(written: Chunks, read: Chunks) -> bool:
    """Whether all that is read of each row is written for the same one."""
    stop = written.start + written.size
    is_within = written.start <= read.start and read.start + read.size <= stop
    return is_within and read.distances == written.distances


def _without(whole: Slice, part: Slice) -> Iterator[Slice]:
    """The bytes that are left of some without others."""
    if not overlap(whole, part):
        yield whole
        return
    stop, part_stop = whole.offset + whole.size, part.offset + part.size
    if whole.offset < part.offset:
        size = part.offset - whole.offset
        yield Slice(allocation=whole.allocation, offset=whole.offset, size=size)
    if part_stop < stop:
        yield Slice(allocation=whole.allocation, offset=part_stop, size=stop - part_stop)
