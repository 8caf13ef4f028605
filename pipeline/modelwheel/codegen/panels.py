"""Packs the weights of matrix products and convolutions when a model is built.

A product reads a few columns of its weights at a time. In the rows of a matrix these are far apart and crowd a few sets
of the cache; in a panel they follow each other (Goto & van de Geijn, "Anatomy of high-performance matrix multiplication",
ACM TOMS 34(3), 2008). All levels and batch sizes read the same panels (`src/kernels/gemm_shape.h`), so weights are
still stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..dtypes import ElementType
from ..program.arrays import Slice
from ..program.program import Convolution, Dot, Product, Program
from ..program.walk import products, slices, walk
from .constants import Constants
from .strides import dot_axes

COLUMNS = 16
"""Of a panel; `kPanel` in `src/kernels/gemm_shape.h`."""

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


def weights_of(product: Product) -> Weights | None:
    """The weights of a product or convolution, if they may be in panels."""
    if {a.element_type for a in product.arrays} != {ElementType.FLOAT32}:
        return None
    weights = _of_dot(product) if isinstance(product, Dot) else _of_convolution(product)
    if weights is None or weights.columns < _FEWEST_COLUMNS:
        return None
    # Convolutions read whole panels.
    missing = -weights.columns % COLUMNS
    if missing > (weights.columns * _LARGEST_GROWTH if isinstance(product, Dot) else 0):
        return None
    return weights if weights.slice.size >= _SMALLEST else None


def _of_dot(dot: Dot) -> Weights | None:
    if dot.lhs_batch:
        return None
    axes = dot_axes(dot)
    (_, m, k), (_, rhs_k, n), (*_, out_n) = axes.lhs, axes.rhs, axes.out
    on_left = n.size == 1
    row, column = (k, m) if on_left else (rhs_k, n)
    # Results by columns would make the kernel exchange the factors too.
    if (column.stride, row.stride) != (1, column.size) or not (on_left or out_n.stride == 1):
        return None
    part = dot.lhs.slice if on_left else dot.rhs.slice
    return Weights(part, on_left=on_left, depth=row.size, columns=column.size)


def _of_convolution(convolution: Convolution) -> Weights | None:
    kernel, axes = convolution.kernel, convolution.kernel_axes
    step = 1
    for axis in (axes.feature, axes.batch, *reversed(axes.spatial)):
        if kernel.shape[axis] != 1 and kernel.strides[axis] != step:
            return None
        step *= kernel.shape[axis]
    columns = kernel.shape[axes.feature]
    if convolution.feature_groups != 1 or not columns:
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
    for thunk in walk(program.thunks):
        found = {weights.slice: weights for weights in map(weights_of, products(thunk)) if weights}
        parts = slices(thunk)
        for part in parts:
            if part.allocation not in constants:
                continue
            constant = constants[part.allocation]
            whole = part.size == constant.size and parts.count(part) == 1
            weights = found.get(part) if whole else None
            yield constant.sha256 or "", weights.depth if weights else None
