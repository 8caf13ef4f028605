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
from ..program.spatial_axes import SpatialExtents, axes_in_use
from ..program.steps import Step
from ..program.strip_layers import products
from ..program.walk import slices, walk
from ..thresholds import THRESHOLDS
from .constants import Constants
from .strides import ProductViews, dot_axes, is_of_bytes

COLUMNS = THRESHOLDS.panel
"""Of a panel."""

_FEWEST_COLUMNS = 48
"""The rows of a matrix with fewer are close enough."""

_LARGEST_GROWTH = 0.04
"""By the zeros that fill the last panel, as a part of the weights."""

QUAD = 4
"""Rows that instructions for 8-bit integers take at once: those of a column are neighbours."""

_SUM_BYTES = 4
"""Of the sum of a column, with which its panel begins."""

_SMALLEST = 8192
"""Bytes. Smaller weights stay in the first-level cache."""


class Form(NamedTuple):
    """How a matrix is packed."""

    depth: int
    """Its rows."""
    run: int
    """Rows of 8-bit integers that are filled with zeros to whole quads; 0 for floats."""

    def pack(self, content: bytes) -> bytes:
        """A matrix, by rows, in panels of `COLUMNS` columns, the last of which is filled with zeros."""
        import numpy as np  # which a plan does not need

        if not self.run:
            matrix = np.frombuffer(content, "<u4").reshape(self.depth, -1)
            matrix = np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % COLUMNS)))
            packed: bytes = matrix.reshape(self.depth, -1, COLUMNS).transpose(1, 0, 2).tobytes()
            return packed
        runs = np.frombuffer(content, np.int8).reshape(self.depth // self.run, self.run, -1)
        filled = ((0, 0), (0, -self.run % QUAD), (0, -runs.shape[2] % COLUMNS))
        runs = np.pad(runs, filled)
        matrix = runs.reshape(-1, runs.shape[2])
        sums = -128 * matrix.sum(0, dtype="<i4").reshape(-1, 1, COLUMNS)
        quads = matrix.reshape(-1, QUAD, matrix.shape[1] // COLUMNS, COLUMNS)
        parts = [
            sums.astype("<i4").view(np.int8).reshape(sums.shape[0], -1),
            quads.transpose(2, 0, 3, 1).reshape(sums.shape[0], -1),
        ]
        return np.concatenate(parts, 1).tobytes()


class Weights(NamedTuple):
    """The weights of a product or convolution: a matrix of 32-bit floats or 8-bit integers, by rows."""

    slice: Slice
    on_left: bool
    """Whether they are lhs: the kernel exchanges the factors if rhs is a vector."""
    depth: int
    """Rows."""
    columns: int
    run: int = 0
    """See `Form`."""

    @property
    def panel(self) -> int:
        """Elements of a panel (`byte_panel` in `src/kernels/gemm/bytes.h`)."""
        if self.run:
            filled = self.depth // self.run * (self.run + -self.run % QUAD)
            return COLUMNS * (_SUM_BYTES + filled)
        return COLUMNS * self.depth

    @property
    def form(self) -> Form:
        """How they are packed."""
        return Form(self.depth, self.run)


def weights_of(step: Step) -> Weights | None:
    """The weights of a product, a convolution or a layer of strips, if they may be in panels."""
    views = ProductViews.of(step)
    if is_of_bytes(step):
        return _of_bytes(step, step.op) if isinstance(step.op, Dot) else _of_windows(step)
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


def _of_bytes(step: Step, op: Dot) -> Weights | None:
    """Weights of 8-bit integers are packed whatever their size: there is one kernel, which reads panels."""
    axes = dot_axes(step, op)
    _, rows, columns = axes.rhs
    if op.lhs_batch or (columns.stride, rows.stride) != (1, columns.size):
        return None
    part = step.inputs["rhs"].slice
    return Weights(part, on_left=False, depth=rows.size, columns=columns.size, run=rows.size)


def _of_windows(step: Step) -> Weights | None:
    """The kernel of a convolution of 8-bit integers: windows are rows, a run of which are the taps along the last axis."""
    op = step.op
    assert isinstance(op, Convolution)
    weights = _of_convolution(ProductViews.of(step), op)
    if weights is None:
        return None
    kernel, axes = step.inputs["kernel"], op.kernel_axes
    used = axes_in_use([SpatialExtents.of(op, step)])
    taps = kernel.shape[axes.spatial[used[-1]]] if used else 1
    return weights._replace(run=taps * kernel.shape[axes.batch])


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
    forms: dict[str, Form | None] = {}
    for program in programs:
        for digest, form in _readers(program):
            if forms.setdefault(digest, form) != form:
                forms[digest] = None
    packed = set()
    for digest, form in forms.items():
        if form is not None and constants.arrays[digest] is not None:
            constants.rewrite(digest, form.pack)
            packed.add(digest)
    return frozenset(packed)


def _readers(program: Program) -> Iterator[tuple[str, Form | None]]:
    """For each use of a constant, its SHA-256, and how it is packed if it is weights there."""
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
            yield constant.sha256 or "", weights.form if weights else None
