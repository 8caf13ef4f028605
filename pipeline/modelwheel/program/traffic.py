"""How many bytes the steps of a program read and write."""

from __future__ import annotations

from .arrays import Slice
from .program import Branches, Conditional, EmbeddingBag, Lookup, Program, Thunk, While
from .walk import slices


def bytes_touched(thunk: Thunk, part: Slice) -> int:
    """The bytes of one of its slices that a thunk reads or writes: of a table, only the rows that are looked up."""
    found = thunk.lookup if isinstance(thunk, EmbeddingBag) else thunk
    if isinstance(found, Lookup) and part is found.table:
        return min(part.size, found.count * found.row_bytes)
    return part.size


def bytes_of_step(thunk: Thunk) -> int:
    """Bytes that one thunk itself reads and writes (not those of thunks inside it)."""
    return sum(bytes_touched(thunk, part) for part in slices(thunk))


def bytes_moved(program: Program) -> int:
    """Bytes read and written by all steps of one run; loops count by their trip count, or once if it is unknown."""
    return sum(map(_bytes_moved, program.thunks))


def _bytes_moved(thunk: Thunk) -> int:
    own = bytes_of_step(thunk)
    if isinstance(thunk, While):
        inner = sum(map(_bytes_moved, thunk.condition + thunk.body))
        return own + inner * (1 if thunk.trip_count is None else thunk.trip_count)
    if isinstance(thunk, Branches):
        return sum(_bytes_moved(one) for branch in thunk.branches for one in branch)
    if isinstance(thunk, Conditional):
        # The most that can happen: which branch runs is not known before.
        return own + max((sum(map(_bytes_moved, branch)) for branch in thunk.branches), default=0)
    return own
