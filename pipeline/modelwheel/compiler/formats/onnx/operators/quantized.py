"""Quantised tensors: integers with a scale and a zero point."""

from __future__ import annotations

import numpy as np
from onnx import helper

from ....stablehlo.writer import Value
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import reducing as r
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.integer_products import (
    Dequantized,
    Quantized,
    Whole,
    integer_convolution,
    integer_product,
    kept,
    whole_convolution,
)
from ....stablehlo.writer.mlir_types import FLOAT32, INT32, DType, is_integer
from ....stablehlo.writer.scaled_integers import dequantize, saturate
from .onnx_node import Node, Result, operator


def along(parameter: Value, x: Value, axis: int, block: int = 0) -> Value:
    """A scale or zero point as it broadcasts to a tensor: one, one for each channel, or for each block."""
    if parameter.size == 1 and parameter.rank <= 1:
        return s.reshape(parameter, [])
    if parameter.rank == 1 and not block:
        axis %= x.rank
        return s.reshape(parameter, [parameter.size if a == axis else 1 for a in range(x.rank)])
    if block:
        axis %= x.rank
        shape = [*parameter.shape[: axis + 1], block, *parameter.shape[axis + 1 :]]
        wide = s.broadcast_to(s.expand_dims(parameter, axis + 1), shape)
        joined = s.reshape(
            wide,
            [*shape[:axis], shape[axis] * block, *shape[axis + 2 :]],
        )
        return s.slice_axis(joined, axis, 0, x.shape[axis])
    return parameter


def quantize(x: Value, scale: Value, zero: Value | None, dtype: DType) -> Value:
    """x / scale, rounded and limited to the type."""
    wide = FLOAT32 if x.dtype.itemsize < 4 else x.dtype
    quotient = e.convert(x, wide) / e.convert(scale, wide)
    if is_integer(dtype):
        return saturate(quotient, zero, dtype)
    if zero is not None:
        quotient = quotient + e.convert(zero, wide)
    from .casts import to_float

    return to_float(quotient, dtype, saturated=True)


@operator("QuantizeLinear")
def quantize_linear(node: Node) -> Result:
    """Floats as integers, or as floats of 8 and 4 bits."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    kind = node.get("output_dtype", 0)
    dtype = zero.dtype if zero is not None else np.dtype(np.uint8)
    if kind and zero is None:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    if zero is not None:
        zero = along(zero, x, axis, block)
    if x.dtype == INT32:
        x = e.convert(x, scale.dtype)
    return kept(quantize(x, along(scale, x, axis, block), zero, dtype))


@operator("DequantizeLinear")
def dequantize_linear(node: Node) -> Result:
    """Integers as floats."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    kind = node.get("output_dtype", 0)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind)) if kind else scale.dtype
    zero = None if zero is None else along(zero, x, axis, block)
    scale = along(scale, x, axis, block)
    if not isinstance(x, Quantized):
        values = dequantize(x, scale, zero, dtype)
        return Dequantized.of(values, Whole(x, zero), scale) if x.dtype.itemsize == 1 else values
    whole = Whole(x, zero).signed()
    return Dequantized.of(dequantize(whole.numbers, scale, whole.zero, dtype), whole, scale)


def scale_of_range(x: Value) -> tuple[Value, Value]:
    """The scale of uint8 for the range of all floats, 1 if all are 0 as ONNX Runtime has it, and the zero point as a float."""
    axes = list(range(x.rank))
    low = e.minimum(r.reduce(x, axes, "minimum"), 0)
    high = e.maximum(r.reduce(x, axes, "maximum"), 0)
    scale = (high - low) / 255
    scale = e.select(e.equal(scale, 0), 1, scale)
    return scale, e.round_even(e.clamp(0, -low / scale, 255))


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> Result:
    """Floats as uint8, with a scale and a zero point that follow from their range."""
    x = node.input(0)
    scale, point = scale_of_range(x)
    zero = e.convert(point, np.uint8)
    return [kept(saturate(x / scale, zero, np.dtype(np.uint8))), scale, zero]


# --- products -------------------------------------------------------------------------------------


def _for_rows(zero: Value | None, x: Value) -> Value | None:
    """The zero point of the first factor: one, or one for each row."""
    if zero is None or zero.size == 1:
        return None if zero is None else s.reshape(zero, [])
    return s.reshape(zero, [zero.size, 1]) if zero.rank == 1 and x.rank > 1 else zero


def _for_columns(zero: Value | None) -> Value | None:
    if zero is None or zero.size == 1:
        return None if zero is None else s.reshape(zero, [])
    return zero


@operator("MatMulInteger")
def mat_mul_integer(node: Node) -> Result:
    """The product of 8-bit integers as int32."""
    x, y = node.input(0), node.input(1)
    first = Whole(x, _for_rows(node.optional(2), x))
    return integer_product(first, Whole(y, _for_columns(node.optional(3))))


@operator("QLinearMatMul")
def q_linear_mat_mul(node: Node) -> Result:
    """The product of quantised matrices, quantised again."""
    x, y = node.input(0), node.input(3)
    first = Whole(x, _for_rows(node.input(2), x))
    product = integer_product(first, Whole(y, _for_columns(node.input(5))))
    scale = _scale_rows(node.input(1), x) * node.input(4) / node.input(6)
    zero = node.input(7)
    return requantize(product, scale, zero)


def _scale_rows(scale: Value, x: Value) -> Value:
    scales = _for_rows(scale, x)
    assert scales is not None
    return scales


def requantize(x: Value, scale: Value, zero: Value) -> Value:
    """Sums of products as integers with another scale."""
    wide = FLOAT32 if scale.dtype.itemsize < 4 else scale.dtype
    result = e.convert(x, wide) * e.convert(scale, wide)
    zero_ = s.reshape(zero, []) if zero.size == 1 else zero
    return kept(saturate(result, zero_, zero.dtype))


@operator("ConvInteger")
def conv_integer(node: Node) -> Result:
    """The convolution of 8-bit integers as int32."""
    from .images.sliding import kernel_window

    x, kernel = node.input(0), node.input(1)
    first = Whole(x, node.optional(2))
    zero = node.optional(3)
    second = Whole(kernel, None if zero is None else along(zero, kernel, 0))
    return integer_convolution(
        first, second, kernel_window(node, x, kernel.shape[2:]), node.get("group", 1)
    )


@operator("QLinearConv")
def q_linear_conv(node: Node) -> Result:
    """The convolution of quantised tensors, quantised again."""
    from .images.sliding import kernel_window

    x, kernel, bias = node.input(0), node.input(3), node.optional(8)
    first = Whole(x, s.reshape(node.input(2), []))
    second = Whole(kernel, along(node.input(5), kernel, 0))
    window = kernel_window(node, x, kernel.shape[2:])
    product = whole_convolution(first, second, window, node.get("group", 1), bias)
    scale = (
        s.reshape(node.input(1), [])
        * along(node.input(4), product, 1)
        / s.reshape(node.input(6), [])
    )
    return requantize(product, scale, node.input(7))
