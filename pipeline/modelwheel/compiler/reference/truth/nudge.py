"""Changes numbers in their last place."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


def nudge(values: Array, name: str, draw: int, least: float = 0.0, factor: float = 1.0) -> Array:
    """Values of which each is changed by a unit in its last place, up or down, in their own type.

    Whole numbers, which often count, stay.

    Args:
        values: Floats or complex numbers of any type.
        name: What they are: others have other signs.
        draw: A number: others have other signs.
        least: The smallest relative change; larger than a unit where values pass through a narrower type.
        factor: How many times as far.
    """
    seeds = np.random.Generator(np.random.PCG64([zlib.crc32(name.encode()), draw]))
    signs = seeds.choice([-1.0, 1.0], values.shape)
    precision = ml_dtypes.finfo(values.dtype)  # type: ignore[no-untyped-call]
    step = factor * max(float(precision.eps), least)
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        moved = np.where(wide == np.round(wide), wide, wide * (1.0 + step * signs))
        result = moved.astype(values.dtype)
    # The largest number of a type has none above it.
    return np.asarray(
        np.where(np.isfinite(result) | ~np.isfinite(wide), result, values), values.dtype
    )
