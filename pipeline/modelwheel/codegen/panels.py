"""Packs the weights of matrix products and convolutions when a model is built.

A product reads a few columns of its weights at a time. In the rows of a matrix these are far apart and crowd a few sets
of the cache; in a panel they follow each other (Goto & van de Geijn, "Anatomy of high-performance matrix multiplication",
ACM TOMS 34(3), 2008). All levels and batch sizes read the same panels (`src/kernels/gemm/shape.h`), so weights are
still stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..dtypes import ElementType
from ..program.arrays import Slice
from ..program.ops import Convolution, Dot
from ..program.program import Program
from ..program.steps import Step
from ..program.strip_layers import products
from ..program.walk import slices, walk
from ..thresholds import THRESHOLDS
from .constants import Constants
from .strides import ProductViews, dot_axes

COLUMNS = THRESHOLDS.panel
"""Of a panel."""

_FEWEST_COLUMNS = 48
"""The rows of a matrix with fewer are close enough."""

_LARGEST_GROWTH = 0.04
"""By the zeros that fill the last panel, as a part of the weights."""

_SMALLEST = 8192
"""Bytes. Smaller weights stay in the first-level cache."""


class Weights(NamedTuple):
    """The weights of a product or convolution: a matrix of 32-bit floats, by rows."""

    slice: Slice
    on_left: bool
    """Whether they are lhs: the kernel exchanges the factors if rhs is a vector."""
    depth: int
    """Rows."""
    columns: int


def weights_of(step: Step) -> Weights | None:
    """The weights of a product, a convolution or a layer of strips, if they may be in panels."""
    views = ProductViews.of(step)
    if {view.element_type for view in views} != {ElementType.FLOAT32}:
        return None
    if isinstance(step.op, Dot):
        weights = _of_dot(step, step.op)
        growth = _LARGEST_GROWTH
    else:
        assert isinstance(step.op, Convolution)
        weights = _of_convolution(views, step.op)
        growth = 0.0  # convolutions read whole panels
    if weights is None or weights.columns < _FEWEST_COLUMNS:
        return None
    if -weights.columns % COLUMNS > weights.columns * growth:
        return None
    return weights if weights.slice.size >= _SMALLEST else None


def _of_dot(step: Step, op: Dot) -> Weights | None:
    if op.lhs_batch:
        return None
    axes = dot_axes(step, op)
    (_, m, k), (_, rhs_k, n), (*_, out_n) = axes.lhs, axes.rhs, axes.out
    on_left = n.size == 1
    row, column = (k, m) if on_left else (rhs_k, n)
    # Results by columns would make the kernel exchange the factors too.
    if (column.stride, row.stride) != (1, column.size) or not (on_left or out_n.stride == 1):
        return None
    view = step.inputs["lhs" if on_left else "rhs"]
    return Weights(view.slice, on_left=on_left, depth=row.size, columns=column.size)


def _of_convolution(views: ProductViews, op: Convolution) -> Weights | None:
    kernel, axes = views.rhs, op.kernel_axes
    step = 1
    for axis in (axes.feature, axes.batch, *reversed(axes.spatial)):
        if kernel.shape[axis] != 1 and kernel.strides[axis] != step:
            return None
        step *= kernel.shape[axis]
    columns = kernel.shape[axes.feature]
    if op.feature_groups != 1 or not columns:
        return None
    return Weights(kernel.slice, on_left=False, depth=step // columns, columns=columns)


def pack_weights(programs: Iterable[Program], constants: Constants) -> frozenset[str]:
    """Packs the constants that all programs read as weights, and as nothing else.

    Args:
        programs: All programs of a model, as `Constants.add_program` returned them.
        constants: Theirs. A packed one is known by the same SHA-256; if its last panel is not full, it is longer, and
            the following ones move.

    Returns:
        The SHA-256 of those that are packed.
    """
    depths: dict[str, int | None] = {}
    for program in programs:
        for digest, depth in _readers(program):
            if depths.setdefault(digest, depth) != depth:
                depths[digest] = None
    packed = set()
    for digest, depth in depths.items():
        if depth is not None and constants.arrays[digest] is not None:
            constants.pack(digest, depth, COLUMNS)
            packed.add(digest)
    return frozenset(packed)


def _readers(program: Program) -> Iterator[tuple[str, int | None]]:
    """For each use of a constant, its SHA-256, and its rows if it is weights there."""
    constants = {a.index: a for a in program.allocations if a.kind == "constant" and a.size}
    for result in program.results:
        if result.slice.allocation in constants:
            yield constants[result.slice.allocation].sha256 or "", None
    for step in walk(program.steps):
        weights_here = {w.slice: w for w in map(weights_of, products(step)) if w}
        parts = slices(step)
        for part in parts:
            if part.allocation not in constants:
                continue
            constant = constants[part.allocation]
            whole = part.size == constant.size and parts.count(part) == 1
            weights = weights_here.get(part) if whole else None
            yield constant.sha256 or "", weights.depth if weights else None
