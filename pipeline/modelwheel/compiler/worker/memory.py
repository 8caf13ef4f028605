"""Gives values memory of their own, and moves it into gaps of XLA's at the end.

XLA plans memory for the order and the lifetimes of its own kernels. Where a step reads a value later than XLA thought, or
writes it earlier, the value moves to an allocation of its own. When all steps are known, such allocations are placed
where nothing else lives in the allocation of XLA's temporaries, or behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...util.records import JsonRecord
from .. import program as p
from ..arrays import Allocation, Slice, overlap
from ..walk import slices, walk, written

_ALIGNMENT = 64


def read(thunk: p.Thunk) -> tuple[Slice, ...]:
    """The slices that one thunk itself may read (not those of thunks inside it)."""
    rest, changed = list(slices(thunk)), written(thunk)
    if len(changed) == len(rest):  # it may read all that it writes
        return changed
    for part in changed:
        rest.remove(part)
    return tuple(rest)


def reading_from(thunk: p.Thunk, old: Slice, new: Slice) -> p.Thunk | None:
    """The same thunk for an operand that is elsewhere; None if it reads only a part of it or may rely on its place."""

    def moved(record: Any) -> Any:
        return _replaced(record, lambda part: new if part == old else part)

    if any(part != old for part in read(thunk) if overlap(part, old)):
        return None
    match thunk:
        case p.Kernel():
            # A kernel that updates its operand leaves the rest of it as it is.
            if any(overlap(result, old) for result in thunk.results):
                return None
            return thunk.model_copy(update={"arguments": moved(thunk.arguments)})
        case p.Dot() | p.Convolution():
            names = ("lhs", "rhs") if isinstance(thunk, p.Dot) else ("input", "kernel")
            operands = {name: moved(getattr(thunk, name)) for name in names}
            epilogue = _moved_operands(thunk.epilogue, moved)
            return thunk.model_copy(update={**operands, "epilogue": epilogue})
        case p.Pooling() | p.RowReduction():
            return thunk.model_copy(update={"input": moved(thunk.input)})
        case p.Scaling():
            # One that updates its operand writes where that was.
            if overlap(thunk.output, old):
                return None
            operands = {name: moved(getattr(thunk, name)) for name in ("input", "factors")}
            return thunk.model_copy(update=operands)
        case p.Attention():
            heads = {name: moved(getattr(thunk, name)) for name in ("query", "key", "value")}
            return thunk.model_copy(update=heads)
        case p.CopyRows() | p.Copy():
            return thunk.model_copy(update={"source": moved(thunk.source)})
    return None


def moved_readers(
    thunks: Sequence[p.Thunk], start: int, old: Slice, new: Slice
) -> dict[int, p.Thunk] | None:
    """The thunks by position that read what the one at `start` wrote, with it elsewhere; None if one cannot."""
    changed: dict[int, p.Thunk] = {}
    for position, thunk in enumerate(thunks[start + 1 :], start + 1):
        inner = tuple(walk((thunk,)))[1:]
        if any(overlap(part, old) for one in inner for part in slices(one)):
            return None
        if any(overlap(part, old) for part in read(thunk)):
            moved = reading_from(thunk, old, new)
            if moved is None:
                return None
            changed[position] = moved
        if any(overlap(part, old) for part in written(thunk)):
            break
    return changed


def _moved_operands(epilogue: p.Epilogue | None, moved: Callable[[Any], Any]) -> p.Epilogue | None:
    if epilogue is None:
        return None
    parts = ("bias", "scale", "shift", "addend")
    return epilogue.model_copy(update={name: moved(getattr(epilogue, name)) for name in parts})


def _replaced(record: Any, change: Callable[[Slice], Slice]) -> Any:
    """The same record with other slices."""
    if isinstance(record, Slice):
        return change(record)
    if isinstance(record, tuple):
        return tuple(_replaced(part, change) for part in record)
    if isinstance(record, JsonRecord):
        fields = type(record).model_fields
        before = {name: getattr(record, name) for name in fields}
        after = {name: _replaced(value, change) for name, value in before.items()}
        update = {name: value for name, value in after.items() if value is not before[name]}
        return record.model_copy(update=update) if update else record
    return record


@dataclass
class Memory:
    """The allocations of a program, and new ones until they are placed."""

    allocations: Sequence[Allocation]
    results: Sequence[Slice] = ()
    """What callers read in the end."""
    _sizes: dict[int, int] = field(default_factory=dict)

    def reserve(self, size: int) -> Slice:
        """An allocation of its own."""
        index = len(self.allocations) + len(self._sizes)
        self._sizes[index] = size
        return Slice(allocation=index, offset=0, size=size)

    def is_own(self, part: Slice) -> bool:
        """Whether a slice is in an allocation that `reserve` has made."""
        return part.allocation in self._sizes

    def may_move(self, part: Slice) -> bool:
        """Whether what is in a slice is of no use after the last thunk."""
        return self.is_own(part) or (
            self.allocations[part.allocation].kind == "temporary"
            and not any(overlap(part, result) for result in self.results)
        )

    def place(
        self, thunks: tuple[p.Thunk, ...]
    ) -> tuple[tuple[p.Thunk, ...], tuple[Allocation, ...]]:
        """The thunks with all memory in allocations of the program, and these."""
        lives = _Lives(thunks, self.results)
        sizes = {index: size for index, size in self._sizes.items() if lives.of(index)}
        shared = max(
            (a for a in self.allocations if a.kind == "temporary"),
            key=lambda a: a.size,
            default=None,
        )
        if not sizes or shared is None:
            added = tuple(
                Allocation(index=index, size=size, kind="temporary")
                for index, size in self._sizes.items()
            )
            return thunks, (*self.allocations, *added)
        taken = lives.in_turn(shared.index)
        offsets: dict[int, int] = {}
        # The largest first: small ones find gaps.
        for index, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
            times = lives.of(index)
            offsets[index] = _gap(
                [part for first, last, part in taken if first <= times[-1] and times[0] <= last],
                size,
            )
            part = Slice(allocation=shared.index, offset=offsets[index], size=size)
            taken.append((times[0], times[-1], part))
        end = max(shared.size, *(offsets[index] + size for index, size in sizes.items()))

        def change(part: Slice) -> Slice:
            if part.allocation not in offsets:
                return part
            offset = offsets[part.allocation] + part.offset
            return part.model_copy(update={"allocation": shared.index, "offset": offset})

        grown = tuple(
            a.model_copy(update={"size": end}) if a is shared else a for a in self.allocations
        )
        return tuple(_replaced(thunk, change) for thunk in thunks), grown


def _gap(taken: Iterable[Slice], size: int) -> int:
    """The first offset with so much room."""
    offset = 0
    for part in sorted(taken, key=lambda part: part.offset):
        if offset + size <= part.offset:
            break
        end = part.offset + part.size
        offset = max(offset, -(-end // _ALIGNMENT) * _ALIGNMENT)
    return offset


class _Lives:
    """When which memory is in use, by the numbers of thunks."""

    def __init__(self, thunks: Sequence[p.Thunk], results: Sequence[Slice]) -> None:
        self._reads: list[tuple[Slice, ...]] = []
        self._writes: list[tuple[Slice, ...]] = []
        for thunk in thunks:
            inner = tuple(walk((thunk,)))[1:]
            # What a loop or branch writes is not all written, or read before.
            nested = tuple(part.whole for one in inner for part in slices(one))
            self._reads.append((*read(thunk), *nested))
            self._writes.append(written(thunk) if not inner else ())
        self._reads.append(tuple(results))
        self._writes.append(())

    def of(self, allocation: int) -> list[int]:
        """The thunks that use an allocation."""
        return [
            time
            for time, parts in enumerate(zip(self._reads, self._writes, strict=True))
            if any(part.allocation == allocation for part in (*parts[0], *parts[1]))
        ]

    def in_turn(self, allocation: int) -> list[tuple[int, int, Slice]]:
        """The slices of an allocation that are in use from one thunk to another."""
        found: set[tuple[int, int, Slice]] = set()
        for time, parts in enumerate(self._writes):
            found.update((time, time, part) for part in parts if part.allocation == allocation)
        for time, parts in enumerate(self._reads):
            found.update(
                (self._written(part, time), time, part)
                for part in parts
                if part.allocation == allocation
            )
        return sorted(found, key=lambda item: (item[0], item[1], item[2].offset, item[2].size))

    def _written(self, part: Slice, time: int) -> int:
        """The last thunk before that writes all of a slice."""
        for before in reversed(range(time)):
            if any(_covers(other, part) for other in self._writes[before]):
                return before
        return 0


def _covers(whole: Slice, part: Slice) -> bool:
    return (
        whole.allocation == part.allocation
        and whole.offset <= part.offset
        and part.offset + part.size <= whole.offset + whole.size
    )
