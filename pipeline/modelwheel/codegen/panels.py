"""Packs the weights of matrix products and convolutions when a model is built.

A product reads a few columns of its weights at a time. In the rows of a matrix these are far apart and crowd a few sets
of the cache; in a panel they follow each other (Goto & van de Geijn, "Anatomy of high-performance matrix multiplication",
ACM TOMS 34(3), 2008). All levels and batch sizes read the same panels (`src/kernels/gemm/shape.h`), so weights are
still stored once.

Weights that are bfloat16 numbers, as `package.compute` rounds them or their authors have, are stored in two bytes each. The kernel
(`src/kernels/gemm/bf16_dot.h`) multiplies the same numbers in the same order, so no result changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..dtypes import ElementType
from ..program.arrays import Slice
from ..program.ops import Convolution, Dot
from ..program.program import Program
from ..program.spatial_axes import SpatialExtents, axes_in_use
from ..program.steps import Step
from ..program.strip_layers import products
from ..program.walk import slices, walk
from ..thresholds import SMALLEST_HALVED, THRESHOLDS, fill_panels
from .constants import Constants
from .strides import ProductViews, dot_axes, is_of_bytes

COLUMNS = THRESHOLDS.panel
"""Of a panel."""

PAIR = 2
"""Rows of bfloat16 weights: those of a column are neighbours, as instructions for them take them, and one vector has both."""

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
    halved: bool = False
    """Whether floats keep their upper halves only."""

    def pack(self, content: bytes) -> bytes:
        """A matrix, by rows, in panels of `COLUMNS` columns, the last of which is filled with zeros."""
        import numpy as np  # which a plan does not need

        if not self.run:
            matrix = np.frombuffer(content, "<u4").reshape(self.depth, -1)
            rows = -self.depth % PAIR if self.halved else 0
            matrix = np.pad(matrix, ((0, rows), (0, -matrix.shape[1] % COLUMNS)))
            panels = matrix.reshape(len(matrix), -1, COLUMNS).transpose(1, 0, 2)
            if self.halved:
                panels = panels.reshape(len(panels), -1, PAIR, COLUMNS).swapaxes(2, 3) >> 16
                panels = panels.astype("<u2")
            packed: bytes = panels.tobytes()
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
    halved: bool = False
    """See `Form`."""
    may_be_halved: bool = False
    """Whether there is a kernel that reads them so."""

    @property
    def panel(self) -> int:
        """Elements of a panel (`byte_panel` in `src/kernels/gemm/bytes.h`, `bf16_panel` in `src/kernels/gemm/bf16_dot.h`)."""
        if self.run:
            filled = self.depth // self.run * (self.run + -self.run % QUAD)
            return COLUMNS * (_SUM_BYTES + filled)
        return COLUMNS * (self.depth + (self.depth % PAIR if self.halved else 0))

    @property
    def form(self) -> Form:
        """How they are packed."""
        return Form(self.depth, self.run, self.halved)


def weights_of(step: Step) -> Weights | None:
    """The weights of a product, a convolution or a layer of strips, if they may be in panels."""
    views = ProductViews.of(step)
    if is_of_bytes(step):
        return _of_bytes(step, step.op) if isinstance(step.op, Dot) else _of_windows(step)
    if {view.element_type for view in views} != {ElementType.FLOAT32}:
        return None
    if isinstance(step.op, Dot):
        weights = _of_dot(step, step.op)
        fits = weights is not None and fill_panels(weights.columns)
    else:
        assert isinstance(step.op, Convolution)
        weights = _of_convolution(views, step.op)
        # Convolutions read whole panels.
        fits = weights is not None and fill_panels(weights.columns, growth=0.0)
    return weights if weights and fits and weights.slice.size >= _SMALLEST else None


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
    weights = Weights(view.slice, on_left=on_left, depth=row.size, columns=column.size)
    return weights._replace(may_be_halved=not on_left and view.slice.size >= SMALLEST_HALVED)


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


@dataclass(frozen=True)
class Packed:
    """The constants that are packed, by their SHA-256."""

    panels: frozenset[str] = frozenset()
    halved: frozenset[str] = frozenset()
    """The packed ones that are bfloat16."""


NOTHING_PACKED = Packed()


def pack_weights(
    programs: Iterable[Program], constants: Constants, *, halves: bool = True
) -> Packed:
    """Packs the constants that all programs read as weights, and as nothing else.

    Args:
        programs: All programs of a model, as `Constants.add_program` returned them.
        constants: Theirs. A packed one is known by the same SHA-256; it may have another size, and the following ones
            move then.
        halves: Whether weights that are bfloat16 numbers become so.
    """
    readers: dict[str, list[Weights | None]] = {}
    for program in programs:
        for digest, weights in _readers(program):
            readers.setdefault(digest, []).append(weights)
    packed: dict[str, Form] = {}
    for digest, uses in readers.items():
        forms = {weights.form if weights else None for weights in uses}
        form = forms.pop()
        if form is None or forms or constants.arrays[digest] is None:
            continue
        halved = halves and all(weights and weights.may_be_halved for weights in uses)
        if halved and _is_bfloat16(constants.content(digest)):
            form = form._replace(halved=True)
        constants.rewrite(digest, form.pack)
        packed[digest] = form
    halved_ones = frozenset(digest for digest, form in packed.items() if form.halved)
    return Packed(frozenset(packed), halved_ones)


def _is_bfloat16(content: bytes) -> bool:
    import numpy as np

    return not np.frombuffer(content, "<u2")[::2].any()


def _readers(program: Program) -> Iterator[tuple[str, Weights | None]]:
    """For each use of a constant, its SHA-256, and the weights that it is there, if it is some."""
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
            yield constant.sha256 or "", weights_here.get(part) if whole else None
