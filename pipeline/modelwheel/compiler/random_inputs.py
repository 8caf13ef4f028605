"""Random inputs of a signature: the same values for the same seed on every machine and in every version.

They are computed from raw PCG64 bits, which NumPy promises not to change (NEP 19), so that a wheel need
not contain the inputs of its self-test: `_selftest.py` in the wheel uses the same recipe. Changing it
breaks the self-test of released wheels.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_FLOAT_BOUNDS = (-math.sqrt(3.0), math.sqrt(3.0))  # uniform, of unit variance
_INTEGER_BOUNDS = (0.0, 2.0)
_FLOATING = ("float", "bfloat", "complex")


def default_bounds(dtype: str) -> tuple[float, float]:
    """[low, high) of an input without bounds of its own."""
    return _FLOAT_BOUNDS if dtype.startswith(_FLOATING) else _INTEGER_BOUNDS


def random_input(
    seed: int,
    name: str,
    shape: Sequence[int],
    dtype: str,
    bounds: Sequence[float] | None,
    masks: Sequence[tuple[float, int]] = (),
    columns: Sequence[tuple[int, int, float, float]] = (),
) -> np.ndarray[Any, Any]:
    """Random values for one input.

    Args:
        seed: Not negative.
        name: The input's name; each input has different values.
        shape: Extents.
        dtype: NumPy's name of the element type. Values of `bfloat16` are returned as bits, in uint16.
        bounds: [low, high); by default floats have unit variance around 0, integers are 0 or 1.
        masks: Values that must occur: each replaces a quarter of the elements or, with a number of
            axes above 0, of the blocks that the last axes hold. Ignored for complex numbers.
        columns: Positions along the last axis with bounds of their own, of which the last ones count: the first, the
            end and [low, high). Ignored for complex numbers.
    """
    count = math.prod(shape)
    # `hash` of a text differs from process to process, CRC-32 does not.
    bits = np.random.PCG64([seed, zlib.crc32(name.encode())]).random_raw(2 * count)
    # The upper 53 bits, as many as a double holds: nothing is rounded, so no value becomes 1.
    unit = (np.asarray(bits, np.uint64) >> np.uint64(11)) * 2.0**-53
    floating = dtype.startswith(_FLOATING)
    low, high = bounds or default_bounds(dtype)
    if dtype.startswith("complex"):
        values = low + unit * (high - low)
        # In turn: the first rows are the same, however many there are.
        return np.asarray(values[::2] + 1j * values[1::2], dtype).reshape(shape)
    lows, highs = np.full(shape[-1:], low), np.full(shape[-1:], high)
    for first, end, *own in columns:
        lows[first:end], highs[first:end] = own
    values = np.asarray(lows + unit[:count].reshape(shape) * (highs - lows))
    for number, (value, axes) in enumerate(masks, start=1):
        blocks = shape[: len(shape) - min(axes, len(shape) - 1)] if shape else ()
        bits = np.random.PCG64([seed, zlib.crc32(name.encode()), number]).random_raw(
            math.prod(blocks)
        )
        values[(np.asarray(bits, np.uint64) >> np.uint64(62) == 0).reshape(blocks)] = value
    if dtype == "bfloat16":
        # Cut off, not rounded: the recipe needs no bfloat16 arithmetic, which NumPy lacks.
        return np.asarray(values.astype(np.float32).view(np.uint32) >> np.uint32(16), np.uint16)
    return np.asarray(values if floating else np.floor(values)).astype(dtype)
