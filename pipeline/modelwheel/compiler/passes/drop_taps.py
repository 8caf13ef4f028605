"""Leaves out taps of convolutions that meet nothing but padding.

    %2 f32[1,25,32] = convolution %0 f32[1,25,32], %1 f32[5,32,32]         {windows=[{size=5, kernel_dilation=32,
                                                                            pad_low=64, pad_high=64}]}
    =>
    %2 f32[1,25,32] = convolution %0 f32[1,25,32], %1+8192 f32[1,32,32]    {windows=[{size=1, kernel_dilation=32}]}

Where one tap is left of dense arrays, it is a matrix product of all rows:

    %2 f32[75,32] = dot %0 f32[75,32], %1+8192 f32[32,32]                  {lhs_contracting=[1], rhs_contracting=[0]}

Networks whose dilations grow from layer to layer have them where inputs are short: in a pyramid of dilated convolutions over a
small image, one tap of nine may be left. XLA's own convolutions and those of the runtime multiply the padding.

When: the taps that are left are contiguous in memory. Before anything looks at the padding of convolutions. Bits: the same,
unless a weight that only meets padding is not finite.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...dtypes import ElementType
from ...program import ops
from ...program.view import View
from ..ir.graph import Graph, Node, Operand

_FLOATS = frozenset({ElementType.FLOAT32, ElementType.FLOAT64})


class DropTaps:
    """See above."""

    name = "drop-taps"

    def run(self, graph: Graph) -> int:
        """Changes convolutions; returns how many."""
        changed = sum(map(_drop, graph.walk()))
        graph.changed |= changed > 0
        return changed


def _drop(node: Node) -> bool:
    """Leaves out the taps of a convolution that meet no input; whether there are any."""
    op = node.op
    if not isinstance(op, ops.Convolution):
        return False
    kernel, windows = node.inputs["kernel"], list(op.windows)
    shape, start = list(kernel.view.shape), 0
    for number, window in enumerate(windows):
        size = node.inputs["input"].view.shape[op.input_axes.spatial[number]]
        places = node.outputs["out"].view.shape[op.output_axes.spatial[number]]
        axis = op.kernel_axes.spatial[number]
        first, last = _used(window, size, places)
        windows[number] = _narrowed(window, first, last)
        shape[axis] = last - first + 1
        low = window.size - 1 - last if window.reversed else first
        start += low * kernel.view.strides[axis]
    left = None if windows == list(op.windows) else _part(kernel, tuple(shape), start)
    if left is None:
        return False
    node.op = op.model_copy(update={"windows": tuple(windows)})
    node.operations = node.operations * left.view.elements // kernel.view.elements
    node.inputs["kernel"] = left
    _make_product(node)
    return True


def _make_product(node: Node) -> None:
    """Makes a convolution of single elements of dense arrays a matrix product, whose rows are all places."""
    op = node.op
    assert isinstance(op, ops.Convolution)
    single = {"size": 1, "stride": 1, "pad_low": 0, "pad_high": 0, "base_dilation": 1}
    places = (op.input_axes, op.output_axes)
    arrays = (node.inputs["input"].view, node.outputs["out"].view)
    kernel = node.inputs["kernel"]
    in_order = op.kernel_axes.batch < op.kernel_axes.feature == len(kernel.view.shape) - 1
    if op.feature_groups != 1 or not in_order or not kernel.view.is_row_major():
        return
    if any(
        getattr(window, name) != value for window in op.windows for name, value in single.items()
    ):
        return
    for axes, view in zip(places, arrays, strict=True):
        in_rows = axes.batch == 0 and axes.spatial == tuple(range(1, len(view.shape) - 1))
        if not in_rows or not view.is_row_major():
            return
    node.op = ops.Dot(lhs_contracting=(1,), rhs_contracting=(0,))
    node.inputs = {"lhs": _matrix(node.inputs["input"]), "rhs": _matrix(kernel)}
    out = node.outputs["out"]
    node.outputs["out"] = replace(out, view=_rows(out.view))


def _matrix(operand: Operand) -> Operand:
    return Operand(operand.value, _rows(operand.view))


def _rows(view: View) -> View:
    """A dense array as a matrix with its last axis as columns."""
    columns = view.shape[-1]
    shape = (view.elements // columns, columns)
    return view.model_copy(update={"shape": shape, "strides": (columns, 1)})


def _used(window: ops.Window, size: int, places: int) -> tuple[int, int]:
    """The first and the last tap along an axis that are kept: others meet no input, and padding goes with them."""
    furthest = (places - 1) * window.stride
    end = (size - 1) * window.base_dilation + 1
    dilation = window.kernel_dilation
    first, last = 0, window.size - 1
    while first < last and (
        furthest - window.pad_low + first * dilation < 0
        and window.pad_low >= (first + 1) * dilation
    ):
        first += 1
    behind = window.size - 1
    while last > first and (
        last * dilation - window.pad_low >= end
        and window.pad_high >= (behind - last + 1) * dilation
    ):
        last -= 1
    return first, last


def _narrowed(window: ops.Window, first: int, last: int) -> ops.Window:
    behind = window.size - 1 - last
    return window.model_copy(
        update={
            "size": last - first + 1,
            "pad_low": window.pad_low - first * window.kernel_dilation,
            "pad_high": window.pad_high - behind * window.kernel_dilation,
        }
    )


def _part(kernel: Operand, shape: tuple[int, ...], start: int) -> Operand | None:
    """The taps that are left of a kernel, from an element on; None if there are others between them."""
    view = kernel.view
    extents = sorted(
        (stride, extent) for stride, extent in zip(view.strides, shape, strict=True) if extent != 1
    )
    step = 1
    for stride, extent in extents:
        if stride != step:
            return None
        step *= extent
    item = view.element_type.item_bytes
    if view.element_type not in _FLOATS or view.start:
        return None
    part = view.slice.model_copy(
        update={
            "offset": view.slice.offset + start * item,
            "size": math.prod(shape) * item,
        }
    )
    return Operand(kernel.value, view.model_copy(update={"slice": part, "shape": shape}))
