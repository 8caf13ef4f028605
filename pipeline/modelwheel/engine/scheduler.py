"""Runs the steps of several specs in parallel; a failure stops only what depends on it.

Nothing here knows what steps do: they come from `modelwheel.engine.steps`, or from a test.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from threading import Event
from typing import Protocol

from ..compiler.jobs import Job, JobResult
from ..errors import ModelwheelError
from ..sandbox.choose import Sandbox
from ..store.records import Record
from ..store.store import Store
from ..util.process import kill_all
from .ahead import Ahead
from .delivery import writing_to
from .reporting import Reporter
from .steps.base import JobStep, LocalStep, Records, Step, Workspace

_LOCAL_STEPS = 2
"""Local steps at once. Compilers of a wheel use all cores themselves, but CMake, linkers, tests and the one large file
of the bindings use one: the other is for another step."""

_MAX_WAITING = 32
"""Threads that wait for workers; the pool limits how many workers there are."""


class Pool(Protocol):
    """Runs jobs; `modelwheel.compiler.pool.WorkerPool` does so in worker processes."""

    def submit(self, job: Job, started: Callable[[], object], step: str) -> Future[JobResult]:
        """Queues a job; calls `started` when it begins, and names `step` in messages."""


@dataclass(frozen=True)
class Tools:
    """What all steps of one build share."""

    store: Store
    pool: Pool
    reporter: Reporter
    sandbox: Sandbox
    keep: Path | None = None
    """Where the files of every step that runs are kept for inspection."""
    ahead: Ahead | None = None
    """Started with the first job."""


@dataclass(frozen=True)
class Task:
    """The steps of one spec."""

    steps: Sequence[Step]
    model: Path
    """The SavedModel."""
    accept: Callable[[Step, Record], None] = lambda *_: None
    """Called with every result before it counts; a ModelwheelError fails the step."""


@dataclass
class Outcome:
    """How the steps of one spec ended."""

    records: dict[str, Record] = field(default_factory=dict)
    """Results by the step's name."""
    errors: list[tuple[str, ModelwheelError]] = field(default_factory=list)
    """Names of failed steps with their errors, in the order in which they failed."""
    run: list[str] = field(default_factory=list)
    """Names of the steps that ran, in the order in which they ended."""
    cached: list[str] = field(default_factory=list)
    """Names of the steps whose results were in the store."""
    skipped: list[str] = field(default_factory=list)
    """Names of the steps that were left out because another one had failed."""


def run_steps(tasks: Iterable[Task], tools: Tools) -> list[Outcome]:
    """Runs all steps of all tasks, each as soon as what it needs is there.

    A failed step stops the steps that need it or, if it is vital, all that have not started. If this
    is interrupted, the store holds whole results only, and the next build continues from them.
    """
    stopped = Event()
    runs = [_Run(task, tools, stopped) for task in tasks]
    jobs = ThreadPoolExecutor(_MAX_WAITING, thread_name_prefix="job")
    local = ThreadPoolExecutor(_LOCAL_STEPS, thread_name_prefix="local")
    pending: dict[Future[_Done], tuple[_Run, Step]] = {}
    try:
        while True:
            for run in runs:
                for step in run.take_ready():
                    executor = local if isinstance(step, LocalStep) else jobs
                    # A copy, because this thread adds records while others read.
                    future = executor.submit(run.do, step, dict(run.outcome.records))
                    pending[future] = run, step
            if not pending:
                return [run.conclude() for run in runs]
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                run, step = pending.pop(future)
                run.settle(step, future)
            if pending and all(run.given_up for run, _ in pending.values()):
                _stop_local_steps(pending)
    except BaseException:
        stopped.set()
        _stop_local_steps(pending)
        raise
    finally:
        # Not waited for: threads that wait for workers end only when the caller closes the pool.
        jobs.shutdown(wait=False)
        local.shutdown(wait=False)


def _stop_local_steps(pending: Mapping[Future[_Done], tuple[_Run, Step]]) -> None:
    """Kills the programs of running steps until no step starts another one.

    Only local steps have programs to be killed here; workers are killed by the pool.
    """
    running = {future: step for future, (_, step) in pending.items() if not future.cancel()}
    steps = [future for future, step in running.items() if isinstance(step, LocalStep)]
    while steps:
        kill_all()
        steps = list(wait(steps, timeout=0.1).not_done)


@dataclass(frozen=True)
class _Done:
    """A step that has its result."""

    record: Record
    seconds: float
    cached: bool


class _GivenUpError(Exception):
    """A step was not started because a vital one had failed."""


