"""`modelwheel plan --since`: the plans of specs as they were at a tag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ModelwheelError
from ...release.checkout import OldSpec, specs_at
from ...request import make_request
from ...store.store import Store
from ..steps import Goal
from .plan import Survey, survey


@dataclass(frozen=True)
class Then:
    """The plan of a request as it was."""

    survey: Survey | None
    """None if there was no such spec."""
    time: float
    """Of the tag's commit, in seconds since the epoch."""


def surveys_at(
    revision: str, surveys: Sequence[Survey], store: Store, goal: Goal, scratch: Path
) -> list[Then]:
    """The plans that some requests had at a tag, with the results that are in the store now.

    Args:
        revision: The tag.
        surveys: Their plans now.
        store: The store.
        goal: What is built.
        scratch: An empty directory for the files of the tag.

    Raises:
        UsageError: A spec is not in a git checkout, or there is no such tag.
    """
    old = specs_at(revision, [current.request.spec for current in surveys], scratch)
    return [
        Then(_survey(then, now, store, goal), then.time)
        for then, now in zip(old, surveys, strict=True)
    ]


def _survey(old: OldSpec, now: Survey, store: Store, goal: Goal) -> Survey | None:
    if old.spec is None:
        return None
    platforms = [platform.name for platform in now.request.platforms]
    try:
        # All levels and batch sizes that it had: those of today are looked for among them.
        return survey(make_request(old.spec, platforms=platforms), store, goal)
    except ModelwheelError:
        # It was not for these platforms, or its model is not there any more.
        return None
