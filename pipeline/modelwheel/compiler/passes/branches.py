"""Finds loops that need nothing of each other, such as both directions of a recurrent layer.

The steps of such loops are too small for threads to share, but each loop may have a thread. XLA runs one after the other,
and gives the second the memory that the first no longer needs: there, temporaries of one of them move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ...program.arrays import ALIGNMENT, Slice, covers, overlap
from ...thresholds import THRESHOLDS
from ..ir.emitted import thunks as p
from ..ir.emitted.memory import Memory, replaced
from ..ir.emitted.thunk_walk import read, slices, walk, written

_Branch: TypeAlias = tuple[p.Thunk, ...]

_MOST_BETWEEN = 64
"""Steps between two loops: where the search ends."""
_FEW_BYTES = 128 * 1024
"""A program may have as much for temporaries that move, most of which find gaps between others."""
_MOST_OF_OTHERS = 4
"""So may one that has so many times as much for temporaries."""


def join_branches(thunks: Sequence[p.Thunk], memory: Memory) -> _Branch:
    """The outer thunks of a program, in which independent loops that follow each other are one thunk."""
    found = list(thunks)
    temporary = sum(a.size for a in memory.allocations if a.kind == "temporary")
    space = _Space(memory, max(temporary // _MOST_OF_OTHERS, _FEW_BYTES))
    position = 0
    while position < len(found):
        if _is_loop(found[position]):
            group = _Group.at(found, position, space)
            if len(group.branches) > 1:
                found[group.start : group.end] = [*group.before, _joined(group.branches)]
                position = group.start + len(group.before)
        position += 1
    return tuple(found)


def _joined(branches: Sequence[_Branch]) -> p.Branches:
    return p.Branches(
        operations=sum(one.operations for branch in branches for one in branch),
        origin=branches[0][-1].origin,
        branches=tuple(branches),
    )


def _is_loop(thunk: p.Thunk) -> bool:
    return isinstance(thunk, p.While) and bool(thunk.trip_count) and not thunk.condition


@dataclass
class _Group:
    """Some of the thunks of a program, with branches among them."""

    start: int
    end: int
    branches: list[_Branch]
    before: list[p.Thunk] = field(default_factory=list)
    """Thunks between the loops, which run before all branches."""

    @classmethod
    def at(cls, thunks: Sequence[p.Thunk], position: int, space: _Space) -> _Group:
        """Begins with the loop at a position, and has as many of those behind it as possible."""
        start = position
        while start and _feeds(thunks[start - 1], thunks[position]):
            start -= 1
        group = cls(start, position + 1, [tuple(thunks[start : position + 1])])
        last = min(len(thunks), position + _MOST_BETWEEN)
        for number in range(position + 1, last):
            if len(group.branches) == THRESHOLDS.most_parts:
                break
            if _is_loop(thunks[number]) and not group._add(thunks, number, space):
                break
        return group

    def _add(self, thunks: Sequence[p.Thunk], number: int, space: _Space) -> bool:
        """Adds a loop as a branch, if it is independent of those before."""
        loop = thunks[number]
        ahead = [one for branch in self.branches for one in branch]
        own: list[p.Thunk] = []
        before: list[p.Thunk] = []
        for thunk in thunks[self.end : number]:
            if _feeds(thunk, loop):
                own.append(thunk)
                ahead.append(thunk)
            elif _meeting((thunk,), ahead) is None:
                before.append(thunk)
            else:
                return False
        branches = space.apart([*self.branches, (*own, loop)], thunks[number + 1 :])
        if branches is None:
            return False
        self.branches = branches
        self.before += before
        self.end = number + 1
        return True


def _feeds(thunk: p.Thunk, loop: p.Thunk) -> bool:
    """Whether a thunk is a product that a loop reads, for all its iterations."""
    return isinstance(thunk, p.Dot) and any(
        overlap(out, part.whole)
        for one in walk((loop,))
        for part in read(one)
        for out in written(thunk)
    )


@dataclass
class _Space:
    """Memory for temporaries that move."""

    memory: Memory
    left: int
    """Bytes."""

    def apart(self, branches: Sequence[_Branch], after: Sequence[p.Thunk]) -> list[_Branch] | None:
        """Branches that share no memory that one of them writes, the last of them with all of the others."""
        found = list(branches)
        for number in range(len(found) - 1):
            while pair := _meeting(found[number], found[-1]):
                later = [one for branch in found[number + 1 :] for one in branch]
                moved = self._moved(found[-1], pair[1], after)
                if moved is not None:
                    found[-1] = moved
                    continue
                moved = self._moved(found[number], pair[0], [*later, *after])
                if moved is None:
                    return None
                found[number] = moved
        return found

    def _moved(self, branch: _Branch, part: Slice, after: Sequence[p.Thunk]) -> _Branch | None:
        """A branch with what overlaps a slice in memory of its own; None if others write or read that."""
        region = _connected(branch, part)
        kind = (
            "temporary"
            if self.memory.is_own(region)
            else self.memory.allocations[region.allocation].kind
        )
        if kind not in ("temporary", "output") or region.offset % ALIGNMENT:
            return None
        if region.size > self.left or _needs(branch, region):
            return None
        if _needs(after, region, self.memory.results):
            return None
        self.left -= region.size
        own = self.memory.reserve(region.size)

        def change(old: Slice) -> Slice:
            if not overlap(old, region):
                return old
            place = {"allocation": own.allocation, "offset": old.offset - region.offset}
            return old.model_copy(update=place)

        return tuple(replaced(thunk, change) for thunk in branch)


def _meeting(first: Iterable[p.Thunk], second: Iterable[p.Thunk]) -> tuple[Slice, Slice] | None:
    """Slices of both that overlap, of which one is written."""
    ours, theirs = _used(first), _used(second)
    for a, a_changes in ours.items():
        for b, b_changes in theirs.items():
            if (a_changes or b_changes) and overlap(a, b):
                return a, b
    return None


def _used(thunks: Iterable[p.Thunk]) -> dict[Slice, bool]:
    """The slices that thunks and those inside them use, in all iterations, and whether they write them."""
    found: dict[Slice, bool] = {}
    for one in walk(tuple(thunks)):
        changed = written(one)
        for part in slices(one):
            found[part.whole] = found.get(part.whole, False) or part in changed
    return found


def _connected(branch: _Branch, part: Slice) -> Slice:
    """The memory around a slice of which no slice of a branch has only a part."""
    others = [other for other in _used(branch) if other.allocation == part.allocation]
    begin, end = part.offset, part.offset + part.size
    while True:
        region = Slice(allocation=part.allocation, offset=begin, size=end - begin)
        met = [other for other in others if overlap(other, region)]
        begin = min([begin, *(other.offset for other in met)])
        end = max([end, *(other.offset + other.size for other in met)])
        if (begin, end) == (region.offset, region.offset + region.size):
            return region


def _needs(thunks: Iterable[p.Thunk], region: Slice, results: Sequence[Slice] = ()) -> bool:
    """Whether thunks, or callers in the end, read something of a region that is not written before."""
    complete: list[Slice] = []
    for reads, writes in [*_accesses(thunks), (tuple(results), ())]:
        for part in reads:
            common = _common(part.whole, region)
            if common is not None and not any(covers(one, common) for one in complete):
                return True
        # Of a slice that moves from one iteration to the next, each writes only a part.
        complete += [part for part in writes if part.iterations == 1]
    return False


def _accesses(
    thunks: Iterable[p.Thunk],
) -> Iterator[tuple[tuple[Slice, ...], tuple[Slice, ...]]]:
    """The slices that thunks read and surely write, in order, in the first iteration of each loop."""
    for thunk in thunks:
        if isinstance(thunk, p.While) and _is_loop(thunk):
            yield from _accesses(thunk.body)
        elif isinstance(thunk, p.Branches):
            for branch in thunk.branches:
                yield from _accesses(branch)
        elif isinstance(thunk, p.While | p.Conditional):
            yield tuple(part for one in walk((thunk,)) for part in slices(one)), ()
        else:
            yield read(thunk), _filled(thunk)


def _filled(thunk: p.Thunk) -> tuple[Slice, ...]:
    """The slices that a thunk writes without gaps."""
    match thunk:
        case p.Elementwise():
            size = thunk.rows * thunk.columns * 4
            dense = [one for one in thunk.writes if one.slice.size == size and one.start == 0]
            return tuple(one.slice for one in dense if one.row_step == thunk.columns)
        case p.Dot() | p.Convolution():
            return written(thunk) if thunk.arrays[-1].row_step is None else ()
        case p.CopyRows() | p.Attention():
            return ()
    return written(thunk)


def _common(a: Slice, b: Slice) -> Slice | None:
    begin = max(a.offset, b.offset)
    end = min(a.offset + a.size, b.offset + b.size)
    if a.allocation != b.allocation or begin >= end:
        return None
    return Slice(allocation=a.allocation, offset=begin, size=end - begin)