class _Run:
    """The steps of one spec while they run. `do` is called in threads, the rest in the main one."""

    def __init__(self, task: Task, tools: Tools, stopped: Event) -> None:
        self.outcome = Outcome()
        self._task, self._tools, self._stopped = task, tools, stopped
        self._steps = {step.name: step for step in task.steps}
        self._sorter = TopologicalSorter(
            {step.name: (*step.needs, *step.waits_for) for step in task.steps}
        )
        self._sorter.prepare()
        self._order = {name: number for number, name in enumerate(self._steps)}
        self._given_up = Event()
        self._queued: set[Future[JobResult]] = set()

    def take_ready(self) -> list[Step]:
        """Steps that can start now, in the order of the task; each is returned once."""
        if self._given_up.is_set():
            return []
        ready = sorted(self._sorter.get_ready(), key=self._order.__getitem__)
        return [self._steps[name] for name in ready]

    def do(self, step: Step, records: Records) -> _Done:
        """Takes the result of one step from the store, or runs it."""
        store = self._tools.store
        # Looked up without the lock first: a finished result never has to wait for anybody.
        key = step.key(store, records)
        record = store.lookup(key)
        if record is not None:
            return _Done(record, 0.0, cached=True)
        self._raise_if_given_up()
        with store.lock(key, self._is_stopped):
            record = store.lookup(key)  # another build may have done it meanwhile
            if record is not None:
                return _Done(record, 0.0, cached=True)
            record, seconds = self._run(step, key, records)
        return _Done(record, seconds, cached=False)

    def _is_stopped(self) -> bool:
        self._raise_if_given_up()
        return self._stopped.is_set()

    def _raise_if_given_up(self) -> None:
        if self._given_up.is_set():
            raise _GivenUpError

    def _run(self, step: Step, key: str, records: Records) -> tuple[Record, float]:
        """Runs a step; returns its result and the seconds of work, without the wait for a worker."""
        store = self._tools.store
        started = partial(self._tools.reporter.started, step.name)
        workspace = Workspace(store, self._task.model, records, self._tools.sandbox)
        if self._tools.ahead is not None:
            workspace = replace(workspace, take_environment=self._tools.ahead.take_environment)
        # A full disk meets whoever writes: also the step itself, in its scratch directory.
        with store.scratch() as scratch, store.work_errors(scratch):
            out = scratch / "out"
            out.mkdir()
            try:
                if isinstance(step, JobStep):
                    seconds = self._run_job(step.job(workspace, out), started, step.name)
                else:
                    assert isinstance(step, LocalStep)
                    started()
                    start = time.monotonic()
                    step.run(workspace, out)
                    seconds = time.monotonic() - start
                return store.publish(key, out, {"step": step.name}), seconds
            finally:
                # Also after a failure, which these files may explain.
                self._keep(step, scratch)

    def _run_job(self, job: Job, started: Callable[[], object], name: str) -> float:
        future = self._tools.pool.submit(job, started, name)
        if self._tools.ahead is not None:
            self._tools.ahead.start()
        self._queued.add(future)
        if self._given_up.is_set():  # set while this job was being queued
            future.cancel()
        return future.result().seconds

    def _keep(self, step: Step, scratch: Path) -> None:
        if self._tools.keep is not None:
            kept = self._tools.keep / step.name
            with writing_to(kept):
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(scratch, kept)

    def settle(self, step: Step, future: Future[_Done]) -> None:
        """Records how a step ended."""
        try:
            done = future.result()
            self._task.accept(step, done.record)
        # Neither a result nor an error: `conclude` lists it among the skipped steps.
        except (_GivenUpError, CancelledError):
            return
        except ModelwheelError as error:
            if self.given_up and isinstance(step, LocalStep):  # stopped, for this reason
                return
            self._tools.reporter.failed(step.name, error)
            self.outcome.errors.append((step.name, error))
            if step.vital:
                self._give_up()
            return
        self.outcome.records[step.name] = done.record
        (self.outcome.cached if done.cached else self.outcome.run).append(step.name)
        self._tools.reporter.finished(
            step.name, done.seconds, cached=done.cached, size=done.record.size
        )
        # Only after success: whatever needs a failed step never becomes ready.
        self._sorter.done(step.name)

    @property
    def given_up(self) -> bool:
        """Whether a vital step has failed."""
        return self._given_up.is_set()

    def _give_up(self) -> None:
        """Starts no further step; running jobs finish, and their results are kept."""
        self._given_up.set()
        # A copy, because threads that run steps add to it.
        for future in tuple(self._queued):
            future.cancel()

    def conclude(self) -> Outcome:
        """The outcome, once nothing is running any more."""
        ended = {*self.outcome.records, *(name for name, _ in self.outcome.errors)}
        self.outcome.skipped = [name for name in self._steps if name not in ended]
        return self.outcome
