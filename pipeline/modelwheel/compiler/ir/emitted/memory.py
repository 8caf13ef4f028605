"""Gives values memory of their own until all steps are known; then `assign` gives each its place.

XLA plans memory for the order and the lifetimes of its own kernels. Where a step reads a value later than XLA thought, or
writes it earlier, the value moves to an allocation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from ....program.arrays import Allocation, Slice, covers, overlap
from ....util.records import JsonRecord
from . import thunks as p
from .thunk_walk import read, slices, walk, written

_Record = TypeVar("_Record")


def reading_from(thunk: p.Thunk, old: Slice, new: Slice) -> p.Thunk | None:
    """`thunk` with an operand moved to `new`; None if it reads only a part of it or may rely on its place."""

    def moved(record: _Record) -> _Record:
        return replaced(record, lambda part: new if part == old else part)

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
        case p.Attention():
            parts = ("query", "key", "value", "added", "kept")
            heads = {name: moved(getattr(thunk, name)) for name in parts}
            return thunk.model_copy(update=heads)
        case p.Mask():
            return thunk.model_copy(update={"code": moved(thunk.code)})
        case p.CopyRows() | p.Copy():
            return thunk.model_copy(update={"source": moved(thunk.source)})
    return None


def writing_to(thunk: p.Thunk, new: Slice) -> p.Thunk:
    """`thunk`, a kernel with one result, a pooling or a product, with its result moved to `new`."""
    match thunk:
        case p.Kernel():
            return thunk.model_copy(update={"results": (new,)})
        case p.Pooling():
            return thunk.model_copy(update={"output": new})
        case p.Dot() | p.Convolution():
            if thunk.epilogue is not None:
                epilogue = thunk.epilogue.model_copy(update={"result": new})
                return thunk.model_copy(update={"epilogue": epilogue})
            name = "out" if isinstance(thunk, p.Dot) else "output"
            array = thunk.arrays[-1].model_copy(update={"slice": new})
            return thunk.model_copy(update={name: array})
    raise TypeError(f"the result of a {type(thunk).__name__} cannot move")


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


def _moved_operands(
    epilogue: p.Epilogue | None, moved: Callable[[Slice | None], Slice | None]
) -> p.Epilogue | None:
    if epilogue is None:
        return None
    parts = ("bias", "scale", "shift", "addend")
    return epilogue.model_copy(update={name: moved(getattr(epilogue, name)) for name in parts})


def replaced(record: _Record, change: Callable[[Slice], Slice]) -> _Record:
    """A copy of a record with other slices."""
    return cast("_Record", _replaced(record, change))


def _replaced(record: object, change: Callable[[Slice], Slice]) -> object:
    if isinstance(record, Slice):
        return change(record)
    if isinstance(record, tuple):
        return tuple(replaced(part, change) for part in record)
    if isinstance(record, JsonRecord):
        fields = type(record).model_fields
        before = {name: getattr(record, name) for name in fields}
        after = {name: replaced(value, change) for name, value in before.items()}
        update = {name: value for name, value in after.items() if value is not before[name]}
        return record.model_copy(update=update) if update else record
    return record


@dataclass
class Memory:
    """The allocations of a program, and new ones until they are placed."""

    allocations: Sequence[Allocation]
    results: Sequence[Slice] = ()
    """The memory that callers read in the end."""
    _sizes: dict[int, int] = field(default_factory=dict)

    def reserve(self, size: int) -> Slice:
        """An allocation of its own."""
        index = len(self.allocations) + len(self._sizes)
        self._sizes[index] = size
        return Slice(allocation=index, offset=0, size=size)

    def is_own(self, part: Slice) -> bool:
        """Whether a slice is in an allocation that `reserve` has made."""
        return part.allocation in self._sizes

    def may_move(self, part: Slice, after: Sequence[p.Thunk] = ()) -> bool:
        """Whether what is in a slice is of no use after the last thunk.

        Args:
            part: The slice.
            after: Thunks that run later; XLA uses the memory of a result for other values before.
        """
        if any(covers(other, part) for thunk in after for other in written(thunk)):
            return True
        return self.is_own(part) or (
            self.allocations[part.allocation].kind == "temporary"
            and not any(overlap(part, result) for result in self.results)
        )

    @property
    def all_allocations(self) -> tuple[Allocation, ...]:
        """The allocations of the program, then those that `reserve` has made."""
        own = (
            Allocation(index=index, size=size, kind="temporary")
            for index, size in self._sizes.items()
        )
        return (*self.allocations, *own)
