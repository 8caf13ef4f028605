"""Operations on elements. Operands are broadcast as NumPy does; they have one element type.

Python's numbers take the type of the other operand. What is known is computed at once, as NumPy does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from . import mlir_types as types
from .axes import identity, in_memory
from .builder import OPERATORS, Scalar, Value, as_array
from .fold import computable, errors_ignored, float_wise
from .mlir_types import BOOL, Array, DType, is_float, is_integer, is_signed
from .reshaping import common_axes, expand

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_lgamma = np.vectorize(math.lgamma, otypes=[np.float64])


_Unary: TypeAlias = Callable[[Value], Value]
_Binary: TypeAlias = "Callable[[Value | Scalar, Value | Scalar], Value]"


def _unary(op: str, compute: Callable[..., Any] | None, *, bool_result: bool = False) -> _Unary:
    def apply(x: Value) -> Value:
        dtype = BOOL if bool_result else x.dtype
        if compute is not None and computable([x], x.size):
            return _known(x, compute, [x], dtype)
        return _emit(op, [x], dtype)

    apply.__doc__ = f"`{op}` of each element."
    return apply


def _binary(op: str, compute: Callable[..., Any] | None) -> _Binary:
    def apply(x: Value | Scalar, y: Value | Scalar) -> Value:
        first, second = lift(x, y)
        shape = np.broadcast_shapes(first.shape, second.shape)
        if compute is not None and computable([first, second], math.prod(shape)):
            return _known(first, compute, [first, second], first.dtype)
        return _emit(op, [first, second], first.dtype)

    apply.__doc__ = f"`{op}` of pairs of elements."
    return apply


def lift(x: Value | Scalar, y: Value | Scalar) -> tuple[Value, Value]:
    """Both operands as values of one type.

    Raises:
        TypeError: They have different element types.
    """
    if isinstance(x, Value) and isinstance(y, Value):
        if x.dtype != y.dtype:
            raise TypeError(f"the element types {x.dtype} and {y.dtype} differ")
        return x, y
    if isinstance(x, Value):
        assert not isinstance(y, Value)
        return x, x.builder.constant(as_array(y, x.dtype))
    assert isinstance(y, Value)
    return y.builder.constant(as_array(x, y.dtype)), y


def _known(
    like: Value, compute: Callable[..., Any], operands: Sequence[Value], dtype: DType
) -> Value:
    arrays = [value.known for value in operands]
    with errors_ignored():
        return like.builder.constant(np.asarray(compute(*arrays)).astype(dtype))


def _emit(op: str, operands: Sequence[Value], dtype: DType, attributes: str = "") -> Value:
    """An operation on elements, computed in the order in which the largest operand is in memory."""
    builder = operands[0].builder
    shape = np.broadcast_shapes(*(value.shape for value in operands))
    axes = common_axes(operands, shape)
    stored = in_memory(shape, axes)
    stored_operands = [(expand(v, shape, axes), types.tensor(v.dtype, stored)) for v in operands]
    (name,) = builder.write(op, stored_operands, [types.tensor(dtype, stored)], attributes)
    return Value(builder, dtype, tuple(shape), name, order=() if identity(axes) else axes)


# --- integers as C computes them ------------------------------------------------------------------


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(np.divide(x, y))
    quotient, remainder = np.floor_divide(x, y), np.remainder(x, y)
    return np.asarray(quotient + ((remainder != 0) & ((x < 0) != (y < 0))).astype(x.dtype))


def _shift(compute: Callable[..., Any], fill: Callable[[Array], Any]) -> Callable[..., Any]:
    """Shifts by the width and more, which NumPy leaves to the CPU."""

    def shift(x: Array, y: Array) -> Any:
        bits = x.dtype.itemsize * 8
        y = y.astype(x.dtype)
        inside = (y >= 0) & (y < bits)
        return np.where(inside, compute(x, np.where(inside, y, 0)), fill(x))

    return shift


def _logical(x: Array, y: Array) -> Array:
    unsigned = f"u{x.dtype.itemsize}"
    return np.asarray(np.right_shift(x.view(unsigned), y.view(unsigned)).view(x.dtype))


def keep_sign(x: Value) -> Value:
    """The value itself, as `x | (x & -x)` if it is a signed integer that may have wrapped around.

    XLA's simplifier takes squares, products and absolute values of integers for not negative and drops what
    follows from that (tensorflow#118178); it does not see through this, and LLVM removes it.
    """
    if x.known is not None or x.dtype.kind != "i":
        return x
    return or_(x, and_(x, negate(x)))


def multiply(x: Value | Scalar, y: Value | Scalar) -> Value:
    """Products of pairs of elements."""
    product = _product(x, y)
    constant = any(not isinstance(v, Value) or v.known is not None for v in (x, y))
    return product if constant else keep_sign(product)


def abs_(x: Value) -> Value:
    """Absolute values; that of the lowest integer is itself."""
    return keep_sign(_magnitude(x))


def power(x: Value | Scalar, y: Value | Scalar) -> Value:
    """Powers of pairs of elements."""
    return keep_sign(_power(x, y))


def _round_away(x: Array) -> Array:
    """Ties away from zero."""
    whole = np.trunc(x)
    return np.asarray(whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0).astype(x.dtype))


_magnitude = _unary("stablehlo.abs", np.abs)
negate = _unary("stablehlo.negate", np.negative)
exp = _unary("stablehlo.exponential", float_wise(np.exp))
expm1 = _unary("stablehlo.exponential_minus_one", float_wise(np.expm1))
log = _unary("stablehlo.log", float_wise(np.log))
log1p = _unary("stablehlo.log_plus_one", float_wise(np.log1p))
sqrt = _unary("stablehlo.sqrt", float_wise(np.sqrt))
rsqrt = _unary("stablehlo.rsqrt", float_wise(lambda x: 1 / np.sqrt(x)))
sin = _unary("stablehlo.sine", float_wise(np.sin))
cos = _unary("stablehlo.cosine", float_wise(np.cos))
tan = _unary("stablehlo.tan", float_wise(np.tan))
tanh = _unary("stablehlo.tanh", float_wise(np.tanh))
logistic = _unary("stablehlo.logistic", float_wise(lambda x: 1 / (1 + np.exp(-x))))
floor = _unary("stablehlo.floor", float_wise(np.floor))
ceil = _unary("stablehlo.ceil", float_wise(np.ceil))
round_even = _unary("stablehlo.round_nearest_even", float_wise(np.rint))
round_away = _unary("stablehlo.round_nearest_afz", float_wise(_round_away))
sign = _unary("stablehlo.sign", np.sign)
not_ = _unary("stablehlo.not", np.invert)
is_finite = _unary("stablehlo.is_finite", np.isfinite, bool_result=True)
is_inf = _unary("chlo.is_inf", np.isinf, bool_result=True)
erf = _unary("chlo.erf", float_wise(_erf))
erfc = _unary("chlo.erfc", float_wise(_erfc))
asin = _unary("chlo.asin", float_wise(np.arcsin))
acos = _unary("chlo.acos", float_wise(np.arccos))
atan = _unary("chlo.atan", float_wise(np.arctan))
sinh = _unary("chlo.sinh", float_wise(np.sinh))
cosh = _unary("chlo.cosh", float_wise(np.cosh))
asinh = _unary("chlo.asinh", float_wise(np.arcsinh))
acosh = _unary("chlo.acosh", float_wise(np.arccosh))
atanh = _unary("chlo.atanh", float_wise(np.arctanh))
lgamma = _unary("chlo.lgamma", float_wise(_lgamma))

add = _binary("stablehlo.add", np.add)
subtract = _binary("stablehlo.subtract", np.subtract)
_product = _binary("stablehlo.multiply", np.multiply)
divide = _binary("stablehlo.divide", _divide)
remainder = _binary("stablehlo.remainder", np.fmod)
_power = _binary("stablehlo.power", np.power)
maximum = _binary("stablehlo.maximum", np.maximum)
minimum = _binary("stablehlo.minimum", np.minimum)
and_ = _binary("stablehlo.and", np.bitwise_and)
or_ = _binary("stablehlo.or", np.bitwise_or)
xor = _binary("stablehlo.xor", np.bitwise_xor)
shift_left = _binary("stablehlo.shift_left", _shift(np.left_shift, np.zeros_like))
shift_right_logical = _binary("stablehlo.shift_right_logical", _shift(_logical, np.zeros_like))
shift_right_arithmetic = _binary(
    "stablehlo.shift_right_arithmetic", _shift(np.right_shift, lambda x: np.where(x < 0, -1, 0))
)

_COMPARE: dict[str, Callable[..., Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def compare(direction: str, x: Value | Scalar, y: Value | Scalar) -> Value:
    """Truth values of a comparison: EQ, NE, LT, LE, GT or GE."""
    first, second = lift(x, y)
    shape = np.broadcast_shapes(first.shape, second.shape)
    if computable([first, second], math.prod(shape)):
        return _known(first, _COMPARE[direction], [first, second], BOOL)
    attributes = (
        f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
        f"compare_type = #stablehlo<comparison_type {comparison_type(first.dtype)}>"
    )
    return _emit("stablehlo.compare", [first, second], BOOL, attributes)


def comparison_type(dtype: DType) -> str:
    """How StableHLO compares values of a type."""
    if is_float(dtype) or dtype.kind == "c":
        return "FLOAT"
    return "SIGNED" if is_integer(dtype) and is_signed(dtype) else "UNSIGNED"


def equal(x: Value | Scalar, y: Value | Scalar) -> Value:
    """Whether elements are equal."""
    return compare("EQ", x, y)


def not_equal(x: Value | Scalar, y: Value | Scalar) -> Value:
    """Whether elements differ."""
    return compare("NE", x, y)


def select(condition: Value, x: Value | Scalar, y: Value | Scalar) -> Value:
    """Elements of `x` where the condition holds, of `y` elsewhere."""
    first, second = lift(x, y)
    shape = np.broadcast_shapes(condition.shape, first.shape, second.shape)
    if computable([condition, first, second], math.prod(shape)):
        return _known(first, np.where, [condition, first, second], first.dtype)
    return _emit("stablehlo.select", [condition, first, second], first.dtype)


def clamp(low: Value | Scalar, x: Value, high: Value | Scalar) -> Value:
    """Elements limited to a range; NaN stays."""
    return minimum(maximum(x, low), high)


def is_nan(x: Value) -> Value:
    """Whether elements are not numbers."""
    return compare("NE", x, x)


def convert(x: Value, dtype: DType | type) -> Value:
    """Elements of another type, as `stablehlo.convert` does it."""
    dtype = np.dtype(dtype)
    if dtype == x.dtype:
        return x
    if computable([x], x.size) and x.dtype.kind != "c":
        return _known(x, lambda array: _convert_array(array, dtype), [x], dtype)
    if types.element(dtype) == types.element(x.dtype):  # a narrow type that is held by a wider one
        return Value(x.builder, dtype, x.shape, x.name, order=x.order)
    return _emit("stablehlo.convert", [x], dtype)


def _convert_array(array: Array, dtype: DType) -> Array:
    if dtype == BOOL:
        return np.not_equal(array, 0)
    converted: Array = array.astype(dtype)
    return converted


def bitcast(x: Value, dtype: DType | type) -> Value:
    """The bits read as a type of the same width."""
    dtype = np.dtype(dtype)
    if computable([x], x.size):
        assert x.known is not None
        return x.builder.constant(
            np.array(x.known, order="C").reshape(-1).view(dtype).reshape(x.shape)
        )
    return _emit("stablehlo.bitcast_convert", [x], dtype)


OPERATORS.update(
    add=add,
    subtract=subtract,
    multiply=multiply,
    divide=divide,
    negate=negate,
    not_=not_,
    and_=and_,
    or_=or_,
    compare=compare,
)
