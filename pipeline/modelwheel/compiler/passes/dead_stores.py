"""Leaves out steps that write what nobody reads.

XLA fills the array in which a loop collects its results, and copies it for each loop: it knows only that an iteration writes
some part of it. Where the parts of all iterations are proven to be all of it (see `counters`), these are dead stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...dtypes import ElementType
from ...program.arrays import Slice, overlap
from ..ir import thunks as p
from ..ir.elementwise import Plane
from ..ir.thunk_walk import read


def without_dead_stores(thunks: Sequence[p.Thunk], results: Sequence[Slice]) -> tuple[p.Thunk, ...]:
    """The outer thunks of a program without kernels and copies whose results nobody reads.

    Args:
        thunks: All outer thunks.
        results: What callers read in the end.
    """
    kept: list[p.Thunk] = []  # from the last to the first
    for thunk in reversed(thunks):
        is_store = isinstance(thunk, p.Kernel | p.Copy)
        if not is_store or any(_is_read(part, kept[::-1], results) for part in _replaced(thunk)):
            kept.append(thunk)
    return tuple(kept[::-1])


def _is_read(part: Slice, later: Sequence[p.Thunk], results: Sequence[Slice]) -> bool:
    """Whether any byte of what a slice holds is read by some thunks or, in the end, by callers."""
    left = _left([part], later)
    return left is None or any(overlap(result, piece) for result in results for piece in left)


def _left(
    pieces: Sequence[Slice], thunks: Sequence[p.Thunk], *, inside: bool = False
) -> Sequence[Slice] | None:
    """The rest of some slices after some thunks, or after one iteration of a loop of them; None if they are read before."""
    for thunk in thunks:
        if any(overlap(other, piece) for other in read(thunk) for piece in pieces):
            return None
        for inner in _inner(thunk):
            if _left(pieces, inner, inside=inside or isinstance(thunk, p.While)) is None:
                return None
        # What steps inside an iteration belongs to that loop or to another one.
        if not (inside and isinstance(thunk, p.While)):
            for other in _replaced(thunk):
                if other.step == 0:
                    pieces = [rest for piece in pieces for rest in _without(piece, other)]
    return pieces


def _inner(thunk: p.Thunk) -> Sequence[Sequence[p.Thunk]]:
    """The sequences of thunks inside one."""
    match thunk:
        case p.While():
            return [thunk.condition + thunk.body]
        case p.Conditional() | p.Branches():
            return thunk.branches
    return ()


def _without(part: Slice, other: Slice) -> Iterator[Slice]:
    """The rest of a slice beside another one."""
    if not overlap(part, other):
        yield part
        return
    end, other_end = part.offset + part.size, other.offset + other.size
    for start, stop in ((part.offset, other.offset), (other_end, end)):
        if start < stop:
            yield part.model_copy(update={"offset": start, "size": stop - start})


def _replaced(thunk: p.Thunk) -> Iterator[Slice]:
    """Slices of which a thunk writes every byte, whatever it reads."""
    match thunk:
        case p.Kernel():
            yield from thunk.results
        case p.Copy():
            yield thunk.destination
        case p.Elementwise():
            yield from (one.slice for one in thunk.writes if _is_dense(one, thunk))
        case p.Dot() if thunk.out.row_step is None:
            yield thunk.epilogue.result if thunk.epilogue else thunk.out.slice
        case p.Branches():
            for branch in thunk.branches:
                for one in branch:
                    yield from _replaced(one)
        case p.While() if thunk.trip_count:
            for one in thunk.body:
                if not isinstance(one, p.While):
                    yield from _in_all_iterations(_replaced(one), thunk.trip_count)


def _in_all_iterations(parts: Iterator[Slice], trip_count: int) -> Iterator[Slice]:
    """The memory that some slices are in all iterations together, as far as it is known."""
    for part in parts:
        if part.step == 0 or (part.iterations == trip_count and abs(part.step) <= part.size):
            yield part.whole


def _is_dense(plane: Plane, thunk: p.Elementwise) -> bool:
    in_order = thunk.rows == 1 or plane.row_step == thunk.columns
    return (
        in_order and plane.slice.size == thunk.rows * thunk.columns * ElementType.FLOAT32.item_bytes
    )
