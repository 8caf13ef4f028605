"""Whether a TensorFlow is ready to be adopted, and what stands against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..bench.statistics import geometric_mean
from ..model.schema import Difference
from ..util.words import count, first_few
from .trial import Trial, all_ratios

SLOWER = 1.05
"""A wheel is slower if even the first quartile of its rounds takes so many times as long."""
_SLOWER_MEAN = 1.02
_LARGER = 1.1
"""How much larger a wheel may become."""


def objections(
    differences: Sequence[Difference], thunks: Sequence[str], trials: Sequence[Trial]
) -> Iterator[str]:
    """The points to look at before a TensorFlow is adopted; none if it is ready.

    Args:
        differences: Of XLA's compilation result.
        thunks: New kinds of thunks that are not read.
        trials: Of all models.
    """
    broken = [difference.what for difference in differences if difference.breaks]
    if broken:
        yield f"XLA's format has other fields than before: {first_few(broken)}; adapt what reads them"
    if thunks:
        yield (
            f"XLA has new kinds of thunks: {first_few(thunks)}; models that need one are refused until "
            "compiler/xla/decode.py reads it"
        )
    for trial in trials:
        yield from _about(trial)
    mean = geometric_mean(all_ratios(trials))
    if mean is not None and mean > _SLOWER_MEAN:
        yield f"wheels take {mean:.2f} times as long on average"


def _about(trial: Trial) -> Iterator[str]:
    before, now = trial.pinned, trial.candidate
    if before.wheel is not None and now.wheel is None:
        yield f"{trial.model} is no longer built: {now.error}"
    if before.wheel is None and now.wheel is None and before.error != now.error:
        yield f"{trial.model} is refused by another sentence: {now.error}; before: {before.error}"
    if trial.untimed:
        yield f"{trial.model} cannot be timed: {trial.untimed}"
    for rows, slower in trial.slower.items():
        if slower.low > SLOWER:
            yield f"{trial.model} takes {slower.median:.2f} times as long with {count(rows, 'row')}"
    if before.size and now.size and now.size > _LARGER * before.size:
        yield f"{trial.model} has a wheel of {now.size / before.size:.2f} times the size"
