"""Packs the weights of matrix products when a model is built.

A product reads a few columns of its weights at a time. In the rows of a matrix these are far apart and crowd a few sets
of the cache; in a panel they follow each other (Goto & van de Geijn, "Anatomy of high-performance matrix multiplication",
ACM TOMS 34(3), 2008). All levels and batch sizes read the same panels (`src/kernels/gemm_shape.h`), so weights are
still stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..compiler.program import Convolution, Dot, Program, Slice, Strips, Thunk, slices, walk
from ..dtypes import ElementType
from .constants import Constants
from .strides import Axis, dot_axes

COLUMNS = 16
"""Of a panel; `kPanel` in `src/kernels/gemm_shape.h`."""

_FEWEST_COLUMNS = 48
"""The rows of a matrix with fewer are close enough."""

_SMALLEST = 8192
"""Bytes. Smaller weights stay in the first-level cache."""


class Weights(NamedTuple):
    """The weights of a product, as panels of all their rows."""

    slice: Slice
    on_left: bool
    """Whether they are lhs: the kernel exchanges the factors if rhs is a vector."""
    depth: int
    """Rows."""
    columns: int


def weights_of(dot: Dot) -> Weights | None:
    """The weights of a product that may be in panels: 32-bit floats, by rows, with results by rows."""
    if dot.lhs_batch or {a.element_type for a in dot.arrays} != {ElementType.FLOAT32}:
        return None
    axes = dot_axes(dot)
    (_, m, k), (_, rhs_k, n), (*_, out_n) = axes.lhs, axes.rhs, axes.out
    on_left = n.size == 1
    row, column = (k, m) if on_left else (rhs_k, n)
    if not _fit(row, column) or not (on_left or out_n.stride == 1):
        return None
    part = dot.lhs.slice if on_left else dot.rhs.slice
    return Weights(part, on_left, row.size, column.size)


def weights_of_layer(c: Convolution) -> Weights | None:
    """The same for a convolution of strips, whose features vary fastest: the weights if it has single positions."""
    kernel, axes = c.kernel, c.kernel_axes
    row, column = (Axis(kernel.shape[a], kernel.strides[a]) for a in (axes.batch, axes.feature))
    single = all(window.size == 1 for window in c.windows) and c.feature_groups == 1
    if not single or not _fit(row, column):
        return None
    return Weights(kernel.slice, on_left=False, depth=row.size, columns=column.size)


def _fit(row: Axis, column: Axis) -> bool:
    """Whether a matrix is worth packing, and as it must be for that."""
    return (
        column.size >= _FEWEST_COLUMNS
        and column.size % COLUMNS == 0
        and (column.stride, row.stride) == (1, column.size)
        and 4 * row.size * column.size >= _SMALLEST
    )


def pack_weights(programs: Iterable[Program], constants: Constants) -> frozenset[str]:
    """Packs the constants that all programs read as weights of products, and as nothing else.

    Args:
        programs: All programs of a model, as `Constants.add_program` returned them.
        constants: Theirs. A packed one is as long as before, and known by the same SHA-256.

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
    """For each use of a constant, its SHA-256, and its rows if it is the weights of a product."""
    constants = {a.index: a for a in program.allocations if a.kind == "constant" and a.size}
    for result in program.results:
        if result.slice.allocation in constants:
            yield constants[result.slice.allocation].sha256 or "", None
    for thunk in walk(program.thunks):
        found = {weights.slice: weights for weights in _weights(thunk)}
        parts = slices(thunk)
        for part in parts:
            if part.allocation not in constants:
                continue
            constant = constants[part.allocation]
            whole = part.size == constant.size and parts.count(part) == 1
            weights = found.get(part) if whole else None
            yield constant.sha256 or "", weights.depth if weights else None


def _weights(thunk: Thunk) -> list[Weights]:
    match thunk:
        case Dot():
            found = [weights_of(thunk)]
        case Strips():
            found = [weights_of_layer(layer) for layer in thunk.layers]
        case _:
            found = []
    return [weights for weights in found if weights is not None]
