"""Measures how far an array is from its truth. `modelwheel.model.measuring` does the same: change both or neither."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Measured(NamedTuple):
    """The errors of an array."""

    absolute: float
    """The largest error; infinite where only one of two values is finite or NaN."""
    relative: float
    """The same relative to the largest absolute value of the truth."""
    ulp: float | None
    """The largest error of an element in units of its last place; None for integers."""
    changed: int | None
    """How many decisions differ: integers and truth values, or largest elements along the last axis.
    None if the array has none."""


def measure(actual: NDArray[Any], truth: NDArray[Any]) -> Measured:
    """The errors of an array.

    Args:
        actual: Its element type has the units in the last place.
        truth: Of the same shape, in float64, complex128, or the type of `actual`.
    """
    given, exact = widen(actual), widen(truth)
    errors = difference(given, exact)
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
        absolute, absolute / largest if largest else absolute, ulp, _changed(actual, given, exact)
    )


def difference(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """How far elements of arrays of one shape are apart; infinite where one of two is not finite or NaN."""
    left, right = widen(one), widen(other)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        apart = np.nan_to_num(np.abs(left - right), nan=np.inf)
    return np.asarray(np.where(same, 0.0, apart))


def widen(array: NDArray[Any]) -> NDArray[Any]:
    """In float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _largest(values: NDArray[Any]) -> float:
    return float(values.max(initial=0.0))


def _changed(actual: NDArray[Any], given: NDArray[Any], exact: NDArray[Any]) -> int | None:
    if actual.dtype.kind in "biu":
        return int(np.count_nonzero(given != exact))
    if actual.dtype.kind == "c" or not actual.size or actual.ndim < 2 or actual.shape[-1] < 2:
        return None
    return int(np.count_nonzero(given.argmax(-1) != exact.argmax(-1)))
