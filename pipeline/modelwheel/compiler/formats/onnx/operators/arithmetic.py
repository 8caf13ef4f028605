"""Arithmetic, comparisons and logic on elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold

import numpy as np

from ....stablehlo.writer import Value
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer.mlir_types import is_float
from ....stablehlo.writer.reshaping import broadcast_to, reshape
from .onnx_node import Node, Result, operator

_UNARY: dict[str, Callable[[Value], Value]] = {
    "Abs": e.abs_,
    "Acos": e.acos,
    "Acosh": e.acosh,
    "Asin": e.asin,
    "Asinh": e.asinh,
    "Atan": e.atan,
    "Atanh": e.atanh,
    "BitwiseNot": e.not_,
    "Ceil": e.ceil,
    "Cos": e.cos,
    "Cosh": e.cosh,
    "Erf": e.erf,
    "Exp": e.exp,
    "Floor": e.floor,
    "Log": e.log,
    "Neg": e.negate,
    "Not": e.not_,
    "Reciprocal": lambda x: 1 / x,
    "Round": e.round_even,
    "Sigmoid": e.logistic,
    "Sin": e.sin,
    "Sinh": e.sinh,
    "Sqrt": e.sqrt,
    "Tan": e.tan,
    "Tanh": e.tanh,
}
_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "Add": e.add,
    "And": e.and_,
    "BitwiseAnd": e.and_,
    "BitwiseOr": e.or_,
    "BitwiseXor": e.xor,
    "Div": e.divide,
    "Equal": e.equal,
    "Greater": lambda x, y: x > y,
    "GreaterOrEqual": lambda x, y: x >= y,
    "Less": lambda x, y: x < y,
    "LessOrEqual": lambda x, y: x <= y,
    "Mul": e.multiply,
    "Or": e.or_,
    "Sub": e.subtract,
    "Xor": e.xor,
}


@operator(*_UNARY)
def unary(node: Node) -> Result:
    """A function of each element."""
    return _UNARY[node.op](node.input(0))


@operator(*_BINARY)
def binary(node: Node) -> Result:
    """A function of pairs of elements, broadcast as NumPy does."""
    x, y = node.input(0), node.input(1)
    if (
        node.opset < 7 and y.rank and node.get("broadcast", 0)
    ):  # from an axis of the first operand on
        axis = node.get("axis", x.rank - y.rank) % x.rank
        y = reshape(y, [*y.shape, *[1] * (x.rank - axis - y.rank)])
    return _BINARY[node.op](x, y)


@operator("Max", "Min", "Sum", "Mean")
def variadic(node: Node) -> Result:
    """Any number of operands."""
    values = [node.input(number) for number in range(len(node.inputs))]
    combine = {"Max": e.maximum, "Min": e.minimum}.get(node.op, e.add)
    total = fold(combine, values)
    return total / len(values) if node.op == "Mean" else total


@operator("Identity")
def identity(node: Node) -> Result:
    """The input."""
    return node.inputs[0]


@operator("Where")
def where(node: Node) -> Result:
    """Elements of one or the other input."""
    return e.select(node.input(0), node.input(1), node.input(2))


@operator("Sign")
def sign(node: Node) -> Result:
    """-1, 0 or 1."""
    x = node.input(0)
    return e.convert(e.not_equal(x, 0), x.dtype) if x.dtype.kind == "u" else e.sign(x)


@operator("IsNaN")
def is_nan(node: Node) -> Result:
    """Whether elements are not numbers."""
    return e.is_nan(node.input(0))


@operator("IsInf")
def is_inf(node: Node) -> Result:
    """Whether elements are infinite, of the signs that are asked for."""
    x = node.input(0)
    signs = [
        s for s, name in ((1, "detect_positive"), (-1, "detect_negative")) if node.get(name, 1)
    ]
    matches = [e.equal(x, s * np.inf) for s in signs]
    return fold(e.or_, matches) if matches else e.and_(e.is_nan(x), ~e.is_nan(x))


@operator("Pow")
def pow_(node: Node) -> Result:
    """Powers; the result has the type of the base."""
    x, y = node.input(0), node.input(1)
    if y.known is not None and y.size == 1 and float(y.known.reshape(())) == 2:
        return broadcast_to(x * x, np.broadcast_shapes(x.shape, y.shape))
    if x.dtype == y.dtype:
        return e.power(x, y)
    if is_float(x.dtype):
        return e.power(x, e.convert(y, x.dtype))
    wide = np.dtype(np.float64)
    return e.convert(e.power(e.convert(x, wide), e.convert(y, wide)), x.dtype)


@operator("Mod")
def mod(node: Node) -> Result:
    """The remainder with the sign of the divisor, or of the dividend with `fmod`."""
    x, y = node.input(0), node.input(1)
    rest = e.remainder(x, y)
    if node.get("fmod", 0) or x.dtype.kind == "u":
        return rest
    return e.select(e.and_(e.not_equal(rest, 0), e.xor(rest < 0, y < 0)), rest + y, rest)


@operator("BitShift")
def bit_shift(node: Node) -> Result:
    """Shifts; to the right signed integers keep their sign, in unsigned ones vacated bits are 0."""
    x = node.input(0)
    right = e.shift_right_logical if x.dtype.kind == "u" else e.shift_right_arithmetic
    shift = e.shift_left if node.get("direction", "") == "LEFT" else right
    return shift(x, node.input(1))


@operator("Clip")
def clip(node: Node) -> Result:
    """Elements limited to a range whose ends may be left out."""
    x = node.input(0)
    low, high = node.optional(1), node.optional(2)
    if low is None and "min" in node.attributes:
        low = node.builder.constant(node.attributes["min"], x.dtype)
    if high is None and "max" in node.attributes:
        high = node.builder.constant(node.attributes["max"], x.dtype)
    result = x if low is None else e.maximum(x, low)
    return result if high is None else e.minimum(result, high)
