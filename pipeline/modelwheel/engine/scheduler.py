"""Runs the steps of several specs in parallel; a failure stops only what depends on it.

Nothing here knows what steps do: they come from `modelwheel.engine.steps`, or from a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any, Protocol

from ..errors import ModelwheelError
from ..sandbox.choose import Sandbox
from ..store.records import Record
from ..store.store import Store
from ..util.processes.process import kill_all
from .ahead import Ahead
from .reporting import Reporter
from .running import Done, GivenUpError, Halt, Order, Place, Pool, run_step
from .steps.base import LocalStep, Records, Step

_LOCAL_STEPS = 2
"""Local steps at once. Compilers of a wheel use all cores themselves, but CMake, linkers, tests and the one large file
of the bindings use one: the other is for another step."""

_MAX_WAITING = 32
"""Threads that wait for workers; the pool limits how many workers there are."""


class Executor(Protocol):
    """Runs steps somewhere: `LocalExecutor` on this machine, `modelwheel.engine.cluster` on others."""

    def submit(self, order: Order, model_key: str) -> Future[Done]:
        """Queues a step. The future raises what `run_step` raises; one that was not started may be cancelled.

        Args:
            order: The step, with the results that it needs.
            model_key: See `Task.model_key`.
        """

    def stop(self, futures: Mapping[Future[Done], Step]) -> None:
        """Ends steps whose results nobody wants any more, and waits for those that must not outlive the build."""


@dataclass(frozen=True)
class Tools:
    """The resources that all steps of one build share, on this machine."""

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
    """The model."""
    accept: Callable[[Step, Record], None] = lambda *_: None
    """Called with every result before it counts; a ModelwheelError fails the step."""
    model_key: str = ""
    """Under which a record of the store has the model, or will have it for other machines."""
    known: Records = field(default_factory=dict)
    """Results that were looked up before, by the step's name: these steps are not submitted."""
    more: Callable[[Records], Sequence[Step]] = lambda _: ()
    """Called with all results once there is no step left: returns the steps that follow from them."""


@dataclass(frozen=True)
class Later:
    """The steps of one spec that are known once something else is done."""

    done: Future[Any]
    task: Callable[[], Task | None]
    """Called when that is done, in the thread of `run_on`; returns None if there is nothing to run."""


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


def run_steps(tasks: Iterable[Task | Later], tools: Tools) -> list[Outcome]:
    """Runs all steps of all tasks on this machine; see `run_on`."""
    place = Place(tools.store, tools.pool, tools.sandbox, tools.keep, tools.ahead)
    executor = LocalExecutor(place)
    try:
        return run_on(executor, tasks, tools.reporter)
    finally:
        executor.close()


def run_on(executor: Executor, tasks: Iterable[Task | Later], reporter: Reporter) -> list[Outcome]:
    """Runs all steps of all tasks, each as soon as what it needs is there.

    A failed step stops the steps that need it or, if it is vital, all that have not started. If this
    is interrupted, the store holds whole results only, and the next build continues from them.

    Args:
        executor: Runs them.
        tasks: What to run.
        reporter: Receives what happens.

    Returns:
        What became of the tasks, in their order.
    """
    stopped = Event()
    runs: dict[int, _Run] = {}
    outcomes: list[Outcome] = []
    arriving: dict[Future[Any], tuple[int, Later]] = {}
    pending: dict[Future[Done], tuple[_Run, Step]] = {}
    # Not `wait`, and not every run each time: there may be thousands of both.
    ended: SimpleQueue[Future[Any]] = SimpleQueue()

    def begin(number: int, task: Task) -> None:
        runs[number] = _Run(task, reporter, stopped)
        start(runs[number])

    def start(run: _Run) -> None:
        for step in run.take_ready():
            future = run.submit(step, executor)
            pending[future] = run, step
            future.add_done_callback(ended.put)

    def stop() -> None:
        executor.stop({future: step for future, (_, step) in pending.items()})

    try:
        for number, task in enumerate(tasks):
            outcomes.append(Outcome())
            if isinstance(task, Task):
                begin(number, task)
            else:
                arriving[task.done] = number, task
                task.done.add_done_callback(ended.put)
        while pending or arriving:
            future = ended.get()
            if future in arriving:
                number, later = arriving.pop(future)
                if (arrived := later.task()) is not None:
                    begin(number, arrived)
                continue
            run, step = pending.pop(future)
            run.settle(step, future)
            start(run)
            if pending and not arriving and all(run.given_up for run, _ in pending.values()):
                stop()
        return [
            runs[number].conclude() if number in runs else outcome
            for number, outcome in enumerate(outcomes)
        ]
    except BaseException:
        stopped.set()
        stop()
        raise


