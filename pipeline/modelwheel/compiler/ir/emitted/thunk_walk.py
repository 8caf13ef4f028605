"""Goes through thunks, and finds the memory that each reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....program.arrays import Slice
from ....program.op_names import join_names
from . import thunks as p


def walk(thunks: tuple[p.Thunk, ...]) -> Iterator[p.Thunk]:
    """Every thunk, those inside loops and branches included, in program order."""
    for thunk in thunks:
        yield thunk
        if isinstance(thunk, p.While):
            yield from walk(thunk.condition)
            yield from walk(thunk.body)
        elif isinstance(thunk, p.Conditional):
            for branch in thunk.branches:
                yield from walk(branch)


def names_of_all(*thunks: p.Thunk) -> dict[str, Any]:
    """The fields that say where the work of several thunks comes from, for the one that does all of it."""
    return {
        "origin": join_names(*(thunk.origin for thunk in thunks)),
        "covers": tuple(dict.fromkeys(name for thunk in thunks for name in thunk.covers)),
    }


def slices(thunk: p.Thunk) -> tuple[Slice, ...]:
    """The slices that one thunk itself reads and writes (not those of thunks inside it)."""
    match thunk:
        case p.Kernel():
            return thunk.arguments + thunk.results
        case p.Dot() | p.Convolution():
            own = tuple(array.slice for array in thunk.arrays)
            last = thunk.epilogue
            return (*own, *last.operands, last.result) if last else own
        case p.Pooling() | p.RowReduction():
            return (thunk.input, thunk.output)
        case p.Attention():
            parts = (thunk.query, thunk.key, thunk.value, *thunk.masks, thunk.output)
            return tuple(part.slice for part in parts)
        case p.Mask():
            return (*(one.slice for one in thunk.code.reads), thunk.output)
        case p.Elementwise():
            return tuple(one.slice for one in (*thunk.reads, *thunk.masks, *thunk.writes))
        case p.Lookup():
            return (thunk.table, thunk.indices, thunk.output)
        case p.Copy() | p.CopyRows():
            return (thunk.source, thunk.destination)
        case p.While():
            return (thunk.condition_value,) if thunk.condition_value else ()
        case p.Conditional():
            return (thunk.index,)
        case p.Sort():
            return tuple(operand.slice for operand in thunk.operands)
        case p.TopK():
            return (thunk.values, thunk.output, thunk.indices)
        case p.Fft():
            return (thunk.input.slice, thunk.output.slice)
        case p.RandomState():
            return (thunk.state,)


def written(thunk: p.Thunk) -> tuple[Slice, ...]:
    """The slices that one thunk itself may write (not those of thunks inside it)."""
    match thunk:
        case p.Kernel():
            return thunk.results
        case p.Pooling() | p.RowReduction() | p.Mask() | p.Lookup():
            return (thunk.output,)
        case p.Attention():
            return (thunk.output.slice,)
        case p.Elementwise():
            return tuple(one.slice for one in thunk.writes)
        case p.Dot() | p.Convolution():
            out = thunk.arrays[-1].slice
            return (out, thunk.epilogue.result) if thunk.epilogue else (out,)
        case p.Copy() | p.CopyRows():
            return (thunk.destination,)
    return slices(thunk)


def read(thunk: p.Thunk) -> tuple[Slice, ...]:
    """The slices that one thunk itself may read (not those of thunks inside it)."""
    rest, changed = list(slices(thunk)), written(thunk)
    if len(changed) == len(rest):  # it may read all that it writes
        return changed
    for part in changed:
        rest.remove(part)
    return tuple(rest)


def all_written(thunk: p.Thunk) -> tuple[Slice, ...]:
    """The slices that one thunk, or any inside it, may write."""
    return tuple(part for one in walk((thunk,)) for part in written(one))
