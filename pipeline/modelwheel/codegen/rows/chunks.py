"""Bytes of arrays in as many equal chunks as a batch has rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    """From one iteration to another, where no row has its bytes of all iterations together: at least all rows."""
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


def chunks_of(view: View, axes: Sequence[int], rows: int) -> Chunks | None:
    """An array as rows of a batch; None if the bytes of rows are not apart.

    Args:
        view: The array; in a loop, those of all iterations.
        axes: The axes of rows, from the slowest varying to the fastest; each row has as many of their elements.
        rows: The number of rows.
    """
    item, part = view.element_type.item_bytes, view.slice
    wide = [axis for axis in axes if view.shape[axis] != 1]
    if not wide or 0 in view.shape or min(view.strides) < 0:
        return None
    first = wide[0]
    each, rest = divmod(view.shape[first], rows)
    if rest:
        return None
    shape = [each if axis == first else extent for axis, extent in enumerate(view.shape)]
    own = 1 + sum((n - 1) * stride for n, stride in zip(shape, view.strides, strict=True))
    step, way = abs(part.step), part.step * (part.iterations - 1)
    size, period = own * item, each * view.strides[first] * item
    if size > period:
        return None
    apart = all(view.strides[axis] for axis, extent in enumerate(view.shape) if extent != 1)
    filled = apart and view.elements == own * rows
    start = part.offset + view.start * item + min(way, 0)
    if size + abs(way) <= period:
        filled = filled and step <= size
        return Chunks(part.allocation, start, size + abs(way), period, rows, filled)
    if step < rows * period:
        return None
    return Chunks(part.allocation, start, size, period, rows, filled, step, part.iterations)


def chunks_of_bytes(view: View, rows: int) -> Chunks | None:
    """A slice as rows of a batch; None if its elements do not divide, are not all of it, or are others in each iteration."""
    part = view.slice
    is_whole = part.size == view.elements * view.element_type.item_bytes
    if part.step or not part.size or not is_whole or view.elements % rows:
        return None
    size = part.size // rows
    return Chunks(part.allocation, part.offset, size, size, rows, filled=True)


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

    def written(self, view: View, chunks: Chunks | None) -> None:
        """Notes that all of an array is written: whoever reads it reads nothing of before."""
        if chunks is not None and chunks.filled:
            self._chunks = {read for read in self._chunks if not _has(chunks, read)}
            if chunks.size == chunks.period and chunks.step in (0, chunks.rows * chunks.period):
                self._fill(chunks.hull)
        elif has_all_bytes(view) and abs(view.slice.step) <= view.slice.size:
            self._fill(view.slice.whole)

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
