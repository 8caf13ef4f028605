"""Medians, spreads and means of repeated measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from ..util.records import JsonRecord


class Spread(JsonRecord):
    """The middle of repeated measurements, and where half of them are."""

    median: float
    low: float
    """The first quartile."""
    high: float
    """The third quartile."""


def spread(values: Sequence[float]) -> Spread:
    """The median and the quartiles of at least one value."""
    if len(values) == 1:
        return Spread(median=values[0], low=values[0], high=values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median=median, low=low, high=high)


def ratios(theirs: Sequence[float], ours: Sequence[float]) -> Spread:
    """How many times as long they took, round by round: a slow moment of the machine affects both."""
    return spread([t / o for t, o in zip(theirs, ours, strict=True)])


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean; None if there are no values."""
    logarithms = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None
