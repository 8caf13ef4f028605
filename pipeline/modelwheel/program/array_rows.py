"""Finds arrays whose columns several steps write, as those before a concatenation do.

Each step writes a part of each row, so its slice has bytes that others write. Together they write all of the array, and what
was in its memory before is of no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .aliases import fills, rows_of
from .arrays import Slice, overlap
from .steps import Step
from .view import View
from .walk import slices, walk, writes


@dataclass(frozen=True)
class ArrayOfRows:
    """An array that a step writes columns of."""

    place: Slice
    part: Slice
    """That of the step's output, from the first of its bytes to the last."""
    is_first: bool
    """Whether no other step has written some before."""


@dataclass(frozen=True)
class _Columns:
    """Columns of an array, in bytes."""

    start: int
    """In the allocation: where they begin in the first row."""
    length: int
    period: int
    rows: int
    allocation: int

    def fits(self, other: _Columns) -> bool:
        """Whether both have rows of one kind."""
        return (self.period, self.rows) == (other.period, other.rows)


def arrays_of_rows(steps: Sequence[Step]) -> dict[int, ArrayOfRows]:
    """The arrays by the positions of the steps that write their columns."""
    arrays: dict[int, ArrayOfRows] = {}
    for position, step in enumerate(steps):
        if position not in arrays and (columns := _written_columns(step)) is not None:
            members = _members(steps, position, columns)
            if members:
                start = min(member.start for member in members.values())
                size = columns.period * columns.rows
                place = Slice(allocation=columns.allocation, offset=start, size=size)
                arrays |= {
                    other: ArrayOfRows(place, _output(steps[other]).slice, other == position)
                    for other in members
                }
    return arrays


def _output(step: Step) -> View:
    return next(iter(step.outputs.values()))


def _written_columns(step: Step) -> _Columns | None:
    """The columns that a step writes as its first output."""
    if not step.outputs or fills(step, next(iter(step.outputs))):
        return None
    return _columns(_output(step))


def _columns(view: View) -> _Columns | None:
    rows = rows_of(view)
    if rows is None or rows.count < 2 or view.slice.step:
        return None
    start = view.slice.offset + rows.start
    return _Columns(start, rows.length, rows.period, rows.count, view.slice.allocation)


def _members(steps: Sequence[Step], first: int, columns: _Columns) -> dict[int, _Columns]:
    """The steps by position that write all columns of an array; empty if others use its memory before that."""
    allocation = columns.allocation
    members = {first: columns}
    for position, step in enumerate(steps[first + 1 :], first + 1):
        start = min(member.start for member in members.values())
        size = columns.period * columns.rows
        # Where the first row begins is known when all columns are.
        around = Slice(allocation=allocation, offset=start - columns.period, size=size * 2)
        other = _written_columns(step)
        if other is not None and other.allocation == allocation and other.fits(columns):
            members[position] = other
        if _is_whole(list(members.values())):
            return members if _reads_known(step, members, allocation) else {}
        if position in members:
            continue
        if any(overlap(part, around) for inner in walk((step,)) for part in writes(inner)):
            return {}
        if not _reads_known(step, members, allocation):
            return {}
    return {}


def _is_whole(parts: Sequence[_Columns]) -> bool:
    """Whether columns follow each other from the first of a row to the last."""
    ordered = sorted(parts, key=lambda part: part.start)
    stop = ordered[0].start
    for part in ordered:
        if part.start != stop:
            return False
        stop += part.length
    return stop == ordered[0].start + ordered[0].period


def _reads_known(step: Step, members: dict[int, _Columns], allocation: int) -> bool:
    """Whether a step reads only columns that are written, of what is in the memory of an array."""
    known = list(members.values())
    start = min(part.start for part in known)
    stop = max(part.start for part in known) + known[0].period * known[0].rows
    array = Slice(allocation=allocation, offset=start, size=stop - start)
    if step.regions:
        return not any(overlap(part, array) for inner in walk((step,)) for part in slices(inner))
    for view in step.inputs.values():
        if overlap(view.slice, array):
            read = _columns(view)
            if read is None or not any(
                part.start <= read.start
                and read.start + read.length <= part.start + part.length
                and read.period == part.period
                for part in known
            ):
                return False
    return True
