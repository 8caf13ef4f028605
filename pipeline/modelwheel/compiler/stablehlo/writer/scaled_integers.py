"""Integers with a scale and a zero point: from floats, and back."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from . import Value
from . import pointwise as e
from .mlir_types import FLOAT32, INT32, DType, is_float

_LIMITS: dict[DType, tuple[int, int]] = {
    **{np.dtype(t): (np.iinfo(t).min, np.iinfo(t).max) for t in (np.int8, np.uint8, np.int16)},
    **{np.dtype(t): (np.iinfo(t).min, np.iinfo(t).max) for t in (np.uint16, np.int32)},
    np.dtype(ml_dtypes.int4): (-8, 7),
    np.dtype(ml_dtypes.uint4): (0, 15),
    np.dtype(ml_dtypes.int2): (-2, 1),
    np.dtype(ml_dtypes.uint2): (0, 3),
}


def dequantize(x: Value, scale: Value, zero: Value | None, dtype: DType | None = None) -> Value:
    """(x - zero) * scale."""
    dtype = dtype or scale.dtype
    wide = FLOAT32 if dtype.itemsize < 4 else dtype
    if zero is not None and not is_float(x.dtype):
        if x.dtype.itemsize < 4:
            difference = e.convert(x, INT32) - e.convert(zero, INT32)
        else:
            difference = x - zero
        return e.convert(e.convert(difference, wide) * e.convert(scale, wide), dtype)
    return e.convert(e.convert(x, wide) * e.convert(scale, wide), dtype)


def saturate(x: Value, zero: Value | None, dtype: DType) -> Value:
    """Rounded to even, moved by the zero point and limited to the range of an integer type."""
    low, high = _LIMITS[dtype]
    moved = e.round_even(x)
    if zero is not None:
        moved = moved + e.convert(zero, x.dtype)
    return e.convert(e.clamp(float(low), moved, float(high)), dtype)
