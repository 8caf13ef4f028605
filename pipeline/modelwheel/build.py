"""Running the steps of one or several specs: in parallel, each once, whatever becomes of the others."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from . import check, source
from .errors import ModelwheelError
from .files import write_atomically
from .inspection import Inspection
from .plan import provenance_of, source_of
from .process import kill_all
from .steps import InspectStep, JobStep, LocalStep, Request, Step, Workspace, steps_of
from .store import Record, Store
from .verify import REPORT, Report, read_report
from .workers import WorkerPool


class Reporter(Protocol):
    """Who is told how a build goes on. Called from several threads, one call at a time each."""

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
    keep_work_directory: Path | None = None
    """Where every step's files are kept for inspection."""
    max_workers: int | None = None
    """Worker processes; by default what cores and memory allow."""


@dataclass
class BuildResult:
    """What became of one spec."""

    request: Request
    wheel: Path | None = None
    report: Report | None = None
    errors: list[tuple[str, ModelwheelError]] = field(default_factory=list)
    """Names of failed steps with their errors."""
    steps_run: int = 0
    steps_cached: int = 0


def build(
    requests: Iterable[Request], store: Store, options: BuildOptions, reporter: Reporter
) -> list[BuildResult]:
    """Builds every request as far as it goes.

    A failure ends what depends on it and nothing else. Interrupted at any moment, the store holds
    whole results only, and the next build carries on from them.
    """
    with WorkerPool(options.max_workers) as pool:
        runs = [_Run(request, store, pool, options, reporter) for request in requests]
        for run in runs:
            run.fetch()
        _drive(runs)
    return [run.finish() for run in runs]


def _drive(runs: Sequence[_Run]) -> None:
    """Starts every step as soon as what it needs is there."""
    pending: dict[Future[None], _Run] = {}
    # Threads mostly wait for worker processes, which the pool bounds; compilers of wheels use all
    # cores themselves, so those run one at a time.
    jobs = ThreadPoolExecutor(max_workers=32, thread_name_prefix="job")
    local = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local")
    try:
        while True:
            for run in runs:
                for step in run.take_ready():
                    executor = local if isinstance(step, LocalStep) else jobs
                    pending[executor.submit(run.do, step)] = run
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                del pending[future]
                future.result()
    except BaseException:
        kill_all()
        raise
    finally:
        jobs.shutdown(wait=False, cancel_futures=True)
        local.shutdown(wait=False, cancel_futures=True)


class _Run:
    """The state of one request while it is built."""

    def __init__(
        self,
        request: Request,
        store: Store,
        pool: WorkerPool,
        options: BuildOptions,
        reporter: Reporter,
    ) -> None:
        self._request, self._store, self._pool = request, store, pool
        self._options, self._reporter = options, reporter
        self._result = BuildResult(request)
        self._records: dict[str, Record] = {}
        self._waiting: list[Step] = []
        self._model: source.FetchedModel | None = None

    def fetch(self) -> None:
        """Brings the model here, and from it the list of steps."""
        name, start = f"{self._request.name}/fetch", time.monotonic()
        self._reporter.started(name)
        try:
            self._model = source.fetch(source_of(self._request.spec), self._store)
        except ModelwheelError as error:
            self._fail(name, error)
            return
        self._reporter.finished(name, time.monotonic() - start, cached=False)
        tree = self._model.tree_sha256
        provenance = provenance_of(self._request.spec, tree)
        self._waiting = list(steps_of(self._request, tree, provenance))
        self._reporter.planned([step.name for step in self._waiting])

    def take_ready(self) -> list[Step]:
        """Steps that can be started now; each is given out once."""
        ready = [s for s in self._waiting if all(need in self._records for need in s.needs)]
        self._waiting = [step for step in self._waiting if step not in ready]
        return ready

    def do(self, step: Step) -> None:
        """Gets the result of one step, from the store or by running it."""
        start = time.monotonic()
        try:
            key = step.key(self._store, self._records)
            record = self._store.lookup(key)
            cached = record is not None
            if record is None:
                self._reporter.started(step.name)
                with self._store.lock(key):
                    record = self._store.lookup(key) or self._run(step, key)
            if isinstance(step, InspectStep):
                self._judge(step, record)
        except ModelwheelError as error:
            self._fail(step.name, error)
            return
        self._result.steps_cached += cached
        self._result.steps_run += not cached
        self._reporter.finished(step.name, time.monotonic() - start, cached=cached)
        self._records[step.name] = record

    def _run(self, step: Step, key: str) -> Record:
        assert self._model is not None
        workspace = Workspace(self._store, self._model.directory, dict(self._records))
        with self._store.scratch() as scratch:
            out = scratch / "out"
            out.mkdir()
            try:
                if isinstance(step, JobStep):
                    self._pool.submit(step.job(workspace, out)).result()
                elif isinstance(step, LocalStep):
                    step.run(workspace, out)
                return self._store.publish(key, out, {"step": step.name})
            finally:
                self._keep(step, scratch)

    def _keep(self, step: Step, scratch: Path) -> None:
        if self._options.keep_work_directory is not None:
            kept = self._options.keep_work_directory / step.name
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(scratch, kept)

    def _judge(self, step: InspectStep, record: Record) -> None:
        content = self._store.read_bytes(record, "inspection.json")
        findings = step.judge(Inspection.model_validate_json(content))
        self._reporter.findings(self._request.name, findings)
        check.refuse(findings)

    def _fail(self, name: str, error: ModelwheelError) -> None:
        self._reporter.failed(name, error)
        self._result.errors.append((name, error))

    def finish(self) -> BuildResult:
        """Puts the wheel in its place once it has been verified."""
        name = self._request.name
        verified = self._records.get(f"{name}/verify")
        if verified is not None:
            self._result.report = read_report(self._store.read_bytes(verified, REPORT))
            self._result.wheel = self._deliver(self._records[f"{name}/wheel"])
        return self._result

    def _deliver(self, record: Record) -> Path:
        (file,) = record.files
        self._options.out.mkdir(parents=True, exist_ok=True)
        path = self._options.out / file
        write_atomically(path, self._store.read_bytes(record, file))
        return path


def exit_code(results: Iterable[BuildResult]) -> int:
    """0 if every wheel was built and verified, else the code of the first error."""
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
            "steps_run": result.steps_run,
            "steps_cached": result.steps_cached,
            "errors": [{"step": step, "message": str(error)} for step, error in result.errors],
            "report": None if result.report is None else result.report.model_dump(),
        }
        for result in results
    ]
