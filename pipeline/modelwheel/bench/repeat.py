"""Measures in turn, until that is stable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .statistics import Spread, ratios, spread

_LEAST, _MOST = 5, 15
"""Rounds."""
STABLE = 0.03
"""Half of the rounds are within this part of the median."""

Measure = Callable[[], Mapping[int, float]]
"""Nanoseconds of a run by batch size."""


@dataclass(frozen=True)
class Repeated:
    """One side over all rounds: nanoseconds of a run by batch size, the same number for each size."""

    rounds: Mapping[int, Sequence[float]]

    @property
    def spreads(self) -> dict[int, Spread]:
        """The median and the quartiles by batch size."""
        return {size: spread(values) for size, values in self.rounds.items()}

    def over(self, other: Repeated) -> dict[int, Spread]:
        """How many times as long this side takes as another one, by batch size."""
        return {size: ratios(values, other.rounds[size]) for size, values in self.rounds.items()}


def is_stable(measured: Spread) -> bool:
    """Whether half of the measurements are close together."""
    return measured.high - measured.low <= STABLE * measured.median


def repeat(sides: Sequence[Measure]) -> list[Repeated]:
    """Lets every side measure once in each round: a slow moment of the machine affects all of them.

    It ends when every side is stable; on a machine that never is, after 15 rounds.
    """
    by_side: list[dict[int, list[float]]] = [{} for _ in sides]
    for done in range(1, _MOST + 1):
        for side, values in zip(sides, by_side, strict=True):
            for size, time in side().items():
                values.setdefault(size, []).append(time)
        every = (times for values in by_side for times in values.values())
        if done >= _LEAST and all(is_stable(spread(times)) for times in every):
            break
    return [Repeated(values) for values in by_side]
