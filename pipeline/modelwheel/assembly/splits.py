"""How rows are split into compiled batch sizes, as the library does it (wheel_template/model/src/batching.cpp)."""

from __future__ import annotations

from collections.abc import Mapping

_NO_PARTS: Mapping[int, float] = {}


def first_sizes(
    costs: Mapping[int, float], rows: int, partial: Mapping[int, float] = _NO_PARTS
) -> list[int]:
    """The batch size that runs first for each number of rows from 0 to `rows`, at the lowest total cost.

    Args:
        costs: What one run of each compiled batch size costs.
        rows: The largest number of rows.
        partial: The part of each of these that grows with the rows that a run computes; by default, runs compute all.
    """
    # From the largest down, so that equal costs go to fewer runs; an exact end wins over an equally cheap padded one.
    sizes = sorted(costs, reverse=True)
    first, total = [0], [0.0]
    for n in range(1, rows + 1):
        options = [
            (_run(size, n, costs, partial) + total[max(n - size, 0)], size > n) for size in sizes
        ]
        lowest = min(options)
        total.append(lowest[0])
        first.append(sizes[options.index(lowest)])
    return first


def _run(size: int, rows: int, costs: Mapping[int, float], partial: Mapping[int, float]) -> float:
    """The cost of a run that computes the first rows of a batch size, or all of it."""
    return costs[size] * (1.0 - partial.get(size, 0.0) * max(size - rows, 0) / size)


def lowest_times(
    costs: Mapping[int, float], rows: int, partial: Mapping[int, float] = _NO_PARTS
) -> list[float]:
    """The lowest cost of each number of rows from 0 to `rows`, over all ways to split it."""
    return times(first_sizes(costs, rows, partial), costs, partial)


def times(
    first: list[int], costs: Mapping[int, float], partial: Mapping[int, float] = _NO_PARTS
) -> list[float]:
    """The cost of each number of rows if it is split like this."""
    total = [0.0]
    for n in range(1, len(first)):
        total.append(_run(first[n], n, costs, partial) + total[max(n - first[n], 0)])
    return total
