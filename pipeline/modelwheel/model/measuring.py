"""Measures how far an array is from its truth. The wheel's `_errors.py` does the same: change both or neither."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Measured(NamedTuple):
    """See `modelwheel.accuracy.Deviation`."""

    absolute: float
    relative: float
    ulp: float | None
    changed: int | None


def measure(actual: Array, truth: Array) -> Measured:
    """The errors of an array.

    Args:
        actual: Its element type has the units in the last place.
        truth: Of the same shape, in float64, complex128, or the type of `actual`.
    """
    wide, exact = widen(actual), widen(truth)
    errors = difference(wide, exact)
    with np.errstate(invalid="ignore"):
        magnitude = np.where(np.isfinite(exact), np.abs(exact), 0.0)
    absolute, largest = _largest(errors), _largest(magnitude)
    ulp = None
    if actual.dtype.kind in "fc":
        real = np.empty(0, actual.dtype).real.dtype
        limit = float(np.finfo(real).max)
        # Above the type's largest number there are no units.
        units = np.spacing(np.minimum(magnitude, limit / 2).astype(real)).astype(np.float64)
        ulp = _largest(errors / units)
    return Measured(
        absolute, absolute / largest if largest else absolute, ulp, _changed(actual, wide, exact)
    )


def difference(first: Array, second: Array) -> Array:
    """How far elements of arrays of one shape are apart; infinite where one of two is not finite or NaN."""
    left, right = widen(first), widen(second)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        apart = np.nan_to_num(np.abs(left - right), nan=np.inf)
    return np.asarray(np.where(same, 0.0, apart))


def widen(array: Array) -> Array:
    """In float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _largest(values: Array) -> float:
    return float(values.max(initial=0.0))


def _changed(actual: Array, wide: Array, exact: Array) -> int | None:
    if actual.dtype.kind in "biu":
        return int(np.count_nonzero(wide != exact))
    if actual.dtype.kind == "c" or not actual.size or actual.ndim < 2 or actual.shape[-1] < 2:
        return None
    return int(np.count_nonzero(wide.argmax(-1) != exact.argmax(-1)))