class LocalExecutor:
    """Runs steps in threads of this process, which wait for worker processes or run programs."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._jobs = ThreadPoolExecutor(_MAX_WAITING, thread_name_prefix="job")
        self._local = ThreadPoolExecutor(_LOCAL_STEPS, thread_name_prefix="local")

    def submit(self, order: Order, model_key: str) -> Future[Done]:  # noqa: ARG002
        """See `Executor`."""
        threads = self._local if isinstance(order.step, LocalStep) else self._jobs
        return threads.submit(run_step, order, self._place)

    def stop(self, futures: Mapping[Future[Done], Step]) -> None:
        """Kills the programs of running steps until no step starts another one.

        Only local steps have programs to be killed here; workers are killed by the pool.
        """
        running = {future: step for future, step in futures.items() if not future.cancel()}
        steps = [future for future, step in running.items() if isinstance(step, LocalStep)]
        while steps:
            kill_all()
            steps = list(wait(steps, timeout=0.1).not_done)

    def close(self) -> None:
        """Nothing is submitted any more. Steps that still run are not waited for."""
        # Not waited for: threads that wait for workers end only when the caller closes the pool.
        self._jobs.shutdown(wait=False)
        self._local.shutdown(wait=False)


class _Run:
    """The steps of one spec while they run; used by one thread."""

    def __init__(self, task: Task, reporter: Reporter, stopped: Event) -> None:
        self.outcome = Outcome()
        self._task, self._reporter = task, reporter
        self._steps: dict[str, Step] = {}
        self._halt = Halt(stopped)
        self._add(task.steps)

    @property
    def given_up(self) -> bool:
        """Whether a vital step has failed."""
        return self._halt.given_up

    def _add(self, steps: Sequence[Step]) -> None:
        """Takes the first steps, or further ones while no other is left."""
        new = {step.name: step for step in steps if step.name not in self._steps}
        self._steps |= new
        self._order = {name: number for number, name in enumerate(self._steps)}
        self._sorter = TopologicalSorter(
            {
                name: [one for one in (*step.needs, *step.waits_for) if one in new]
                for name, step in new.items()
            }
        )
        self._sorter.prepare()

    def _do_without(self) -> None:
        """Leaves out what has not run, and goes on with what follows from the rest."""
        self._steps = {name: self._steps[name] for name in self.outcome.records}
        self._add_more()

    def _add_more(self) -> None:
        if more := self._task.more(dict(self.outcome.records)):
            self._add(more)
            self._reporter.planned(
                [name for name in self._order if name not in self.outcome.records]
            )

    def take_ready(self) -> list[Step]:
        """Steps that can start now, in the order of the task; each is returned once."""
        steps: list[Step] = []
        while not self.given_up:
            ready = sorted(self._sorter.get_ready(), key=self._order.__getitem__)
            if not ready:
                return steps
            for step in (self._steps[name] for name in ready):
                record = self._task.known.get(step.name)
                if record is None:
                    steps.append(step)
                else:
                    done: Future[Done] = Future()
                    done.set_result(Done(record, 0.0, cached=True))
                    self.settle(step, done)
        return []

    def submit(self, step: Step, executor: Executor) -> Future[Done]:
        """Queues one step."""
        # A copy, because this thread adds records while others read.
        records: Records = dict(self.outcome.records)
        started = partial(self._reporter.started, step.name)
        order = Order(step, self._task.model, records, self._halt, started)
        return executor.submit(order, self._task.model_key)

    def settle(self, step: Step, future: Future[Done]) -> None:
        """Records how a step ended."""
        try:
            done = future.result()
            self._task.accept(step, done.record)
        # Neither a result nor an error: `conclude` lists it among the skipped steps.
        except (GivenUpError, CancelledError):
            return
        except ModelwheelError as error:
            if self.given_up and isinstance(step, LocalStep):  # stopped, for this reason
                return
            if step.optional:
                self._do_without()
                return
            self._reporter.failed(step.name, error)
            self.outcome.errors.append((step.name, error))
            if step.vital:
                self._halt.give_up()
            return
        self.outcome.records[step.name] = done.record
        (self.outcome.cached if done.cached else self.outcome.run).append(step.name)
        self._reporter.finished(step.name, done.seconds, cached=done.cached, size=done.record.size)
        # Only after success: whatever needs a failed step never becomes ready.
        self._sorter.done(step.name)
        if not self._sorter.is_active():
            self._add_more()

    def conclude(self) -> Outcome:
        """The outcome, once nothing is running any more."""
        ended = {*self.outcome.records, *(name for name, _ in self.outcome.errors)}
        self.outcome.skipped = [name for name in self._steps if name not in ended]
        return self.outcome
