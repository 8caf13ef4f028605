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
from ....program.expr import Expression, Operation
from ....program.view import View
from ....thresholds import MOST_BYTE_TAPS
from ...ir.graph import Graph, Node, Operand, Result
from ...ir.match import row_major, view_of
from ...ir.product_ops import convolution_op
from ..match.byte_sources import BYTE, FLOAT, WIDE, Bytes, ByteSource, is_whole
from .kernel_calls import KernelCall

_MAX_RANK = 3
_AS_FLOATS = Expression(
    operations=(
        Operation(opcode="read", input=0, element_type=WIDE),
        Operation(opcode="convert", operands=(0,), element_type=FLOAT),
    ),
    results=(1,),
)
"""Sums as the importer of ONNX files has those of depthwise convolutions."""


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
        and instruction.feature_groups == 1
        and call.is_whole
        and all(all(shape.dimensions) for shape in shapes)
    )
    op = convolution_op(axes, instruction.window, instruction.feature_groups)
    if not plain or not _is_features_last(op):
        return None
    read = _read(graph, node, op, call.typed(0, shapes[0]), call.typed(1, shapes[1]))
    if read is None:
        return None
    padded, roles = read
    return call.replaced(padded, roles, view_of(instruction.shape, call.place))


def _read(
    graph: Graph, node: Node, op: ops.Convolution, images: Operand, kernel: Operand
) -> tuple[ops.Convolution, dict[str, Operand]] | None:
    """A convolution of bytes and what it reads; None if the factors are no conversions of bytes."""
    bytes_ = Bytes(graph, node)
    source, weights = bytes_.around(images), bytes_.behind(kernel)
    if source is None or weights is None or weights.value.source != "constant":
        return None
    if not is_whole(weights):
        return None
    padded = _padded(op, source)
    if padded is None:
        source, padded = ByteSource(bytes_.behind(images) or source.operand), op
    return padded, {"input": source.operand, "kernel": weights}


def byte_depthwise(graph: Graph, node: Node) -> Node | None:
    """The layer that a depthwise convolution of 32-bit floats is whose factors are conversions of bytes; None if it is none."""
    op, result = node.op, node.outputs.get("out")
    if not isinstance(op, ops.Convolution) or op.epilogue is not None or result is None:
        return None
    images, kernel = node.inputs["input"], node.inputs["kernel"]
    views = [images.view, kernel.view, result.view]
    plain = (
        {view.element_type for view in views} == {FLOAT}
        and all(view.is_row_major(ignoring_unit_axes=False) for view in views)
        and result.base is None
        and not result.near
        and is_whole(Operand(result.value, result.view))
        and _is_features_last(op)
        and _has_sums(op, kernel.view)
    )
    read = _read(graph, node, op, images, kernel) if plain else None
    if read is None:
        return None
    padded, roles = read
    if {operand.view.element_type for operand in roles.values()} != {BYTE}:
        return None
    shape = result.view.shape
    layer = ops.ByteLayer(layer=padded, shape=shape, code=_AS_FLOATS)
    new = graph.merged(layer, [node])
    new.inputs = dict(roles)
    rows = math.prod(shape) // shape[-1]
    written = View.dense(result.view.slice, FLOAT, (rows, shape[-1]))
    new.outputs = {"write": Result(result.value, written)}
    return new


def _has_sums(op: ops.Convolution, kernel: View) -> bool:
    """Whether there is a filter for each feature along at most two axes, which floats add up exactly."""
    *taps, inputs, features = kernel.shape
    alone = op.feature_groups == features > 1 == inputs
    return alone and len(op.windows) < _MAX_RANK and math.prod(taps) <= MOST_BYTE_TAPS


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
