"""Times calls as programs make them: with new arrays, with rows that vary, and after silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .process import SideProcess
from .results import OURS, SILENCE_MS, Kind, Timing
from .statistics import ratios, spread

_COUNTS = 8
"""How many numbers of rows a trace has, each twice."""

_MOST = 20_000
"""Calls of a turn: copying the arrays of short calls takes longer than the calls, and is not counted."""


def trace_of(most: int, possible: Sequence[int] = ()) -> tuple[int, ...]:
    """The numbers of rows of calls that vary, up to some number: as many between 1 and 8 as between 8 and 64, mixed.

    Args:
        most: The largest number.
        possible: The only numbers that the model takes, ascending; by default it takes all.

    Returns:
        The same for every runtime and machine; nothing if no number but one is possible.
    """
    counts = [round(most ** (step / (_COUNTS - 1))) for step in range(_COUNTS)] * 2
    if possible:
        counts = [
            max((number for number in possible if number <= count), default=possible[0])
            for count in counts
        ]
    # 7 has no divisor in common with 16: every place comes once.
    return (
        tuple(counts[7 * place % len(counts)] for place in range(len(counts)))
        if len(set(counts)) > 1
        else ()
    )


def time_new_arrays(
    sides: Mapping[Kind, SideProcess], rows: Sequence[int], seconds: float, rounds: int
) -> dict[Kind, Timing]:
    """Times plain calls with new arrays, the sides in turn.

    Args:
        sides: All that are ready for plain calls with these numbers of rows; the wheel among them.
        rows: Of each call, in order.
        seconds: Of each side, about.
        rounds: Into how many turns these are divided.
    """
    once = {kind: side.ask("new_arrays", 1, *rows) for kind, side in sides.items()}
    most = max(1, _MOST // len(rows))
    turns = {
        kind: max(1, min(most, int(seconds / rounds / max(took, 1e-7))))
        for kind, took in once.items()
    }
    times: dict[Kind, list[float]] = {kind: [] for kind in sides}
    for _ in range(rounds):
        for kind, side in sides.items():
            took = side.ask("new_arrays", turns[kind], *rows)
            times[kind].append(took / turns[kind] / len(rows) * 1e6)
    return _timings(times)


def time_after_silence(
    sides: Mapping[Kind, SideProcess], rows: int, seconds: float, rounds: int
) -> dict[Kind, Timing]:
    """Times the first plain call after silence, the sides in turn; arguments as above."""
    times: dict[Kind, list[float]] = {kind: [] for kind in sides}
    for _ in range(max(1, min(rounds, int(seconds * 1e3 / SILENCE_MS)))):
        for kind, side in sides.items():
            times[kind].append(side.ask("after_silence", rows, SILENCE_MS) * 1e6)
    return _timings(times)


def _timings(times: Mapping[Kind, Sequence[float]]) -> dict[Kind, Timing]:
    ours = times[OURS]
    return {
        kind: Timing(us=spread(us), ratio=None if kind == OURS else ratios(us, ours))
        for kind, us in times.items()
    }
