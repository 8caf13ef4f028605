"""The answers of `modelwheel plan`: why steps must run, and what that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...util.records import as_json
from ...util.words import count, percent, size_text, time_text

if TYPE_CHECKING:
    from ...engine.planning.changes import Reason
    from ...engine.planning.cost import Cost
    from ...engine.planning.plan import PlannedStep, Survey

_NAMED = 2
"""Steps of one reason that are named; more are counted."""


def total(planned: Sequence[PlannedStep]) -> str:
    """How many steps there are, in one line."""
    missing = sum(step.state == "run" for step in planned)
    return f"{count(len(planned), 'step')}, {len(planned) - missing} cached, {missing} to run"


def reason_lines(
    surveys: Sequence[Survey], reasons: Mapping[str, Sequence[Reason]]
) -> Iterator[str]:
    """A line for each reason, with the steps that have it; the one of most steps first."""
    from ...engine.planning.why import group

    kinds = {step.name: step.kind for survey in surveys for step in survey.planned}
    models = {step.name: survey.request.name for survey in surveys for step in survey.planned}
    for text, names in group(reasons).items():
        if len(names) <= _NAMED:
            yield f"{', '.join(f'{kinds[name]} {name}' for name in names)}: {text}"
            continue
        of_kind = Counter(kinds[name] for name in names)
        steps = _kinds(of_kind)
        of = list(dict.fromkeys(models[name] for name in names))
        yield f"{steps} of {of[0] if len(of) == 1 else count(len(of), 'spec')}: {text}"


def cost_lines(cost: Cost) -> Iterator[str]:
    """The cost of a build, and how much of that is known."""
    if not cost.steps:
        yield "nothing to run"
        return
    if not cost.measured + cost.estimated:
        yield "nothing is known of what steps take: none of these kinds has run yet"
        return
    yield (
        f"{count(cost.steps, 'step')}: {time_text(cost.seconds)} of work; {time_text(cost.makespan)} with "
        f"{count(cost.workers, 'worker')}, {time_text(cost.shortest)} at least; {size_text(cost.bytes)} to store at most"
    )
    share = cost.measured_seconds / cost.seconds if cost.seconds else 1.0
    yield (
        f"{percent(share) if share else 'nothing'} of the time is measured ({count(cost.measured, 'step')}); estimated from steps of the same kind and "
        f"size: {count(cost.estimated, 'step')}"
    )
    if cost.unknown:
        yield f"not counted, because no step of the kind has run yet: {_kinds(cost.unknown)}"
    if cost.hosts:
        yield f"measured on {', '.join(cost.hosts)}"


def _kinds(numbers: Mapping[str, int]) -> str:
    """How many steps there are of each kind: `inspect, 2 freeze`."""
    return ", ".join(
        kind if number == 1 else f"{number} {kind}" for kind, number in numbers.items()
    )


def answer_json(
    surveys: Sequence[Survey], reasons: Mapping[str, Sequence[Reason]] | None, cost: Cost | None
) -> dict[str, Any]:
    """All of it in JSON-serialisable form; what was not asked for is null."""
    from ...engine.planning.why import group

    steps = [
        {**as_json(step), "why": None if reasons is None else as_json(reasons.get(step.name, ()))}
        for survey in surveys
        for step in survey.planned
    ]
    grouped = [{"text": text, "steps": names} for text, names in group(reasons or {}).items()]
    return {
        "steps": steps,
        "reasons": None if reasons is None else grouped,
        "cost": as_json(cost),
    }
