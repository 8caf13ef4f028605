"""Which batch sizes serve a workload best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..assembly.splits import Costs, lowest_times
from ..errors import UsageError
from ..spec.batching import MAX_BATCH_SIZE
from ..util.words import size_text

Workload = Mapping[int, float]
"""How often each number of rows is called, in any unit."""

MAX_ROWS = 4096
_MOST_CANDIDATES = 12
_WORTH = 1.03
"""A batch size is proposed if it makes the workload quicker by 3 %."""


def parse_workload(text: str) -> dict[int, float]:
    """`1:70,16:25,100:5`: numbers of rows, and how often they are called.

    Raises:
        UsageError: The text is malformed.
    """
    workload: dict[int, float] = {}
    for part in text.split(","):
        rows, _, weight = part.partition(":")
        try:
            key, value = int(rows), float(weight or 1)
        except ValueError:
            key, value = 0, 0.0
        if not 1 <= key <= MAX_ROWS or not 0 < value < float("inf"):
            raise UsageError(
                f"--workload: {part!r} is not ROWS:WEIGHT with up to {MAX_ROWS} rows and a positive weight; "
                "write it like 1:70,16:25,100:5"
            )
        if key in workload:
            raise UsageError(f"--workload: {key} rows are given twice")
        workload[key] = value
    return workload


def candidates(workload: Workload, current: Sequence[int]) -> tuple[int, ...]:
    """Batch sizes to try: the current ones, the most frequent numbers of rows, and powers of two up to the largest."""
    most = min(max(workload), MAX_BATCH_SIZE)
    frequent = sorted((n for n in workload if n <= most), key=lambda n: -workload[n])
    powers = [2**i for i in range(most.bit_length())]
    proposed = dict.fromkeys([*current, *frequent[: _MOST_CANDIDATES // 2], *reversed(powers)])
    return tuple(sorted(list(proposed)[: max(_MOST_CANDIDATES, len(current))]))


def expected_time(costs: Costs, workload: Workload) -> float:
    """The mean time of a call of the workload, in the unit of the costs."""
    total = lowest_times(costs, max(workload))
    weights = sum(workload.values())
    return sum(total[rows] * weight for rows, weight in workload.items()) / weights


def propose(
    costs: Costs,
    code: Mapping[int, int],
    workload: Workload,
    budget: int | None,
) -> tuple[int, ...]:
    """The batch sizes for a workload: the best one, and more as long as each makes it quicker by 3 %.

    Args:
        costs: What one run of each candidate costs.
        code: Bytes of machine code of each candidate.
        workload: What is called.
        budget: The most bytes of machine code; None for no limit.

    Raises:
        UsageError: No candidate fits the budget.
    """
    chosen: tuple[int, ...] = ()
    best = float("inf")
    while True:
        left = budget - sum(code[size] for size in chosen) if budget is not None else None
        fitting = [s for s in costs if s not in chosen and (left is None or code[s] <= left)]
        if not chosen and not fitting:
            smallest = min(code.values())
            raise UsageError(
                f"--code-budget: no batch size has less than {size_text(smallest)} of machine code"
            )
        trials = {s: expected_time({k: costs[k] for k in (*chosen, s)}, workload) for s in fitting}
        size = min(trials, key=trials.__getitem__, default=None)
        if size is None or trials[size] * _WORTH > best:
            return _without_spare(chosen, costs, workload, best * _WORTH)
        chosen, best = (*chosen, size), trials[size]


def _without_spare(
    chosen: tuple[int, ...], costs: Costs, workload: Workload, limit: float
) -> tuple[int, ...]:
    """The sizes without early choices that later ones have made needless: the time stays below the limit."""
    for size in chosen:
        rest = {other: costs[other] for other in chosen if other != size}
        if rest and expected_time(rest, workload) < limit:
            return _without_spare(tuple(rest), costs, workload, limit)
    return tuple(sorted(chosen))
