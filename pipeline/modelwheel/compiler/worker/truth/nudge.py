"""Changes numbers by half a unit in the last place of float32."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

_HALF_UNIT = 2.0**-24
"""Half a unit in the last place of float32, relative to the smallest number with that unit."""


def nudge(values: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Values changed by half a unit in the last place of float32; whole numbers, which often count, stay."""
    signs = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    steps = _HALF_UNIT * signs.choice([-1.0, 1.0], values.shape)
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.where(wide == np.round(wide), wide, wide * (1.0 + steps)))
