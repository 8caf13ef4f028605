"""Estimates the cost of running a variant from its program alone.

Estimates only decide how a batch is split into compiled batch sizes, so their ratios matter and not their
unit. They are not measured: a build gives the same result on every machine. `modelwheel tune` measures
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from ..dtypes import ElementType
from ..program.ops import (
    Branches,
    ByteLayer,
    Conditional,
    Convolution,
    Dot,
    EmbeddingBag,
    Lookup,
    Pooling,
    Scaling,
    VolumePooling,
    While,
)
from ..program.program import Program
from ..program.steps import Step
from ..program.strip_layers import products
from ..program.traffic import bytes_of_step, touched
from ..program.walk import leaves
from .rows.demand import FirstRows
from .strides import ProductViews, dot_axes, is_of_bytes


@dataclass(frozen=True)
class _Model:
    """The figures of a roofline model (Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009) with overheads.

    They were set by measurements on an Intel Xeon with AVX-512 (docs/experiments.md), on the day behind each. Times are in
    nanoseconds; those of parts and branches have a margin, because threads that share a step must not make it slower.
    """

    # One core of a server; the first four are round figures.
    call: float = 200.0  # 2026-11-21
    step: float = 15.0  # 2026-11-21
    operations_per_nanosecond: float = 30.0  # 2026-11-21
    bytes_per_nanosecond: float = 20.0  # 2026-11-21
    weights_per_nanosecond: float = 40.0  # 2026-11-26
    """Bytes of constants that are no tables: nothing is written, and what reads them computes meanwhile."""
    weights_again: float = 0.5  # 2026-11-26
    """Part of that time in later iterations of a loop, which find them in a nearer cache."""
    far_bytes_per_nanosecond: float = 3.0  # 2026-11-26
    """In addition, for bytes of constants beyond the second-level cache."""
    far_activations_per_nanosecond: float = 12.0  # 2026-11-26
    """Likewise for other bytes, which steps read and write in order: the CPU fetches them before they are needed."""
    cache_bytes: int = 1 << 20  # 2026-11-22
    """A step with so many bytes finds all of them in the cache,"""
    far_bytes: int = 4 << 20  # 2026-11-22
    """and one with so many none."""
    full_columns: int = 8  # 2026-11-23
    """Products with fewer columns leave lanes of vectors idle."""

    # A process keeps the working memory of a batch size once it has run it.
    large_bytes: int = 512 << 10  # 2026-11-23
    """One that needs more than this is worth it only where it is quicker than smaller ones,"""
    price_of_memory: float = 1.03  # 2026-11-23
    """by this factor: at 1.02, a model with an LSTM kept 1.2 MB for half a per cent."""

    # The least work of each thread that shares a step.
    part: float = 12_000.0  # 2026-11-23
    """Handing a part over takes less than 1000, but half of what the next step reads is in the other core's cache then."""
    light_part: float = 3_000.0  # 2026-11-23
    """Of steps that move bytes and compute next to nothing: one thread alone would wait for half of what it reads."""
    part_of_a_row: float = 6_000.0  # 2026-11-24
    """Of products of one row: they read weights, which no other core writes."""
    part_in_a_loop: float = 50_000.0  # 2026-11-24
    """In each iteration, half of what one thread alone computes next comes from another core, and goes back."""

    partial: float = 0.99  # 2026-11-26
    """Of the time for each row, a run of fewer rows saves this part: products of few rows do less in a cycle."""

    branches: float = 100_000.0  # 2026-11-23
    """Branches in parallel take at least so much off one thread: the others fetch what they read from the cache of its core,
    and it waits for what they write. Products of one row take an eighth of their estimate, as all that they read is in the
    cache."""


_MODEL = _Model()


def estimate_cost(program: Program, rows: float = 1.0) -> float:
    """Estimates the nanoseconds of one run: a fixed part, a part for each step, arithmetic and memory.

    Args:
        program: The program.
        rows: How many times as many rows as this one its program would have.
    """
    return round(_nanoseconds(program, rows) * _price_of_memory(program, rows), 1)


def _nanoseconds(program: Program, rows: float = 1.0) -> float:
    """The nanoseconds of one run, without the price of memory."""
    of_steps = (times * _MODEL.step + sum(parts) for _, times, parts in _parts(program, rows))
    return _MODEL.call + sum(of_steps)


class _Parts(NamedTuple):
    """Nanoseconds of a step in all iterations."""

    rows: float
    """The part that grows with the rows that it computes: arithmetic, and memory that holds no weights."""
    weights: float


def _parts(program: Program, rows: float = 1.0) -> Iterator[tuple[Step, int, _Parts]]:
    """Each step, how often it runs, and what that takes with so many times as many rows.

    A step finds in the second-level cache what the step before it wrote if that is little; constants stay there from run
    to run if all of them are few, and from one iteration of a loop to the next if those of the step are.
    """
    used = program.used_allocations
    constants = {a.index: a.size for a in program.allocations if a.kind == "constant"}
    far_constants = _far_part(sum(size for index, size in constants.items() if index in used))
    for step, times in leaves(program.steps):
        # Rows of a table are other ones for each row of the batch.
        tables = isinstance(step.op, Lookup | EmbeddingBag)
        sizes = [(part.allocation in constants, size) for part, size in touched(step)]
        read = sum(size for is_constant, size in sizes if is_constant)
        looked_up, weights = (rows * read, 0) if tables else (0.0, read)
        operations = rows * step.operations
        activations = rows * sum(size for is_constant, size in sizes if not is_constant)
        far_activations = times * activations * _far_part(activations)
        far_weights = weights * (far_constants + (times - 1) * _far_part(weights))
        near_weights = weights * (1 + (times - 1) * _MODEL.weights_again)
        yield (
            step,
            times,
            _Parts(
                times * operations / _MODEL.operations_per_nanosecond
                + times * (activations + looked_up) / _MODEL.bytes_per_nanosecond
                + far_activations / _MODEL.far_activations_per_nanosecond
                + times * looked_up * far_constants / _MODEL.far_bytes_per_nanosecond,
                near_weights / _MODEL.weights_per_nanosecond
                + far_weights / _MODEL.far_bytes_per_nanosecond,
            ),
        )


