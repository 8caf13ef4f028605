"""`modelwheel plan`: every step of a build by name, and whether its result is in the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...request import Request
from ...source import fetch as source
from ...store.records import Record
from ...store.store import Store
from ...util.remembering import one_moment
from ..steps import Goal, known_request, steps_of
from ..steps.base import Step

State: TypeAlias = Literal["cached", "run"]


@dataclass(frozen=True)
class PlannedStep:
    """One line of a plan."""

    name: str
    kind: str
    state: State
    key: str | None
    """None if it depends on a result that is still missing."""


@dataclass(frozen=True)
class Survey:
    """The facts about the build of one request while nothing runs."""

    request: Request
    model: source.KnownModel
    steps: tuple[Step, ...]
    planned: tuple[PlannedStep, ...]
    """Fetching the model, then each of `steps`."""
    records: Mapping[str, Record]
    """The results that are in the store, by the step's name."""


def plan(request: Request, store: Store, goal: Goal = "wheel") -> list[PlannedStep]:
    """Every step of a request in the order of the pipeline. Fetches and runs nothing."""
    return list(survey(request, store, goal).planned)


def survey_all(requests: Iterable[Request], store: Store, goal: Goal = "wheel") -> list[Survey]:
    """The plans of several requests, all of one moment."""
    with one_moment():
        return [survey(request, store, goal) for request in requests]


def survey(request: Request, store: Store, goal: Goal = "wheel") -> Survey:
    """The plan of a request, with what it was made from."""
    model = source.look_up(request.origin, store)
    request = request.holding(model.file)
    tree = model.tree_sha256
    if tree is not None:
        request = known_request(request, tree, store)
    state: State = "run" if tree is None else "cached"
    planned = [PlannedStep(f"{request.name}/fetch", "fetch", state, model.key)]
    records: dict[str, Record] = {}
    steps = steps_of(request, tree or "", model.provenance, goal)
    for step in steps:
        key = _key(step, store, records) if tree is not None else None
        record = store.peek(key) if key is not None else None
        if record is not None:
            records[step.name] = record
        state = "run" if record is None else "cached"
        planned.append(PlannedStep(step.name, step.kind, state, key))
    return Survey(request, model, steps, tuple(planned), records)


def _key(step: Step, store: Store, records: dict[str, Record]) -> str | None:
    if all(need in records for need in step.needs):
        return step.key(store, records)
    return None
