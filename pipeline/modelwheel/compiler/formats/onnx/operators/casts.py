"""Other element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import helper

from ....stablehlo.writer import Value
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import BOOL, FLOAT32, STORED, DType, is_float
from .onnx_node import Node, Result, operator

_EIGHT_BITS = frozenset(
    np.dtype(t)
    for t in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
)


@operator("Cast", "CastLike")
def cast(node: Node) -> Result:
    """Elements of another type."""
    kind = node.get("to", 0)
    if node.op == "Cast" and kind == 8:  # TensorProto.STRING
        raise node.refuse("makes strings", "process text outside the model")
    target = (
        node.input(1).dtype
        if node.op == "CastLike"
        else np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    )
    return to_type(node.input(0), target, saturated=bool(node.get("saturate", 1)))


def to_type(x: Value, dtype: DType, *, saturated: bool = True) -> Value:
    """Elements of another type, as ONNX defines it."""
    if x.dtype == dtype:
        return x
    if dtype == BOOL:
        return e.not_equal(x, 0)
    if dtype in STORED:
        return _narrow(x, dtype)
    if x.dtype in STORED:
        x = e.convert(x, STORED[x.dtype])
    if is_float(dtype):
        return to_float(x, dtype, saturated=saturated)
    return to_integer(x, dtype) if is_float(x.dtype) else e.convert(x, dtype)


def to_integer(x: Value, dtype: DType) -> Value:
    """Floats without their fraction, as ONNX Runtime converts them on x86.

    What a signed type of 32 or 64 bits does not hold, and NaN, becomes its lowest number; narrower and unsigned
    types keep the lower bits of such a number.
    """
    if x.known is not None and np.isfinite(x.known.astype(np.float64)).all():
        x = x.builder.constant(np.trunc(x.known.astype(np.float64)), np.float64)
    if dtype == np.uint64:
        half = e.convert(x - 2.0**63, np.int64)
        return e.select(
            x < 2.0**63,
            e.bitcast(to_integer(x, np.dtype(np.int64)), dtype),
            e.bitcast(half, dtype) + 2**63,
        )
    held = np.dtype(np.int64) if dtype in (np.int64, np.uint32) else np.dtype(np.int32)
    wide = e.convert(x, FLOAT32) if x.dtype.itemsize < 4 else x
    edge = 2.0 ** (held.itemsize * 8 - 1)
    inside = e.and_(wide >= -edge, wide < edge)
    result = e.select(inside, e.convert(wide, held), int(np.iinfo(held).min))
    return e.convert(result, dtype)


def _narrow(x: Value, dtype: DType) -> Value:
    """Integers of 2 and 4 bits, of which the lower bits are kept."""
    held = STORED[dtype]
    bits = 4 if dtype.name.endswith("4") else 2
    whole = e.convert(e.round_even(x), np.int32) if is_float(x.dtype) else x
    if whole.dtype in STORED:
        whole = e.convert(whole, STORED[whole.dtype])
    whole = e.convert(whole, np.int32)
    shift = 32 - bits
    up = e.shift_left(whole, shift)
    signed = held.kind == "i"
    down = e.shift_right_arithmetic(up, shift) if signed else e.shift_right_logical(up, shift)
    return e.convert(e.convert(down, held), dtype)


def to_float(x: Value, dtype: DType, *, saturated: bool) -> Value:
    """Floats, of which the types of 8 bits are limited to their finite values if `saturated`."""
    if dtype in _EIGHT_BITS and x.dtype not in _EIGHT_BITS:
        return _to_eight_bits(x, dtype, saturated=saturated)
    return e.convert(x, dtype)


def _to_eight_bits(x: Value, dtype: DType, *, saturated: bool) -> Value:
    wide = e.convert(x, FLOAT32) if x.dtype.itemsize <= 4 or not is_float(x.dtype) else x
    if not saturated:
        return e.convert(wide, dtype)
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    return e.convert(e.select(e.is_nan(wide), wide, e.clamp(-largest, wide, largest)), dtype)


@operator("BitCast")
def bit_cast(node: Node) -> Result:
    """The bits read as another type of the same width."""
    x = node.input(0)
    target = np.dtype(helper.tensor_dtype_to_np_dtype(node.get("to", 0)))
    if BOOL in (x.dtype, target):
        middle = np.dtype(np.uint8)
        raw = e.convert(x, middle) if x.dtype == BOOL else e.bitcast(x, middle)
        return e.not_equal(raw, 0) if target == BOOL else to_type(raw, target)
    if STORED.get(target, target).itemsize != STORED.get(x.dtype, x.dtype).itemsize:
        raise node.refuse("changes the width of its elements", "cast to a type of equal width")
    return e.bitcast(s.reshape(x, x.shape), target)
