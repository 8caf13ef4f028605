"""Element types as MLIR writes them, and constants as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
DType: TypeAlias = np.dtype[Any]

BOOL, INT32, INT64 = np.dtype(bool), np.dtype(np.int32), np.dtype(np.int64)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

STORED: dict[DType, DType] = {
    np.dtype(ml_dtypes.int2): np.dtype(np.int8),
    np.dtype(ml_dtypes.int4): np.dtype(np.int8),
    np.dtype(ml_dtypes.uint2): np.dtype(np.uint8),
    np.dtype(ml_dtypes.uint4): np.dtype(np.uint8),
}
"""Types whose values are held by a wider one: compiled programs cannot pass parts of bytes."""

_ELEMENTS: dict[DType, str] = {
    BOOL: "i1",
    **{np.dtype(f"int{bits}"): f"i{bits}" for bits in (8, 16, 32, 64)},
    **{np.dtype(f"uint{bits}"): f"ui{bits}" for bits in (8, 16, 32, 64)},
    **{np.dtype(f"float{bits}"): f"f{bits}" for bits in (16, 32, 64)},
    **{np.dtype(f"complex{bits}"): f"complex<f{bits // 2}>" for bits in (64, 128)},
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e4m3fn): "f8E4M3FN",
    np.dtype(ml_dtypes.float8_e4m3fnuz): "f8E4M3FNUZ",
    np.dtype(ml_dtypes.float8_e5m2): "f8E5M2",
    np.dtype(ml_dtypes.float8_e5m2fnuz): "f8E5M2FNUZ",
    np.dtype(ml_dtypes.float8_e8m0fnu): "f8E8M0FNU",
    np.dtype(ml_dtypes.float4_e2m1fn): "f4E2M1FN",
}


def is_float(dtype: DType) -> bool:
    """Whether a type is a real floating-point type, of any width."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype not in STORED)


def is_integer(dtype: DType) -> bool:
    """Whether a type is an integer type of any width; truth values are not."""
    return dtype.kind in "iu" or dtype in STORED


def is_signed(dtype: DType) -> bool:
    """Whether an integer type has negative values."""
    return STORED.get(dtype, dtype).kind == "i"


def element(dtype: DType) -> str:
    """The MLIR name of an element type.

    Raises:
        KeyError: StableHLO has no such type.
    """
    return _ELEMENTS[STORED.get(dtype, dtype)]


def tensor(dtype: DType, shape: Sequence[int]) -> str:
    """The MLIR type of a tensor: `tensor<2x3xf32>`."""
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{element(dtype)}>"


def dense(array: Array) -> str:
    """The elements of a constant as MLIR reads them."""
    if array.size == 0:
        return "dense<>"
    array = array.astype(STORED.get(array.dtype, array.dtype), order="C", copy=False)
    first = array.reshape(-1)[:1]
    # Bits decide, as a NaN equals nothing and the sign of a zero counts.
    splat = first.tobytes() * array.size == array.tobytes()
    if array.dtype == BOOL:
        return f"dense<{json.dumps(first.item() if splat else array.tolist())}>"
    return f'dense<"0x{(first if splat else array).tobytes().hex().upper()}">'
