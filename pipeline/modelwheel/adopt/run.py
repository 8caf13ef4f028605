"""Tries a TensorFlow from its installation to the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..bench.compare import Settings, describe_machine
from ..model.schema import differences, unread_thunks
from ..sandbox.choose import Sandbox
from ..store.store import Store
from ..util.watching import Watcher
from .environment import install_candidate, this_installation
from .page import Outcome
from .trial import build_all, compare_all, read_schema
from .verdict import objections


@dataclass(frozen=True)
class Plan:
    """The plan of a trial: its versions, models and options."""

    version: str
    """Of the candidate."""
    specs: Sequence[str]
    """As on a command line."""
    out: Path
    """An absolute directory for the environment and the wheels of both."""
    options: Sequence[str]
    """Further ones of `modelwheel build`."""
    pinned_options: Sequence[str]
    """As `options`, for builds with the pinned version alone."""
    candidate_options: Sequence[str]
    settings: Settings
    """How wheels are timed."""


def try_candidate(plan: Plan, store: Store, sandbox: Sandbox, watcher: Watcher) -> Outcome:
    """Installs a candidate, builds the same models by it and by the pinned version, and compares.

    Args:
        plan: What is tried.
        store: Has the results of both.
        sandbox: Where wheels are timed.
        watcher: Receives the names of steps.

    Raises:
        EnvironmentProblemError: The candidate cannot be installed, or one of both cannot build at all.
    """
    pinned = this_installation()
    candidate = install_candidate(plan.version, plan.out, watcher)
    schemas = read_schema(pinned), read_schema(candidate)
    first, second = (
        build_all(
            installed,
            plan.specs,
            [*plan.options, *own],
            plan.out / f"wheels-{installed.tensorflow}",
            watcher,
        )
        for installed, own in ((pinned, plan.pinned_options), (candidate, plan.candidate_options))
    )
    trials = compare_all(first, second, plan.settings, sandbox, store, watcher)
    changed, thunks = list(differences(*schemas)), unread_thunks(*schemas)
    return Outcome(
        pinned=pinned.tensorflow,
        candidate=plan.version,
        differences=changed,
        thunks=thunks,
        trials=trials,
        objections=list(objections(changed, thunks, trials)),
        machine=describe_machine(),
    )
