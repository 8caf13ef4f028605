"""Kernels that pool images or reduce rows: XLA's have no vectors.

    f:  ROOT largest = f32[2,2,3,8] reduce-window(x, -inf), window={size=1x3x2x1 ...}, to_apply=maximum
                                  =>    %1 f32[2,2,3,8] = pooling %0 f32[2,5,6,8] {reducer=maximum, window=[3,2], ...}

    f:  sums = f32[2,8] reduce(x, 0), dimensions={1,2}, to_apply=add
        ROOT means = f32[2,8] multiply(sums, 0.25)
                                  =>    %1 f32[2,1,1,8] = pooling %0 f32[2,5,6,8] {reducer=sum, factor=0.25, ...}

    f:  ROOT sums = f32[3,4] reduce-window(x, 0), window={size=1x32 stride=1x32 pad=0_0x14_14}, to_apply=add
                                  =>    %1 f32[3,4] = row_reduction %0 f32[3,100] {reducer=sum, window=32, pad_low=14}

Images of 8-bit integers have their maxima taken so too.

When: poolings with at least `_MIN_FEATURES` features, rows with windows of at least `_MIN_WINDOW` elements; with fewer, vectors
would be nearly empty. Bits: poolings have the same, they take the elements of a window in XLA's order; sums of rows have another order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ....dtypes import ElementType
from ....program import ops
from ....program.view import View
from ...ir.graph import Node
from ...ir.hlo import Instruction, Shape, WindowAxis
from ...ir.match import behind_bitcasts, parameter_of, row_major, scalar_of
from .kernel_calls import KernelCall

_FLOAT, _BYTE = ElementType.FLOAT32, ElementType.INT8
_REDUCERS: dict[str, ops.Reducer] = {"maximum": "maximum", "add": "sum"}
_MIN_FEATURES = 4
_MIN_WINDOW = 8

_Images: TypeAlias = tuple[int, ...]
"""Batch, rows, columns, features; of volumes, planes before the rows."""


@dataclass(frozen=True)
class Pooled:
    """A pooling, with the shapes of its images or volumes."""

    op: ops.Pooling | ops.VolumePooling
    source: _Images
    result: _Images

    element: ElementType = _FLOAT

    def node(self, call: KernelCall) -> Node:
        """The node that pools the first argument of a kernel instead of it."""
        inputs = {"input": call.dense(0, self.element, self.source)}
        return call.replaced(self.op, inputs, View.dense(call.place, self.element, self.result))


@dataclass(frozen=True)
class _Reduction:
    """A fusion that is one reduction: of its first parameter, from a constant on."""

    root: Instruction
    """The `reduce` or `reduce-window`."""
    source: Shape
    """The shape of what is reduced."""
    reducer: ops.Reducer
    initial: float | None

    @property
    def element(self) -> ElementType | None:
        """The type of what is reduced."""
        return self.source.element_type


def pooling(call: KernelCall) -> Node | None:
    """The pooling of images, or of sequences, that a kernel computes; None if it does anything else."""
    reduction = _reduction(call, "reduce-window")
    if reduction is None or reduction.element not in (_FLOAT, _BYTE):
        return None
    root, source = reduction.root, reduction.source
    last = source.rank - 1
    pooled = range(1, last)
    plain = (
        last in (2, 3, 4)
        and row_major(source, root.shape)
        and is_plain(root.window, pooled)
        and source.dimensions[last] >= _MIN_FEATURES
    )
    if not plain:
        return None
    windows = [root.window[axis] for axis in pooled]
    first = windows.pop(0) if len(windows) == 3 else None
    op = ops.Pooling(
        reducer=reduction.reducer,
        initial=reduction.initial,
        window=sides([window.size for window in windows], 1),
        stride=sides([window.stride for window in windows], 1),
        pad_low=sides([window.pad_low for window in windows], 0),
    )
    shapes = _images(source), _images(root.shape)
    if first is None:
        return Pooled(op, *shapes, reduction.element).node(call)
    if reduction.element != _FLOAT:
        return None
    volumes = ops.VolumePooling(
        plane=op, window=first.size, stride=first.stride, pad_low=first.pad_low
    )
    return Pooled(volumes, *shapes).node(call)


def _images(shape: Shape) -> _Images:
    batch, *pooled, features = shape.dimensions
    return (batch, *(pooled if len(pooled) == 3 else sides(pooled, 1)), features)


def mean_of_images(call: KernelCall) -> Node | None:
    """The sum over all places of images, each of them and the result times a factor; None if a kernel does anything else."""
    mean = mean_of_values(call.instruction)
    if mean is None or len(call.arguments) != 1 or not call.is_apart:
        return None
    values, pooled = mean
    source, factor = _scaled(values)
    if source.opcode != "parameter":
        return None
    op = pooled.op.model_copy(update={"in_factor": factor})
    return replace(pooled, op=op).node(call)


def mean_of_values(fusion: Instruction) -> tuple[Instruction, Pooled] | None:
    """Matches mean(f(x)): the instruction f(x) of the fusion, and the pooling of it."""
    if fusion.opcode != "fusion":
        return None
    root, factor = _scaled(behind_bitcasts(fusion.called_root))
    root = behind_bitcasts(root)
    if root.opcode != "reduce" or len(root.operands) != 2:
        return None
    source, initial = root.operands
    shape = source.shape
    last = shape.rank - 1
    plain = (
        last >= 2
        and sorted(root.dimensions) == list(range(1, last))
        and row_major(shape, root.shape)
        and all(s.element_type == _FLOAT for s in (shape, root.shape))
        and shape.dimensions[last] >= _MIN_FEATURES
        and reducer_of(root) == "sum"
        and scalar_of(initial) == 0.0
    )
    if not plain:
        return None
    size = (shape.dimensions[1], math.prod(shape.dimensions[2:last]))
    op = ops.Pooling(
        reducer="sum", initial=0.0, window=size, stride=(1, 1), pad_low=(0, 0), factor=factor
    )
    batch, features = shape.dimensions[0], shape.dimensions[last]
    return source, Pooled(op, (batch, *size, features), (batch, 1, 1, features))


def _scaled(node: Instruction) -> tuple[Instruction, float]:
    """The value that an instruction multiplies by one number, and the number."""
    if node.opcode != "multiply":
        return node, 1.0
    left, right = node.operands
    for value, repeated in ((left, right), (right, left)):
        number = scalar_of(repeated, finite=True)
        if number is not None:
            return value, number
    return node, 1.0


def scaling(fusion: Instruction) -> float | None:
    """The number that a fusion multiplies its only operand by; None if it does anything else."""
    value, factor = _scaled(behind_bitcasts(fusion.called_root))
    plain = len(fusion.operands) == 1 and parameter_of(value) is not None
    return factor if plain and value.shape.element_type == ElementType.FLOAT32 else None


def lower_limit(fusion: Instruction) -> float | None:
    """The number of which a fusion takes the maximum with its only operand; None if it does anything else."""
    root = behind_bitcasts(fusion.called_root)
    if root.opcode != "maximum" or len(fusion.operands) != 1:
        return None
    value, limit = root.operands
    if parameter_of(value) is None:
        value, limit = limit, value
    return None if parameter_of(value) is None else scalar_of(limit, finite=True)


def row_reduction(call: KernelCall) -> Node | None:
    """The reduction of rows that a kernel computes; None if it does anything else.

    XLA reduces long rows in windows first, and then their results (TreeReductionRewriter in
    xla/service/tree_reduction_rewriter.cc).
    """
    reduction = _reduction(call, "reduce-window") or _reduction(call, "reduce")
    if reduction is None or reduction.element != _FLOAT:
        return None
    if reduction.root.opcode == "reduce-window":
        row = _windows_of_rows(reduction)
    else:
        row = _whole_rows(reduction)
    if row is None or row.window < _MIN_WINDOW:
        return None
    op = ops.RowReduction(
        reducer=reduction.reducer, initial=reduction.initial, window=row.window, pad_low=row.pad_low
    )
    rows = reduction.source.elements // row.size
    inputs = {"input": call.dense(0, _FLOAT, (rows, row.size))}
    return call.replaced(op, inputs, View.dense(call.place, _FLOAT, (rows, row.windows)))


@dataclass(frozen=True)
class _Row:
    size: int
    windows: int
    window: int
    pad_low: int


def _windows_of_rows(reduction: _Reduction) -> _Row | None:
    """The windows of a `reduce-window` along the axis that varies fastest."""
    root, order = reduction.root, reduction.source.minor_to_major
    axis = order[0]
    window = root.window[axis]
    plain = (
        root.shape.minor_to_major == order
        and is_plain(root.window, (axis,))
        and (window.stride) == window.size
    )
    size, windows = reduction.source.dimensions[axis], root.shape.dimensions[axis]
    return _Row(size, windows, window.size, window.pad_low) if plain else None


def _whole_rows(reduction: _Reduction) -> _Row | None:
    """The axes of a `reduce`, if they vary fastest."""
    order, reduced = reduction.source.minor_to_major, set(reduction.root.dimensions)
    kept = [axis for axis in order if axis not in reduced]
    numbers = {axis: number for number, axis in enumerate(sorted(kept))}
    fastest = [axis for axis in order if axis in reduced]
    plain = order == (*fastest, *kept) and reduction.root.shape.minor_to_major == tuple(
        numbers[axis] for axis in kept
    )
    size = math.prod(reduction.source.dimensions[axis] for axis in reduced)
    return _Row(size, 1, size, 0) if plain and size else None


def _reduction(call: KernelCall, opcode: str) -> _Reduction | None:
    instruction = call.instruction
    if instruction.opcode != "fusion" or len(call.arguments) != 2 or not call.is_apart:
        return None
    root = instruction.called_root
    if root.opcode != opcode or len(root.operands) != 2:
        return None
    # The fusion has nothing else: its parameters are the operands, in order.
    operands = root.operands
    if [(o.opcode, o.parameter_number) for o in operands] != [("parameter", 0), ("parameter", 1)]:
        return None
    reducer, initial = reducer_of(root), instruction.operands[1]
    kinds = {s.element_type for s in (operands[0].shape, root.shape)}
    if reducer == "maximum" and kinds == {_BYTE}:
        value = float(initial.value) if isinstance(initial.value, int) else None
    else:
        value = scalar_of(initial) if kinds == {_FLOAT} else None
    if reducer is None or value is None:
        return None
    if math.isnan(value) or (math.isinf(value) and (reducer, value > 0) != ("maximum", False)):
        return None
    return _Reduction(root, operands[0].shape, reducer, None if math.isinf(value) else value)


def reducer_of(root: Instruction) -> ops.Reducer | None:
    """The operation that reduces windows, in a computation of two parameters and one operation."""
    operation = root.called_root
    numbers = sorted(
        operand.parameter_number for operand in operation.operands if operand.opcode == "parameter"
    )
    return _REDUCERS.get(operation.opcode) if numbers == [0, 1] else None


def sides(values: Sequence[int], neutral: int) -> tuple[int, int]:
    """One number for rows and one for columns; a sequence is an image with one column."""
    return (values[0], values[1] if len(values) > 1 else neutral)


def is_plain(windows: Sequence[WindowAxis], pooled: Sequence[int]) -> bool:
    """Whether only the axes `pooled` have windows, and nothing is dilated."""
    undilated = all(
        w.window_dilation == 1 and w.base_dilation == 1 and not w.reversed for w in windows
    )
    single = all(
        (w.size, w.stride, w.pad_low, w.pad_high) == (1, 1, 0, 0)
        for axis, w in enumerate(windows)
        if axis not in pooled
    )
    return undilated and single
