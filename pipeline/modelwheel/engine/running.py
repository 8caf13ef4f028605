"""Runs one step where it is called: in a thread of a build, or in a worker of a cluster."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from ..sandbox.choose import Sandbox
from ..store.history import remember_use
from ..store.keys import action_key
from ..store.records import Record
from ..store.store import Store
from ..workers.jobs import Job, JobResult
from .ahead import Ahead
from .delivery import writing_to
from .notes import Work, model_files
from .steps.base import JobStep, LocalStep, Records, Step, Workspace


class Pool(Protocol):
    """Runs jobs; `modelwheel.workers.pool.WorkerPool` does so in worker processes."""

    def submit(self, job: Job, started: Callable[[], object], step: str) -> Future[JobResult]:
        """Queues a job; calls `started` when it begins, and names `step` in messages."""


@dataclass(frozen=True)
class Place:
    """The store, workers and sandbox that all steps have where they run."""

    store: Store
    pool: Pool
    sandbox: Sandbox
    keep: Path | None = None
    """Where the files of every step that runs are kept for inspection."""
    ahead: Ahead | None = None
    """Started with the first job."""


class GivenUpError(Exception):
    """A step was not started because a vital one had failed."""


class Halt:
    """Tells the steps of one spec that nobody wants their results any more.

    Args:
        stopped: Set when the whole build ends early.
    """

    def __init__(self, stopped: Event) -> None:
        self._stopped, self._given_up = stopped, Event()
        self._queued: set[Future[JobResult]] = set()

    @property
    def given_up(self) -> bool:
        """Whether a vital step has failed."""
        return self._given_up.is_set()

    def give_up(self) -> None:
        """Starts no further step; running jobs finish, and their results are kept."""
        self._given_up.set()
        # A copy, because threads that run steps add to it.
        for future in tuple(self._queued):
            future.cancel()

    def check(self) -> None:
        """Raises GivenUpError if a vital step has failed."""
        if self.given_up:
            raise GivenUpError

    def is_stopped(self) -> bool:
        """Whether the whole build ends early.

        Raises:
            GivenUpError: A vital step has failed.
        """
        self.check()
        return self._stopped.is_set()

    def watch(self, future: Future[JobResult]) -> None:
        """Cancels a queued job as soon as a vital step fails."""
        self._queued.add(future)
        if self.given_up:  # set while this job was being queued
            future.cancel()


@dataclass(frozen=True)
class Order:
    """One step to be run."""

    step: Step
    model: Path
    """The SavedModel."""
    records: Records
    """The results of what the step needs, and perhaps others."""
    halt: Halt
    started: Callable[[], object] = field(default=lambda: None)
    """Called when the step begins to run; not if its result is in the store."""


@dataclass(frozen=True)
class Done:
    """A step that has its result."""

    record: Record
    seconds: float
    cached: bool


def run_step(order: Order, place: Place) -> Done:
    """Takes the result of a step from the store, or runs it and puts it there.

    Raises:
        ModelwheelError: The step failed.
        GivenUpError: It was not started, see `Halt`.
    """
    step, store = order.step, place.store
    # Looked up without the lock first: a finished result never has to wait for anybody.
    inputs = step.key_inputs(store, order.records)
    key = action_key(step.kind, **inputs)
    record = store.lookup(key)
    if record is not None:
        remember_use(store, step.lineage, record)
        return Done(record, 0.0, cached=True)
    order.halt.check()
    with store.lock(key, order.halt.is_stopped):
        record = store.lookup(key)  # another build may have done it meanwhile
        if record is not None:
            return Done(record, 0.0, cached=True)
        record, seconds = _run(order, place, inputs)
    return Done(record, seconds, cached=False)


def _run(order: Order, place: Place, inputs: Mapping[str, Any]) -> tuple[Record, float]:
    """Runs a step; returns its result and the seconds of work, without the wait for a worker."""
    step, store = order.step, place.store
    workspace = Workspace(store, order.model, order.records, place.sandbox)
    if place.ahead is not None:
        workspace = replace(workspace, take_environment=place.ahead.take_environment)
    # A full disk meets whoever writes: also the step itself, in its scratch directory.
    with store.scratch() as scratch, store.work_errors(scratch):
        out = scratch / "out"
        out.mkdir()
        try:
            if isinstance(step, JobStep):
                used = _run_job(order, place, step.job(workspace, out))
            else:
                assert isinstance(step, LocalStep)
                order.started()
                start = time.monotonic()
                step.run(workspace, out)
                used = JobResult(time.monotonic() - start)
            work = Work(
                name=step.name,
                kind=step.kind,
                lineage=step.lineage,
                inputs=inputs,
                meanings=step.meanings(store, order.records, partial(model_files, order.model)),
                model=order.model,
                used=used,
                needs={name: order.records[name].key for name in step.needs},
            )
            return work.publish(out, store), used.seconds
        finally:
            # Also after a failure, which these files may explain.
            _keep(step, scratch, place.keep)


def _run_job(order: Order, place: Place, job: Job) -> JobResult:
    future = place.pool.submit(job, order.started, order.step.name)
    if place.ahead is not None:
        place.ahead.start()
    order.halt.watch(future)
    return future.result()


def _keep(step: Step, scratch: Path, keep: Path | None) -> None:
    if keep is not None:
        kept = keep / step.name
        with writing_to(kept):
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(scratch, kept)
