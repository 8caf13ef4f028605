"""Lets convolutions of 8-bit integers read bytes, as products do (`narrow_products`), and add padding by themselves.

    %2 = kernel %0 {symbol=pad}                       %5 s32[1,8,8,16] = convolution %0 s8[1,8,8,4], %1 s8[3,3,4,16]
    %3 = kernel %2 {symbol=convert}            =>         {padding=-5, windows=[{pad_low=1, ..}, ..]}
    %4 = kernel %1 {symbol=convert}
    %5 = kernel %3, %4 {symbol=convolution}

When: the kernel is constant, features are last everywhere, and the input is not dilated. Bits: the same, sums of integers have no
order.
"""

from __future__ import annotations

import math

from ....program import ops
from ...ir.graph import Graph, Node
from ...ir.hlo import Instruction
from ...ir.match import row_major, view_of
from ...ir.product_ops import convolution_op
from ..match.byte_sources import WIDE, Bytes, ByteSource, is_whole
from .kernel_calls import KernelCall

_MAX_RANK = 3
_MOST_TAPS = 512
"""Of filters for one feature: `kMostByteTaps` in `kernels/convolution/byte_depthwise.h`."""


def byte_convolution(graph: Graph, node: Node) -> Node | None:
    """The convolution of bytes that a node is; None if it is anything else."""
    call = KernelCall.of(graph, node)
    axes = None if call is None else call.instruction.convolution
    if call is None or axes is None or len(call.arguments) != 2 or not call.is_apart:
        return None
    instruction = call.instruction
    shapes = [*(operand.shape for operand in instruction.operands), instruction.shape]
    plain = (
        {shape.element_type for shape in shapes} == {WIDE}
        and row_major(*shapes)
        and 1 <= len(axes.input_spatial) <= _MAX_RANK
        and instruction.batch_groups == 1
        and _has_method(instruction)
        and call.is_whole
        and all(all(shape.dimensions) for shape in shapes)
    )
    op = convolution_op(axes, instruction.window, instruction.feature_groups)
    if not plain or not _is_features_last(op):
        return None
    bytes_ = Bytes(graph, node)
    source = bytes_.around(call.typed(0, shapes[0]))
    weights = bytes_.behind(call.typed(1, shapes[1]))
    if source is None or weights is None or weights.value.source != "constant":
        return None
    if not is_whole(weights):
        return None
    padded = _padded(op, source)
    if padded is None:
        source, padded = ByteSource(bytes_.behind(call.typed(0, shapes[0])) or source.operand), op
    roles = {"input": source.operand, "kernel": weights}
    return call.replaced(padded, roles, view_of(instruction.shape, call.place))


def _has_method(instruction: Instruction) -> bool:
    """Whether it has one group, or a filter for each feature along at most two axes, which floats add up exactly."""
    kernel, axes = instruction.operands[1].shape.dimensions, instruction.convolution
    assert axes is not None
    groups = instruction.feature_groups
    taps = math.prod(kernel[axis] for axis in axes.kernel_spatial)
    alone = groups == kernel[axes.kernel_output_feature] and kernel[axes.kernel_input_feature] == 1
    return groups == 1 or (alone and len(axes.kernel_spatial) < _MAX_RANK and taps <= _MOST_TAPS)


def _is_features_last(op: ops.Convolution) -> bool:
    """Whether axes are in the order that the kernels need, and windows slide over what is in memory."""
    spatial = len(op.windows)
    inner = tuple(range(1, spatial + 1))
    images = ops.Axes(batch=0, feature=spatial + 1, spatial=inner)
    kernel = ops.Axes(batch=spatial, feature=spatial + 1, spatial=tuple(range(spatial)))
    return (op.input_axes, op.kernel_axes, op.output_axes) == (images, kernel, images) and all(
        window.base_dilation == 1 and not window.reversed for window in op.windows
    )


def _padded(op: ops.Convolution, source: ByteSource) -> ops.Convolution | None:
    """A convolution that adds the padding of its input by itself; None if it has another one."""
    if not source.pads:
        return op
    spatial = [source.pads[axis] for axis in op.input_axes.spatial]
    others = source.pads[op.input_axes.batch], source.pads[op.input_axes.feature]
    if any(map(any, others)) or any(window.pad_low or window.pad_high for window in op.windows):
        return None
    windows = tuple(
        window.model_copy(update={"pad_low": low, "pad_high": high})
        for window, (low, high) in zip(op.windows, spatial, strict=True)
    )
    return op.model_copy(update={"windows": windows, "padding": source.padding})
