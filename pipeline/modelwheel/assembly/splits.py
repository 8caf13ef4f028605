"""How rows are split into compiled batch sizes, as the library does it (wheel_template/model/src/batching.cpp)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .manifest import Variant


class Cost(NamedTuple):
    """The cost of one run of a batch size."""

    whole: float
    partial: float = 0.0
    """The part of it that grows with the rows that a run computes, from 0 to 1."""

    def of(self, rows: int, size: int) -> float:
        """The cost of a run that computes only so many rows (`Variant::cost_of` in wheel_template/model/src/program.h)."""
        return self.whole * (1.0 - self.partial * (size - rows) / size)


Costs = Mapping[int, Cost]
"""By compiled batch size."""


def costs_of(variants: Iterable[Variant], level: str) -> dict[int, Cost]:
    """The costs of the batch sizes at a level that the library assumes, for the largest length."""
    own = [variant for variant in variants if variant.level == level]
    longest = max((variant.length or 0 for variant in own), default=0)
    return {
        variant.batch_size: Cost(variant.cost, variant.partial)
        for variant in own
        if (variant.length or 0) == longest
    }


def first_sizes(costs: Costs, rows: int) -> list[int]:
    """The batch size that runs first for each number of rows from 0 to `rows`, at the lowest total cost."""
    # From the largest down, so that equal costs go to fewer runs; an exact end wins over an equally cheap padded one.
    sizes = sorted(costs, reverse=True)
    first, total = [0], [0.0]
    for n in range(1, rows + 1):
        options = [(_cost(costs, size, n, total), size > n) for size in sizes]
        lowest = min(options)
        total.append(lowest[0])
        first.append(sizes[options.index(lowest)])
    return first


def _cost(costs: Costs, size: int, rows: int, total: list[float]) -> float:
    """The cost of some rows that a batch size runs first, if that of fewer rows is known."""
    return costs[size].of(rows, size) if size > rows else costs[size].whole + total[rows - size]


def lowest_times(costs: Costs, rows: int) -> list[float]:
    """The lowest cost of each number of rows from 0 to `rows`, over all ways to split it."""
    return times(first_sizes(costs, rows), costs)


def times(first: list[int], costs: Costs) -> list[float]:
    """The cost of each number of rows if it is split like this."""
    total = [0.0]
    for n in range(1, len(first)):
        total.append(_cost(costs, first[n], n, total))
    return total
