"""Random inputs of a signature: the same values for the same seed on every machine.

They are computed from raw PCG64 bits, which NumPy promises not to change (NEP 19), so that a wheel need
not contain the inputs of its self-test: it has a copy of this file, `_random_inputs.py`, which must not differ.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_FLOAT_BOUNDS = (-math.sqrt(3.0), math.sqrt(3.0))  # uniform, of unit variance
_FLOATING = ("float", "bfloat", "complex")
_WHOLE, _PARTS = 1 << 16, 1 << 17
"""Streams of bits; masks have the small numbers."""

Array = np.ndarray[Any, Any]


def default_bounds(dtype: str) -> tuple[float, float]:
    """[low, high) of an input without bounds of its own."""
    if dtype.startswith(_FLOATING):
        return _FLOAT_BOUNDS
    if dtype == "bool":
        return 0.0, 2.0
    return float(np.iinfo(dtype).min), np.iinfo(dtype).max + 1.0


def random_input(
    seed: int,
    name: str,
    shape: Sequence[int],
    dtype: str,
    bounds: Sequence[float] | None,
    masks: Sequence[tuple[float, int]] = (),
    columns: Sequence[tuple[int, int, float, float, int]] = (),
    parts: int = 0,
    some: bool = False,
) -> Array:
    """Random values for one input.

    Args:
        seed: Not negative.
        name: The input's name; each input has different values.
        shape: Extents.
        dtype: NumPy's name of the element type. Values of `bfloat16` are returned as bits, in uint16.
        bounds: [low, high); by default floats have unit variance around 0, integers are any of their type. Of 32 and
            64 bits, half of these are small: their number of bits is random.
        masks: Values that must occur: each replaces a quarter of the elements or, with a number of
            axes above 0, of the blocks that the last axes hold. Ignored for complex numbers.
        columns: Positions along the last axis with bounds of their own, of which the last ones count: the first, the
            end, [low, high) and their parts. Ignored for complex numbers.
        parts: If not 0, the bounds are divided into so many: all have a value, in random order, before one has two.
        some: Whether each row of the last axis, if there are more axes and it has two elements, has one that is not 0.
    """
    count = math.prod(shape)
    # `hash` of a text differs from process to process, CRC-32 does not.
    seeds = [seed, zlib.crc32(name.encode())]
    unit = _unit(_bits(seeds, 2 * count))
    low, high = bounds or default_bounds(dtype)
    if dtype.startswith("complex"):
        values = low + unit * (high - low)
        # In turn: the first rows are the same, however many there are.
        return np.asarray(values[::2] + 1j * values[1::2], dtype).reshape(shape)
    unit = unit[:count].reshape(shape)
    held = [_replaced([*seeds, n], shape, axes) for n, (_, axes) in enumerate(masks, start=1)]
    free = ~np.any([*held, np.zeros(shape, bool)], axis=0)
    lows, highs = np.full(shape[-1:], low), np.full(shape[-1:], high)
    regions = [(slice(None), parts), *((slice(c[0], c[1]), c[4]) for c in columns)]
    for first, end, least, most, _ in columns:
        lows[first:end], highs[first:end] = least, most
    for number, (part, count_of_parts) in enumerate(regions):
        if count_of_parts and shape:
            mine = np.zeros(shape, bool)
            mine[..., part] = free[..., part]
            unit[mine] = _divide(unit[mine], [*seeds, _PARTS + number], count_of_parts)
    values = np.asarray(lows + unit * (highs - lows))
    if not dtype.startswith(_FLOATING):
        values = _integers(values, seeds, dtype, bounds, columns)
    for where, (value, _) in zip(held, masks, strict=True):
        values[where] = value
    if some and len(shape) > 1 and shape[-1] > 1:
        rows = values.reshape(-1, shape[-1])
        empty = np.flatnonzero(~np.any(rows != 0, axis=-1))
        rows[empty, empty % shape[-1]] = 1
    if dtype == "bfloat16":
        # Cut off, not rounded: the recipe needs no bfloat16 arithmetic, which NumPy lacks.
        return np.asarray(values.astype(np.float32).view(np.uint32) >> np.uint32(16), np.uint16)
    return values.astype(dtype)


def _bits(seeds: Sequence[int], count: int) -> Array:
    return np.asarray(np.random.PCG64([*seeds]).random_raw(count), np.uint64)


def _unit(bits: Array) -> Array:
    """Numbers in [0, 1): the upper 53 bits, as many as a double holds. Nothing is rounded, so none becomes 1."""
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53)


def _replaced(seeds: Sequence[int], shape: Sequence[int], axes: int) -> Array:
    """The quarter of the elements, or blocks of the last `axes`, that a mask replaces."""
    blocks = shape[: len(shape) - min(axes, len(shape) - 1)] if shape else ()
    chosen = (_bits(seeds, math.prod(blocks)) >> np.uint64(62) == 0).reshape(blocks)
    return np.broadcast_to(chosen.reshape((*blocks, *[1] * (len(shape) - len(blocks)))), shape)


def _divide(unit: Array, seeds: Sequence[int], parts: int) -> Array:
    """Numbers in [0, 1) of which each part has one before any has two."""
    turns = -(-unit.size // parts)
    orders = [np.argsort(_bits([*seeds, turn], parts), kind="stable") for turn in range(turns)]
    order = np.concatenate([*orders, np.zeros(0, np.int64)])[: unit.size]
    # Not at the edges of a part, where rounding would decide to which one a number belongs.
    return np.asarray((order + (0.25 + unit / 2)) / parts)


def _integers(
    values: Array,
    seeds: Sequence[int],
    dtype: str,
    bounds: Sequence[float] | None,
    columns: Sequence[tuple[int, int, float, float, int]],
) -> Array:
    """Values rounded down to integers; without bounds, other ones of the whole type."""
    if bounds is not None or dtype == "bool":
        return np.asarray(np.floor(values).astype(dtype))
    signed, width = np.dtype(dtype).kind == "i", 8 * np.dtype(dtype).itemsize
    bits = _bits([*seeds, _WHOLE], 2 * values.size)
    kind: Any = np.int64 if signed else np.uint64
    whole, chance = bits[::2].view(kind) >> kind(64 - width), bits[1::2]
    if width > 16:  # an odd number decides that the value has fewer bits
        fewer = (chance >> np.uint64(1)) % np.uint64(width) * (chance & np.uint64(1))
        whole = whole >> fewer.astype(kind)
    found = whole.astype(dtype).reshape(values.shape)
    for first, end, *_ in columns:
        found[..., first:end] = np.floor(values[..., first:end]).astype(dtype)
    return np.asarray(found)
