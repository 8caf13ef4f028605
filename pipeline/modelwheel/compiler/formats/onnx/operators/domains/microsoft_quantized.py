"""Quantised operations of the domain com.microsoft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from .....stablehlo.writer import Value
from .....stablehlo.writer import contractions as p
from .....stablehlo.writer import pointwise as e
from .....stablehlo.writer import reducing as r
from .....stablehlo.writer import reshaping as s
from .....stablehlo.writer.integer_products import Whole, integer_product
from .....stablehlo.writer.mlir_types import FLOAT32, Array
from .....stablehlo.writer.scaled_integers import dequantize, saturate
from .. import rnn as recurrent
from ..onnx_node import MICROSOFT, Node, Result, operator
from ..quantized import (
    along,
    quantize,
    scale_of_range,
)
from .microsoft import as_standard, value


@operator("QuantizeLinear", "DequantizeLinear", domain=MICROSOFT)
def same(node: Node) -> Result:
    """The operation of ONNX with the same name."""
    return as_standard(node, node.op)


def _scalar(x: Value | None) -> Value | None:
    return None if x is None else s.reshape(x, [])


def _read(node: Node, number: int) -> Value:
    """An input, its scale and its zero point as floats."""
    return dequantize(
        node.input(number),
        s.reshape(node.input(number + 1), []),
        _scalar(node.optional(number + 2)),
    )


def _write(node: Node, x: Value, number: int, like: Value) -> Value:
    """Floats as integers, by a scale and a zero point; without that, of the type of an input."""
    zero = _scalar(node.optional(number + 1))
    dtype = like.dtype if zero is None else zero.dtype
    return quantize(x, s.reshape(node.input(number), []), zero, dtype)


@operator("QLinearAdd", domain=MICROSOFT)
def add(node: Node) -> Result:
    """A sum."""
    return _write(node, _read(node, 0) + _read(node, 3), 6, node.input(0))


@operator("QLinearMul", domain=MICROSOFT)
def multiply(node: Node) -> Result:
    """A product, of which the whole numbers are multiplied first."""
    left, right = (Whole(node.input(n), _scalar(node.optional(n + 2))).as_floats() for n in (0, 3))
    first, second, scale = (s.reshape(node.input(n), []) for n in (1, 4, 6))
    zero = _scalar(node.optional(7))
    dtype = node.input(0).dtype if zero is None else zero.dtype
    return saturate(left * right * (first * second / scale), zero, dtype)


def _softmax(node: Node, x: Value) -> Value:
    axis = node.get("axis", -1) % x.rank
    if node.get("opset", 13) >= 13:
        return r.softmax(x, axis)
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return s.reshape(r.softmax(s.reshape(x, [rows, x.size // rows]), 1), x.shape)


def _mean(node: Node, x: Value) -> Value:
    axes = [int(a) for a in node.get("axes", None) or range(x.rank)]
    return r.mean(x, axes, keep=bool(node.get("keepdims", 1)))


def _pool(node: Node, x: Value, op: str) -> Value:
    last = bool(node.get("channels_last", 0))
    result = value(as_standard(node, op, [s.move_axis(x, -1, 1) if last else x]))
    return s.move_axis(result, 1, -1) if last else result


_ON_ONE: dict[str, Callable[[Node, Value], Value]] = {
    "QLinearSigmoid": lambda _, x: e.logistic(x),
    "QLinearLeakyRelu": lambda node, x: e.select(x < 0, x * node.get("alpha", 0.01), x),
    "QLinearSoftmax": _softmax,
    "QLinearReduceMean": _mean,
    "QLinearGlobalAveragePool": lambda node, x: _pool(node, x, "GlobalAveragePool"),
    "QLinearAveragePool": lambda node, x: _pool(node, x, "AveragePool"),
}


@operator(*_ON_ONE, domain=MICROSOFT)
def of_one(node: Node) -> Result:
    """A function of one quantised tensor."""
    return _write(node, _ON_ONE[node.op](node, _read(node, 0)), 3, node.input(0))


@operator("QLinearConcat", domain=MICROSOFT)
def concat(node: Node) -> Result:
    """Quantised tensors beside each other, with one scale and zero point."""
    parts = [
        _write(node, _read(node, number), 0, node.input(number))
        for number in range(2, len(node.inputs), 3)
    ]
    return s.concatenate(parts, int(node.get("axis", 0)))


@operator("QLinearWhere", domain=MICROSOFT)
def where(node: Node) -> Result:
    """Elements of one or the other input."""
    result = e.select(node.input(0), _read(node, 1), _read(node, 4))
    return _write(node, result, 7, node.input(1))


# --- products -------------------------------------------------------------------------------------


def _columns(parameter: Value | None, x: Value) -> Value | None:
    """A scale or zero point of a matrix: one, or one for each column."""
    return None if parameter is None else along(parameter, x, x.rank - 1)


@operator("QGemm", domain=MICROSOFT)
def q_gemm(node: Node) -> Result:
    """alpha * A * B + C of quantised matrices, as floats or quantised again."""
    a, b, addend = node.input(0), node.input(3), node.optional(6)
    a = s.transpose(a, [1, 0]) if node.get("transA", 0) else a
    b = s.transpose(b, [1, 0]) if node.get("transB", 0) else b
    first = Whole(a, _scalar(node.optional(2)))
    total = integer_product(first, Whole(b, _columns(node.optional(5), b)), addend)
    scale_b = _columns(node.input(4), b)
    assert scale_b is not None
    scale = s.reshape(node.input(1), []) * scale_b * float(node.get("alpha", 1.0))
    product = e.convert(total, FLOAT32) * scale
    if node.optional(7) is None:
        return product
    zero = _scalar(node.optional(8))
    dtype = a.dtype if zero is None else zero.dtype
    return saturate(product / s.reshape(node.input(7), []), zero, dtype)


def dynamic(x: Value) -> tuple[Whole, Value]:
    """Floats as whole numbers from -255 to 255 by the range of all of them, and their scale."""
    scale, zero = scale_of_range(x)
    numbers = e.convert(e.clamp(0, e.round_even(x / scale) + zero, 255), np.uint8)
    return Whole(numbers, e.convert(zero, np.uint8)), scale


def dynamic_product(x: Value, weights: Whole, scale: Value) -> Value:
    """The product of floats with whole numbers, for which the floats are quantised."""
    whole, own = dynamic(x)
    return e.convert(integer_product(whole, weights), FLOAT32) * (own * scale)


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_mat_mul(node: Node) -> Result:
    """The product of floats, quantised by their range, with a quantised matrix."""
    b, bias = node.input(1), node.optional(4)
    scale = _columns(node.input(2), b)
    assert scale is not None
    product = dynamic_product(node.input(0), Whole(b, _columns(node.optional(3), b)), scale)
    return product if bias is None else product + bias


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def to_float(node: Node) -> Result:
    """The product of quantised matrices as floats."""
    a, b, bias = node.input(0), node.input(1), node.optional(6)
    zero, scale, scale_b = node.optional(4), node.input(2), _columns(node.input(3), b)
    assert scale_b is not None
    if scale.size > 1:  # one for each row
        scale = s.reshape(scale, [scale.size, 1])
        zero = zero if zero is None else s.reshape(zero, [zero.size, 1])
    else:
        scale, zero = s.reshape(scale, []), _scalar(zero)
    total = integer_product(Whole(a, zero), Whole(b, _columns(node.optional(5), b)))
    product = e.convert(total, FLOAT32) * (scale * scale_b)
    return product if bias is None else product + bias


@operator("MatMulNBits", domain=MICROSOFT)
def few_bits(node: Node) -> Result:
    """The product with a matrix of packed integers of 2, 4 or 8 bits, which is unpacked here."""
    x, bias = node.input(0), node.optional(5)
    weights = node.builder.constant(_unpacked(node), x.dtype)
    product = p.matmul(x, weights)
    return product if bias is None else product + bias


def _unpacked(node: Node) -> Array:
    """The matrix of `MatMulNBits`, [K, N]."""
    rows, columns = int(node.attributes["K"]), int(node.attributes["N"])
    bits, block = int(node.get("bits", 4)), int(node.attributes["block_size"])
    blocks = -(-rows // block)
    packed = node.required(1, "its weights").reshape(columns, -1)
    scales = node.required(2, "its scales").reshape(columns, blocks).astype(np.float32)
    zeros: Array = np.full((columns, blocks), 1 << (bits - 1), np.float32)
    if node.optional(3) is not None:
        points = node.required(3, "its zero points")
        points = points.reshape(columns, -1)
        wide = _bits(points, bits) if points.dtype == np.uint8 else points.astype(np.float32)
        zeros = wide[:, :blocks]
    numbers = _bits(packed, bits)[:, : blocks * block]
    groups = np.arange(blocks * block) // block
    if node.optional(4) is not None:
        if bits != 4:
            raise node.refuse(
                f"has groups of rows of {bits} bits", "quantise it with 4 bits, or without groups"
            )
        groups = np.resize(node.required(4, "its groups").reshape(-1), rows)
        numbers = numbers[:, :rows]
    values = (numbers - zeros[:, groups]) * scales[:, groups]
    return np.ascontiguousarray(values[:, :rows].T)


def _bits(packed: Array, bits: int) -> Array:
    """Integers of some bits, the lowest first in each byte, as float32."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & ((1 << bits) - 1)
    return parts.reshape(packed.shape[0], -1).astype(np.float32)


# --- recurrent ------------------------------------------------------------------------------------


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def lstm(node: Node) -> Result:
    """An LSTM with quantised weights; inputs and states are quantised by their range."""
    like = replace(node, op="LSTM", domain="")
    return recurrent.run(like, recurrent.LSTM, partial(_matrices, node))


def _matrices(node: Node, number: int) -> Sequence[recurrent.Matrix]:
    """The products with the weights of a direction, which are [directions, inputs or size, 4 * size]."""
    made = []
    for weights, scale, zero in ((1, 8, 9), (2, 10, 11)):
        whole, factor, shift = (
            s.index_axis(node.input(n), 0, number) for n in (weights, scale, zero)
        )
        numbers = Whole(whole, along(shift, whole, 1))
        factor = along(factor, whole, 1)
        multiply = partial(dynamic_product, weights=numbers, scale=factor)
        made.append(recurrent.Matrix(multiply, whole.shape[0]))
    return made