def _price_of_memory(program: Program, rows: float) -> float:
    """The factor of the time of a run for the memory that stays in use."""
    used = program.used_allocations
    temporaries = (a.size for a in program.allocations if a.kind == "temporary" and a.index in used)
    return _MODEL.price_of_memory if rows * sum(temporaries) > _MODEL.large_bytes else 1.0


def count_parts(step: Step, *, in_loop: bool = False) -> int:
    """The number of threads that a step has work for, at least 1."""
    if not _is_divisible(step):
        return 1
    return max(int(_work(step) / _least_part(step, in_loop=in_loop)), 1)


def _least_part(step: Step, *, in_loop: bool) -> float:
    """The least work of a thread that shares a step, in nanoseconds."""
    op = step.op
    product = next(iter(products(step)), step)
    if in_loop:
        return _MODEL.part_in_a_loop
    if isinstance(op, Pooling | VolumePooling | Scaling):
        return _MODEL.light_part
    if isinstance(product.op, Dot) and dot_axes(product, product.op).out[1].size == 1:
        return _MODEL.part_of_a_row
    return _MODEL.part


def _is_divisible(step: Step) -> bool:
    """Whether the kernel of a step can compute a part of it: of products only if all is in one of these types."""
    if not step.op.DIVISIBLE:
        return False
    if isinstance(step.op, Dot) and is_of_bytes(step):
        # With one column, rows would begin as those of packed floats do.
        return dot_axes(step, step.op).out[2].size > 1
    types = [{v.element_type for v in ProductViews.of(layer)} for layer in products(step)]
    floats = ({ElementType.FLOAT32}, {ElementType.FLOAT64})
    return all(
        used in floats or is_of_bytes(layer)
        for used, layer in zip(types, products(step), strict=True)
    )


def count_branches(step: Step) -> int:
    """The number of threads that the branches of a step have work for, at least 1."""
    return len(step.regions) if _in_parallel(step) >= _MODEL.branches else 1


def count_parts_of_steps(step: Step) -> int:
    """The number of threads that the largest step of its branches has work for, at least 1."""
    inner = (leaf for branch in step.regions for leaf in leaves(branch))
    return max((count_parts(leaf, in_loop=times > 1) for leaf, times in inner), default=1)


def _in_parallel(step: Step) -> float:
    """Nanoseconds of all branches but the longest, on one thread."""
    costs = [_alone(branch) for branch in step.regions]
    return sum(costs) - max(costs)


def partial_part(program: Program, first: FirstRows) -> float:
    """The part of the time of a run that grows with the number of rows that it computes, from 0 to 1.

    Weights are read for any number of rows.
    """
    grows = sum(parts.rows for step, _, parts in _parts(program) if step in first)
    return round(min(grows / _nanoseconds(program), 1.0) * _MODEL.partial, 3)


def shared_part(program: Program) -> float:
    """The part of its time that threads can share, from 0 to 1, less what sharing takes.

    Two threads take `_least_part` longer for a step than half of its time. Of branches, all but the longest count:
    however many threads there are, they do not end before it does.
    """
    alone = _alone(program.steps)
    return round(_shared(program.steps) / alone, 3) if alone else 0.0


def _shared(steps: Iterable[Step], *, in_loop: bool = False) -> float:
    """Nanoseconds of one thread that others can take off it."""
    total = 0.0
    for step in steps:
        match step.op:
            case While() as loop:
                inner = chain.from_iterable(step.regions)
                total += loop.iterations * _shared(inner, in_loop=True)
            case Branches() if count_branches(step) > 1:
                total += _in_parallel(step)
            case Branches() | Conditional():
                total += sum(_shared(branch, in_loop=in_loop) for branch in step.regions)
            case _ if count_parts(step, in_loop=in_loop) > 1:
                total += _work(step) - 2 * _least_part(step, in_loop=in_loop)
    return total


def _alone(steps: Sequence[Step]) -> float:
    """Nanoseconds of some steps on one thread."""
    return sum(times * (_MODEL.step + _work(step)) for step, times in leaves(steps))


def _work(step: Step) -> float:
    """Nanoseconds of one run of a step, on one thread."""
    columns = min(_columns(step), _MODEL.full_columns)
    rate = _MODEL.operations_per_nanosecond * columns / _MODEL.full_columns
    return step.operations / rate + bytes_of_step(step) / _MODEL.bytes_per_nanosecond


def _columns(step: Step) -> int:
    """The columns of a product, or features of a convolution: of a single one the factors change places."""
    if isinstance(step.op, ByteLayer):
        return _columns(*products(step))
    match step.op:
        case Dot() as op:
            axes = dot_axes(step, op)
            columns = axes.out[2].size
            return columns if columns > 1 else axes.out[1].size
        case Convolution() as op:
            return ProductViews.of(step).sums.shape[op.output_axes.feature]
        case _:
            return _MODEL.full_columns


def _far_part(size: float) -> float:
    """The part of so many bytes that is not in the cache when it is used again."""
    beyond = max(size - _MODEL.cache_bytes, 0)
    return min(beyond / (_MODEL.far_bytes - _MODEL.cache_bytes), 1.0)
