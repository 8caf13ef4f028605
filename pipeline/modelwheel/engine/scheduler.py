"""Running the steps of one or several specs: in parallel, each once, whatever becomes of the others."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Protocol

from ..compiler import check
from ..compiler.inspection import Inspection
from ..compiler.pool import WorkerPool
from ..errors import EnvironmentProblemError, ModelwheelError
from ..request import Request, source_of
from ..source import fetch as source
from ..store.records import Record
from ..store.store import Store
from ..util.files import write_atomically
from ..util.process import kill_all
from ..wheelfile.reports import BENCH_SUFFIX, REPORT_SUFFIX, Report, parse_report
from .steps import (
    REPORT,
    Goal,
    InspectStep,
    JobStep,
    LocalStep,
    Records,
    SdistStep,
    Step,
    VerifyStep,
    Workspace,
    steps_of,
)

_MAX_WAITING = 32
"""Threads that wait for workers; the pool bounds how many workers there are."""


class Reporter(Protocol):
    """Who is told how a build goes on. `started` comes from several threads, the rest from one."""

    def planned(self, names: Sequence[str]) -> None:
        """These steps are to be done."""

    def started(self, name: str) -> None:
        """Work on a step begins."""

    def finished(self, name: str, seconds: float, *, cached: bool) -> None:
        """A step's result is there."""

    def failed(self, name: str, error: ModelwheelError) -> None:
        """A step failed; those that need it are left out."""

    def findings(self, name: str, findings: Sequence[check.Finding]) -> None:
        """What the check found in a model."""


@dataclass(frozen=True)
class BuildOptions:
    """How to build."""

    out: Path
    goal: Goal = "wheel"
    keep_work_directory: Path | None = None
    """Where the files of every step that runs are kept for inspection."""
    max_workers: int | None = None
    """Worker processes; by default what cores and memory allow."""


@dataclass
class BuildResult:
    """What became of one spec."""

    request: Request
    wheel: Path | None = None
    needed: tuple[Path, ...] = ()
    """Wheels that lie beside it because it depends on them."""
    sdist: Path | None = None
    report: Report | None = None
    errors: list[tuple[str, ModelwheelError]] = field(default_factory=list)
    """Names of failed steps with their errors."""
    run: list[str] = field(default_factory=list)
    """Names of the steps that were run, in the order in which they ended."""
    cached: list[str] = field(default_factory=list)
    """Names of the steps whose results were in the store."""


def build(
    requests: Iterable[Request], store: Store, options: BuildOptions, reporter: Reporter
) -> list[BuildResult]:
    """Builds every request as far as it goes.

    A failure ends what depends on it and nothing else. Interrupted at any moment, the store holds
    whole results only, and the next build carries on from them.

    Raises:
        EnvironmentProblemError: Wheels cannot be put where they should go.
    """
    with _writing_to(options.out):
        options.out.mkdir(parents=True, exist_ok=True)
    with WorkerPool(options.max_workers) as pool:
        tools = _Tools(store, pool, options, reporter)
        runs = [_Run(request, tools) for request in requests]
        for run in runs:
            run.fetch()
        _drive(runs, tools)
    return [run.result for run in runs]


@dataclass(frozen=True)
class _Tools:
    """What all runs of one build share."""

    store: Store
    pool: WorkerPool
    options: BuildOptions
    reporter: Reporter
    stopped: Event = field(default_factory=Event)
    """Set when the build is given up: whoever waits for something stops waiting."""


@dataclass(frozen=True)
class _Done:
    """A step that has its result."""

    record: Record
    seconds: float
    cached: bool


def _drive(runs: Sequence[_Run], tools: _Tools) -> None:
    """Starts every step as soon as what it needs is there; does itself all that has state."""
    jobs = ThreadPoolExecutor(_MAX_WAITING, thread_name_prefix="job")
    # Compilers of wheels use all cores themselves, so what this machine does itself goes one by one.
    local = ThreadPoolExecutor(1, thread_name_prefix="local")
    pending: dict[Future[_Done], tuple[_Run, Step]] = {}
    try:
        while True:
            for run in runs:
                for step in run.take_ready():
                    executor = local if isinstance(step, LocalStep) else jobs
                    pending[executor.submit(run.do, step, run.records())] = run, step
            if not pending:
                return
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                run, step = pending.pop(future)
                run.settle(step, future)
    except BaseException:
        tools.stopped.set()
        running = {future: step for future, (_, step) in pending.items() if not future.cancel()}
        _stop([future for future, step in running.items() if isinstance(step, LocalStep)])
        raise
    finally:
        jobs.shutdown(wait=False)
        local.shutdown(wait=False)


def _stop(steps: Sequence[Future[_Done]]) -> None:
    """Ends the programs of running steps until none starts another one."""
    while steps:
        kill_all()
        steps = list(wait(steps, timeout=0.1).not_done)


