"""Finds specs of which the store has every result: their builds only deliver.

Nothing is fetched or copied for them, and only what is read is verified: hundreds of specs take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..errors import ModelwheelError
from ..request import Request
from ..source import fetch as source
from ..store.records import Record
from ..store.store import Store
from ..util.remembering import one_moment
from .steps import Goal, known_request, steps_of
from .steps.base import Step

_READ = frozenset(
    {"inspect", "reference", "freeze", "wheel", "runtime", "verify", "sdist", "bundle"}
)
"""Kinds of steps whose results a build reads when nothing is left to do."""


@dataclass(frozen=True)
class Finished:
    """A spec with nothing left to do."""

    request: Request
    model_key: str
    steps: tuple[Step, ...]
    records: Mapping[str, Record]
    """All results, by the step's name."""


def find_all_finished(requests: Iterable[Request], store: Store, goal: Goal) -> dict[str, Finished]:
    """The requests of which the store has everything, by their names."""
    with one_moment():
        results = {request.name: find_finished(request, store, goal) for request in requests}
    return {name: finished for name, finished in results.items() if finished is not None}


def find_finished(request: Request, store: Store, goal: Goal) -> Finished | None:
    """All results of a request; None if one is missing or damaged, or if a look at the model fails.

    Of the others, only that their files are there is known, with their sizes.
    """
    records: dict[str, Record] = {}
    try:
        model = source.look_up(request.origin, store)
        if model.tree_sha256 is None:
            return None
        request = known_request(request.holding(model.file), model.tree_sha256, store)
        steps = steps_of(request, model.tree_sha256, model.provenance, goal)
        for step in steps:
            key = step.key(store, records)
            record = store.lookup(key) if step.kind in _READ else store.peek(key)
            if record is None:
                return None
            records[step.name] = record
    except ModelwheelError:  # the build does the same again, and reports it
        return None
    for key in (model.key, *(record.key for record in records.values())):
        store.touch(key)
    return Finished(request, model.key, steps, records)
