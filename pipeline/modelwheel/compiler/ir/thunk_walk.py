"""Goes through thunks, and finds the memory that each reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...program.arrays import Slice
from ...program.placing import Access
from .thunks import (
    Attention,
    Branches,
    Conditional,
    Convolution,
    Copy,
    CopyRows,
    Dot,
    Elementwise,
    EmbeddingBag,
    Fft,
    Kernel,
    Lookup,
    Mask,
    Pooling,
    Product,
    RandomState,
    RowReduction,
    Scaling,
    Sort,
    Strips,
    Thunk,
    TopK,
    While,
)


def walk(thunks: tuple[Thunk, ...]) -> Iterator[Thunk]:
    """Every thunk, those inside loops and branches included, in program order."""
    for thunk in thunks:
        yield thunk
        if isinstance(thunk, While):
            yield from walk(thunk.condition)
            yield from walk(thunk.body)
        elif isinstance(thunk, Conditional | Branches):
            for branch in thunk.branches:
                yield from walk(branch)


def leaves(thunks: tuple[Thunk, ...], turns: int = 1) -> Iterator[tuple[Thunk, int]]:
    """The thunks without others in them, in program order, each with how often a run reaches it at most.

    A loop of an unknown number of turns counts as one.
    """
    for thunk in thunks:
        if isinstance(thunk, While):
            yield from leaves(thunk.condition + thunk.body, turns * (thunk.trip_count or 1))
        elif isinstance(thunk, Conditional | Branches):
            for branch in thunk.branches:
                yield from leaves(branch, turns)
        else:
            yield thunk, turns


def products(thunk: Thunk) -> tuple[Product, ...]:
    """The products and convolutions that one thunk itself computes, in order."""
    match thunk:
        case Dot() | Convolution():
            return (thunk,)
        case Strips():
            return thunk.layers
    return ()


def slices(thunk: Thunk) -> tuple[Slice, ...]:
    """The slices that one thunk itself reads and writes (not those of thunks inside it)."""
    match thunk:
        case Kernel():
            return thunk.arguments + thunk.results
        case Dot() | Convolution():
            own = tuple(array.slice for array in thunk.arrays)
            last = thunk.epilogue
            return (*own, *last.operands, last.result) if last else own
        case Strips():
            first = thunk.layers[0]
            read = [first.input.slice, *(layer.kernel.slice for layer in thunk.layers)]
            read += [part for c in thunk.layers if c.epilogue for part in c.epilogue.operands]
            return (*read, *written(thunk))
        case Pooling() | RowReduction():
            return (thunk.input, thunk.output)
        case Scaling():
            return (thunk.input, thunk.factors, thunk.output)
        case Attention():
            parts = (thunk.query, thunk.key, thunk.value, *thunk.masks, thunk.output)
            return tuple(part.slice for part in parts)
        case Mask():
            return (*(one.slice for one in thunk.code.reads), thunk.output)
        case Elementwise():
            return tuple(one.slice for one in (*thunk.reads, *thunk.masks, *thunk.writes))
        case Lookup():
            return (thunk.table, thunk.indices, thunk.output)
        case EmbeddingBag():
            return (thunk.lookup.table, thunk.lookup.indices, thunk.pooling.output)
        case Copy() | CopyRows():
            return (thunk.source, thunk.destination)
        case While():
            return (thunk.condition_value,) if thunk.condition_value else ()
        case Conditional():
            return (thunk.index,)
        case Branches():
            return ()
        case Sort():
            return tuple(operand.slice for operand in thunk.operands)
        case TopK():
            return (thunk.values, thunk.output, thunk.indices)
        case Fft():
            return (thunk.input.slice, thunk.output.slice)
        case RandomState():
            return (thunk.state,)


def written(thunk: Thunk) -> tuple[Slice, ...]:
    """The slices that one thunk itself may write (not those of thunks inside it)."""
    match thunk:
        case Kernel():
            return thunk.results
        case Pooling() | RowReduction() | Scaling() | Mask() | Lookup():
            return (thunk.output,)
        case EmbeddingBag():
            return (thunk.pooling.output,)
        case Attention():
            return (thunk.output.slice,)
        case Elementwise():
            return tuple(one.slice for one in thunk.writes)
        case Dot() | Convolution():
            out = thunk.arrays[-1].slice
            return (out, thunk.epilogue.result) if thunk.epilogue else (out,)
        case Strips():
            return written(thunk.layers[-1])
        case Copy() | CopyRows():
            return (thunk.destination,)
    return slices(thunk)


def read(thunk: Thunk) -> tuple[Slice, ...]:
    """The slices that one thunk itself may read (not those of thunks inside it)."""
    rest, changed = list(slices(thunk)), written(thunk)
    if len(changed) == len(rest):  # it may read all that it writes
        return changed
    for part in changed:
        rest.remove(part)
    return tuple(rest)


def all_written(thunk: Thunk) -> tuple[Slice, ...]:
    """The slices that one thunk, or any inside it, may write."""
    return tuple(part for one in walk((thunk,)) for part in written(one))


def accesses(thunks: Iterable[Thunk]) -> list[Access]:
    """What each outer thunk reads and writes, with all thunks inside it, as `placing` takes it."""
    return [_access(thunk) for thunk in thunks]


def _access(thunk: Thunk) -> Access:
    inner = tuple(walk((thunk,)))[1:]
    # What a loop or branch writes is not all written, or read before.
    nested = tuple(part.whole for one in inner for part in slices(one))
    return Access((*read(thunk), *nested), written(thunk) if not inner else ())
