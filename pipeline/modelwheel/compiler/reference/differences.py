"""How results differ from those in float64 by more than their rounding, in words."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from ...accuracy import rounding_at
from ...model.measuring import measure, widen

_AGREED = 1e-3
"""The largest relative error up to which evaluations agree. One row may be where rounding decides: the logarithm of a
spectrum of zeros."""

_TINY = float(np.finfo(np.float32).smallest_normal)


def is_finite(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())


_FINITE_ELSEWHERE = "other values are finite"


def explain(
    difference: str,
    values: np.ndarray[Any, Any],
    exact: np.ndarray[Any, Any],
    who: str,
    where: str,
) -> str:
    """A difference that `compare` found, as a clause.

    Args:
        difference: What it said.
        values: Of `who`.
        exact: The same in float64.
        who: What computed the values.
        where: What is special about them.
    """
    if difference != _FINITE_ELSEWHERE:
        return f"{where} {difference}"
    lost = np.isfinite(widen(values)) & ~np.isfinite(widen(exact))
    return f"{who} returns {'' if lost.any() else 'no '}finite numbers where float64 {'does not' if lost.any() else 'does'}"


def compare(values: np.ndarray[Any, Any], exact: np.ndarray[Any, Any], scale: float) -> str | None:
    """How values differ by more than their rounding, as the end of a sentence; see `scales_of`."""
    if values.shape != exact.shape:
        return "it has another shape"
    deviation = measure(values, exact)
    if values.dtype.kind in "biu":
        return f"{deviation.changed} of {values.size} values differ" if deviation.changed else None
    if not isfinite(deviation.absolute):
        return _FINITE_ELSEWHERE
    # TensorFlow's threads take numbers below the smallest normal one for zero, others do not.
    least = max(_TINY, rounding_at(scale))
    if deviation.relative <= _AGREED or deviation.absolute <= least:
        return None
    return f"it differs by {deviation.relative:.2g} of the largest value"
