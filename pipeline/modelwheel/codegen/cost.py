"""Estimates the cost of running a variant from its program alone.

Estimates only decide how a batch is split into compiled batch sizes, so their ratios matter and not their
unit. They are not measured: a build gives the same result on every machine. `modelwheel tune` measures
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..dtypes import ElementType
from ..program.program import (
    Attention,
    Branches,
    Conditional,
    Convolution,
    Dot,
    Pooling,
    Program,
    Scaling,
    Strips,
    Thunk,
    While,
)
from ..program.traffic import bytes_of_step, bytes_touched
from ..program.walk import leaves, slices, used_allocations, walk
from .strides import dot_axes

# A roofline model (Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009) with overheads, for one core
# of a server.
_NANOSECONDS_PER_CALL = 200.0
_NANOSECONDS_PER_THUNK = 15.0
_OPERATIONS_PER_NANOSECOND = 30.0
_BYTES_PER_NANOSECOND = 20.0
# In addition, for what is not in the second-level cache.
_FAR_BYTES_PER_NANOSECOND = 10.0
# Steps with so many bytes find all of them in the cache, and those with more than the larger number none.
_CACHE_BYTES = 1 << 20
_FAR_BYTES = 4 << 20
# A process keeps the working memory of a batch size once it has run it. One that needs more than so many bytes is worth it only
# where it is quicker than smaller ones by this factor.
_LARGE_BYTES = 512 << 10
_PRICE_OF_MEMORY = 1.03


def estimate_cost(program: Program) -> float:
    """Estimates the nanoseconds of one run: a fixed part, a part for each thunk, arithmetic and memory."""
    thunks = sum(1 for _ in walk(program.thunks))
    # What a turn of a loop reads again is in the cache: it counts once.
    moved = sum(bytes_of_step(thunk) for thunk, _ in leaves(program.thunks))
    nanoseconds = (
        _NANOSECONDS_PER_CALL
        + _NANOSECONDS_PER_THUNK * thunks
        + program.operations / _OPERATIONS_PER_NANOSECOND
        + moved / _BYTES_PER_NANOSECOND
        + _far_bytes(program) / _FAR_BYTES_PER_NANOSECOND
    )
    return round(nanoseconds * (_PRICE_OF_MEMORY if _is_large(program) else 1.0), 1)


def _is_large(program: Program) -> bool:
    used = used_allocations(program)
    temporaries = (a.size for a in program.allocations if a.kind == "temporary" and a.index in used)
    return sum(temporaries) > _LARGE_BYTES


# On the safe side: threads that share a step must not make it slower. Giving a part to another thread and waiting for it
# takes less than a microsecond, but then half of what the next step reads is in the cache of the other core.
_NANOSECONDS_OF_A_PART = 12_000.0
# Steps that read and write, and compute next to nothing: if one thread does them alone after a step that was shared, it
# waits for half of what it reads, and the threads that share the next step wait for half of what this one has written.
_NANOSECONDS_OF_A_LIGHT_PART = 3_000.0
# Products of one row read weights, which no other core writes.
_NANOSECONDS_OF_A_PART_OF_A_ROW = 6_000.0
# In a loop, one thread alone computes what the next turn needs from a product: each turn, half of it comes from another
# core, and what the product reads goes back.
_NANOSECONDS_OF_A_PART_OF_A_TURN = 50_000.0


# Products with fewer columns leave lanes of vectors idle.
_FULL_COLUMNS = 8


def count_parts(thunk: Thunk, *, in_loop: bool = False) -> int:
    """The number of threads that a step has work for, at least 1."""
    if not _is_divisible(thunk):
        return 1
    return max(int(_work(thunk) / _least_part(thunk, in_loop=in_loop)), 1)


def _least_part(thunk: Thunk, *, in_loop: bool) -> float:
    if in_loop:
        return _NANOSECONDS_OF_A_PART_OF_A_TURN
    if isinstance(thunk, Pooling | Scaling):
        return _NANOSECONDS_OF_A_LIGHT_PART
    if isinstance(thunk, Dot) and dot_axes(thunk).out[1].size == 1:
        return _NANOSECONDS_OF_A_PART_OF_A_ROW
    return _NANOSECONDS_OF_A_PART


def _is_divisible(thunk: Thunk) -> bool:
    """Whether the kernel of a step can compute a part of it."""
    match thunk:
        case Dot() | Convolution():
            types = {array.element_type for array in thunk.arrays}
            return types in ({ElementType.FLOAT32}, {ElementType.FLOAT64})
        case Strips():
            return all(map(_is_divisible, thunk.layers))
        case _:
            return isinstance(thunk, Pooling | Scaling | Attention)


# What the others take off one thread when branches run beside each other: these fetch what they read from the cache of its
# core, and it waits for what they write. Products of one row take an eighth of their estimate, because all that they
# read is in the cache.
_NANOSECONDS_OF_BRANCHES = 100_000.0


def count_branches(step: Branches) -> int:
    """The number of threads that branches have work for, at least 1."""
    return len(step.branches) if _beside_each_other(step) >= _NANOSECONDS_OF_BRANCHES else 1


def count_parts_of_steps(step: Branches) -> int:
    """The number of threads that the largest step of its branches has work for, at least 1."""
    found = (one for branch in step.branches for one in leaves(branch))
    return max((count_parts(thunk, in_loop=turns > 1) for thunk, turns in found), default=1)


def _beside_each_other(step: Branches) -> float:
    """What all branches but the longest take."""
    costs = [_alone(branch) for branch in step.branches]
    return sum(costs) - max(costs)


def shared_part(program: Program) -> float:
    """The part of its time that threads can share, from 0 to 1, less what sharing takes.

    Two threads take `_least_part` longer for a step than half of its time. Of branches, what runs beside the longest counts:
    however many threads there are, they do not end before it does.
    """
    alone = _alone(program.thunks)
    return round(_shared(program.thunks) / alone, 3) if alone else 0.0


def _shared(thunks: Iterable[Thunk], *, in_loop: bool = False) -> float:
    total = 0.0
    for thunk in thunks:
        match thunk:
            case While():
                total += (thunk.trip_count or 1) * _shared(
                    thunk.condition + thunk.body, in_loop=True
                )
            case Branches() if count_branches(thunk) > 1:
                total += _beside_each_other(thunk)
            case Branches() | Conditional():
                total += sum(_shared(branch, in_loop=in_loop) for branch in thunk.branches)
            case _ if count_parts(thunk, in_loop=in_loop) > 1:
                total += _work(thunk) - 2 * _least_part(thunk, in_loop=in_loop)
    return total


def _alone(thunks: tuple[Thunk, ...]) -> float:
    """What some steps take one thread."""
    return sum(turns * (_NANOSECONDS_PER_THUNK + _work(thunk)) for thunk, turns in leaves(thunks))


def _work(thunk: Thunk) -> float:
    moved = bytes_of_step(thunk) / _BYTES_PER_NANOSECOND
    columns = _columns(thunk)
    rate = _OPERATIONS_PER_NANOSECOND * min(columns, _FULL_COLUMNS) / _FULL_COLUMNS
    return thunk.operations / rate + moved


def _columns(thunk: Thunk) -> int:
    """The columns of a product, or features of a convolution: of a single one the factors change places."""
    match thunk:
        case Dot():
            axes = dot_axes(thunk)
            columns = axes.out[2].size
            return columns if columns > 1 else axes.out[1].size
        case Convolution():
            return thunk.output.shape[thunk.output_axes.feature]
        case _:
            return _FULL_COLUMNS


def _far_bytes(program: Program) -> float:
    """Bytes that one run reads or writes beyond the second-level cache.

    A step finds there what the step before it wrote if that is little; constants stay there from run to run if all of
    them are few.
    """
    constants = {a.index: a.size for a in program.allocations if a.kind == "constant"}
    used = constants.keys() & used_allocations(program)
    far_constants = _far_part(sum(constants[index] for index in used))
    total = 0.0
    for thunk, turns in leaves(program.thunks):
        sizes = [
            (part.allocation in constants, bytes_touched(thunk, part)) for part in slices(thunk)
        ]
        activations = sum(size for constant, size in sizes if not constant)
        weights = sum(size for constant, size in sizes if constant)
        total += turns * activations * _far_part(activations) + weights * far_constants
    return total


def _far_part(size: int) -> float:
    """The part of so many bytes that is not in the cache when it is used again."""
    return min(max(size - _CACHE_BYTES, 0) / (_FAR_BYTES - _CACHE_BYTES), 1.0)
