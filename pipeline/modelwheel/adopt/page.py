"""The result of a trial as a page in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..bench.results import Machine
from ..bench.statistics import geometric_mean
from ..model.schema import Difference
from ..util.markdown import escape, table
from ..util.words import count, size_text
from .trial import Built, Trial, all_ratios


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial."""

    pinned: str
    """The version that is used."""
    candidate: str
    differences: Sequence[Difference]
    thunks: Sequence[str]
    """New kinds of thunks that are not read."""
    trials: Sequence[Trial]
    objections: Sequence[str]
    machine: Machine

    @property
    def ready(self) -> bool:
        """Whether nothing stands against the candidate."""
        return not self.objections


def verdict(outcome: Outcome) -> str:
    """One sentence."""
    if outcome.ready:
        return f"TensorFlow {outcome.candidate} is ready to be adopted."
    number = len(outcome.objections)
    points = f"{count(number, 'point')} {'stands' if number == 1 else 'stand'}"
    return f"TensorFlow {outcome.candidate} is not ready to be adopted: {points} against it."


def write_page(outcome: Outcome) -> str:
    """The page: verdict, objections, models, format."""
    return "\n".join(
        (
            f"# TensorFlow {escape(outcome.candidate)} beside {escape(outcome.pinned)}\n",
            f"**{verdict(outcome)}** Nothing was switched.\n",
            *(f"- {escape(objection)}" for objection in outcome.objections),
            *_models(outcome),
            *_format(outcome),
        )
    )


def _models(outcome: Outcome) -> Iterator[str]:
    mean = geometric_mean(all_ratios(outcome.trials))
    machine = outcome.machine
    yield "\n## Models\n"
    if mean is not None:
        yield (
            f"On average, wheels take **{mean:.2f}** times as long with the candidate (geometric mean of {count(len(outcome.trials), 'model')} "
            f"; {escape(machine.cpu)}, {machine.level}, {machine.date}; both in turn). Error is the largest part of an "
            "allowed error that is used.\n"
        )
    header = ("model", "size", "error", "times as long, by rows", "")
    yield table(header, map(_model, outcome.trials))


def _model(trial: Trial) -> tuple[str, ...]:
    before, now = trial.pinned, trial.candidate
    slower = "; ".join(
        f"{rows}: {spread.median:.2f}" for rows, spread in sorted(trial.slower.items())
    )
    return (
        trial.model,
        _change(before, now, _size),
        _change(before, now, _share),
        slower,
        _said(trial),
    )


def _change(before: Built, now: Built, show: Callable[[Built], str]) -> str:
    old, new = show(before), show(now)
    return old if old == new else f"{old}, now {new}"


def _size(built: Built) -> str:
    return "-" if built.size is None else size_text(built.size)


def _share(built: Built) -> str:
    return "-" if built.share is None else f"{built.share:.3f}"


def _said(trial: Trial) -> str:
    before, now = trial.pinned.error, trial.candidate.error
    if before and now:
        return "refused by both" if before == now else f"refused by both: {now}"
    if now:
        return f"no longer built: {now}"
    return "refused before" if before else trial.untimed


def _format(outcome: Outcome) -> Iterator[str]:
    plain = [difference for difference in outcome.differences if not difference.is_flag]
    flags = [difference for difference in outcome.differences if difference.is_flag]
    yield "\n## XLA's compilation result\n"
    kinds = ", ".join(f"`{name}`" for name in outcome.thunks) or "none"
    yield f"New kinds of thunks that are not read: {kinds}. A model that needs one is refused by name.\n"
    if plain:
        yield table(("", "field, value or type", ""), ((o.kind, o.what, o.detail) for o in plain))
    else:
        yield "Nothing else changed.\n"
    gone = sorted(flag.what.rpartition(".")[2] for flag in flags if flag.kind == "removed")
    for_cpu = [name for name in gone if name.startswith("xla_cpu")]
    yield (
        f"Of XLA's flags, {sum(flag.kind == 'added' for flag in flags)} are new and {len(gone)} are gone, of these for CPUs: "
        f"{', '.join(f'`{name}`' for name in for_cpu) or 'none'}."
    )