class _Run:
    """One request while it is built. `do` runs in threads, everything else in the main one."""

    def __init__(self, request: Request, tools: _Tools) -> None:
        self.result = BuildResult(request)
        self._request, self._tools = request, tools
        self._records: dict[str, Record] = {}
        self._waiting: list[Step] = []
        self._model: source.FetchedModel | None = None

    def fetch(self) -> None:
        """Brings the model here, and from it the list of steps."""
        name, start = f"{self._request.name}/fetch", time.monotonic()
        origin, store = source_of(self._request.spec), self._tools.store
        self._tools.reporter.planned([name])
        try:
            cached = source.is_at_hand(origin, store)
            self._tools.reporter.started(name)
            self._model = source.fetch(origin, store)
        except ModelwheelError as error:
            self._fail(name, error)
            return
        self._tools.reporter.finished(name, time.monotonic() - start, cached=cached)
        self._waiting = list(
            steps_of(
                self._request,
                self._model.tree_sha256,
                self._model.provenance,
                self._tools.options.goal,
            )
        )
        self._tools.reporter.planned([step.name for step in self._waiting])

    def take_ready(self) -> list[Step]:
        """Steps that can be started now; each is given out once."""
        ready = [s for s in self._waiting if all(need in self._records for need in s.needs)]
        self._waiting = [step for step in self._waiting if step not in ready]
        return ready

    def records(self) -> Records:
        """The results of all steps that are done."""
        return dict(self._records)

    def do(self, step: Step, records: Records) -> _Done:
        """Gets the result of one step, from the store or by running it."""
        store = self._tools.store
        key = step.key(store, records)
        record = store.lookup(key)
        if record is not None:
            return _Done(record, 0.0, cached=True)
        with store.lock(key, self._tools.stopped.is_set):
            record = store.lookup(key)  # another build may have done it meanwhile
            if record is not None:
                return _Done(record, 0.0, cached=True)
            record, seconds = self._make(step, key, records)
        return _Done(record, seconds, cached=False)

    def _make(self, step: Step, key: str, records: Records) -> tuple[Record, float]:
        """Runs a step; its result, and the seconds of work without those of waiting for a worker."""
        assert self._model is not None
        store = self._tools.store
        started = partial(self._tools.reporter.started, step.name)
        workspace = Workspace(store, self._model.directory, records)
        with store.scratch() as scratch:
            out = scratch / "out"
            out.mkdir()
            try:
                if isinstance(step, JobStep):
                    job = self._tools.pool.submit(step.job(workspace, out), started)
                    seconds = job.result().seconds
                else:
                    assert isinstance(step, LocalStep)
                    started()
                    start = time.monotonic()
                    step.run(workspace, out)
                    seconds = time.monotonic() - start
                return store.publish(key, out, {"step": step.name}), seconds
            finally:
                self._keep(step, scratch)

    def _keep(self, step: Step, scratch: Path) -> None:
        directory = self._tools.options.keep_work_directory
        if directory is not None:
            kept = directory / step.name
            with _writing_to(kept):
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(scratch, kept)

    def settle(self, step: Step, future: Future[_Done]) -> None:
        """Takes in what became of a step."""
        try:
            done = future.result()
            if isinstance(step, InspectStep):
                self._judge(step, done.record)
            elif isinstance(step, VerifyStep):
                self._deliver_wheel(done.record)
            elif isinstance(step, SdistStep):
                self.result.sdist = self._deliver(done.record)
        except ModelwheelError as error:
            self._fail(step.name, error)
            return
        self._records[step.name] = done.record
        (self.result.cached if done.cached else self.result.run).append(step.name)
        self._tools.reporter.finished(step.name, done.seconds, cached=done.cached)

    def _judge(self, step: InspectStep, record: Record) -> None:
        content = self._tools.store.read_bytes(record, "inspection.json")
        findings = step.judge(Inspection.model_validate_json(content))
        self._tools.reporter.findings(self._request.name, findings)
        check.refuse(findings)

    def _deliver_wheel(self, verified: Record) -> None:
        """Puts the wheel, which has been verified, in its place; beside it its report and what it needs."""
        name = self._request.name
        if f"{name}/runtime" in self._records:
            self.result.needed = (self._deliver(self._records[f"{name}/runtime"]),)
        self.result.wheel = wheel = self._deliver(self._records[f"{name}/wheel"])
        report = self._tools.store.read_bytes(verified, REPORT)
        with _writing_to(wheel.parent):
            write_atomically(wheel.with_name(wheel.name + REPORT_SUFFIX), report)
        self.result.report = parse_report(report)

    def _deliver(self, record: Record) -> Path:
        """Puts the one file of a result in its place."""
        out = self._tools.options.out
        (file,) = record.files
        content = self._tools.store.read_bytes(record, file)
        with _writing_to(out):
            if not (out / file).exists() or (out / file).read_bytes() != content:
                (out / f"{file}{BENCH_SUFFIX}").unlink(missing_ok=True)  # it timed another file
            write_atomically(out / file, content)
        return out / file

    def _fail(self, name: str, error: ModelwheelError) -> None:
        self._tools.reporter.failed(name, error)
        self.result.errors.append((name, error))


@contextmanager
def _writing_to(path: Path) -> Iterator[None]:
    """Says in a sentence what the operating system has against writing to `path`."""
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else path
        raise EnvironmentProblemError(
            f"cannot write to {place}: {error.strerror or error}; mend that, or name another directory"
        ) from error


def exit_code(results: Iterable[BuildResult]) -> int:
    """0 if everything was built (wheels: and verified), else the code of the first error."""
    for result in results:
        for _, error in result.errors:
            return error.exit_code
    return 0


def summarise(results: Iterable[BuildResult]) -> list[Mapping[str, object]]:
    """The outcome as JSON holds it, for machines."""
    return [
        {
            "spec": str(result.request.spec.path),
            "model": result.request.name,
            "wheel": None if result.wheel is None else os.fspath(result.wheel),
            "wheel_bytes": None if result.wheel is None else result.wheel.stat().st_size,
            "needed": [os.fspath(path) for path in result.needed],
            "sdist": None if result.sdist is None else os.fspath(result.sdist),
            "sdist_bytes": None if result.sdist is None else result.sdist.stat().st_size,
            "run": result.run,
            "cached": result.cached,
            "errors": [{"step": step, "message": str(error)} for step, error in result.errors],
            "report": None if result.report is None else result.report.model_dump(),
        }
        for result in results
    ]
