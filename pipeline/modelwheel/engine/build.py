"""Builds wheels or source distributions of several specs: fetches models, runs steps, delivers files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..errors import ModelwheelError, VerifyError
from ..limits import Limits
from ..model import check
from ..model.frozen_signature import SIGNATURE, FrozenSignature
from ..model.fusions.registry import Replaced
from ..model.reference_result import TIMES
from ..request import Request
from ..sandbox.choose import Sandbox
from ..source import fetch as source
from ..store.records import Record
from ..store.store import Store
from ..util.records import as_json
from ..util.temporary import temporary_files_in
from ..wheelfile.reports import Report, parse_report
from ..workers.client import COMMAND
from ..workers.pool import WorkerPool
from .ahead import Ahead
from .cluster.address import OnCluster
from .delivery import (
    deliver,
    deliver_directory,
    deliver_report,
    deliver_times,
    deliver_unverified,
    writing_to,
)
from .fetching import side_by_side
from .finished import Finished, find_all_finished
from .reporting import Reporter
from .scheduler import Later, Outcome, Task, Tools, run_on, run_steps
from .steps import Goal, decided, first_steps, steps_of
from .steps.base import Records, Step
from .steps.bundle import BundleStep
from .steps.distribution import REPORT, SdistStep, VerifyStep
from .steps.model import FreezeStep, InspectStep, SizesStep, read_inspection, read_sizes

_Run: TypeAlias = Callable[[Sequence[Task | Later]], list[Outcome]]


@dataclass(frozen=True)
class BuildOptions:
    """How to build."""

    out: Path
    sandbox: Sandbox
    """Where models run."""
    goal: Goal = "wheel"
    keep_work_directory: Path | None = None
    """Where the files of every step that runs are kept for inspection."""
    max_workers: int | None = None
    """The maximum number of worker processes; by default what cores and memory allow."""
    worker: Sequence[str] = COMMAND
    """The command that starts a worker process."""
    limits: Limits = field(default_factory=Limits)
    """How large models may be."""
    keep_unverified: bool = False
    """Whether a wheel that does not pass verification is delivered, marked as such."""
    cluster: OnCluster | None = None
    """Where steps run, if not on this machine. Then `sandbox` and `max_workers` have no effect."""


@dataclass
class BuildResult:
    """How the build of one spec ended."""

    request: Request
    wheel: Path | None = None
    needed: tuple[Path, ...] = ()
    """Wheels in the same directory that it depends on."""
    unverified: Path | None = None
    """The wheel that did not pass verification, if it was kept."""
    sdist: Path | None = None
    bundle: Path | None = None
    report: Report | None = None
    replaced: tuple[Replaced, ...] = ()
    """Marked functions that were replaced before compiling."""
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def errors(self) -> list[tuple[str, ModelwheelError]]:
        """Names of failed steps with their errors, in the order in which they failed."""
        return self.outcome.errors

    @property
    def run(self) -> list[str]:
        """Names of the steps that ran, in the order in which they ended."""
        return self.outcome.run

    @property
    def cached(self) -> list[str]:
        """Names of the steps whose results were in the store."""
        return self.outcome.cached

    def failures(self) -> list[tuple[str, tuple[str, ...]]]:
        """The failures and their reasons, for the last lines of a build: each error once, with its steps."""
        steps: dict[str, tuple[str, ...]] = {}
        for name, error in self.errors:
            text = error.shown()
            steps[text] = (*steps.get(text, ()), name)
        return list(steps.items())


def build(
    requests: Sequence[Request],
    store: Store,
    options: BuildOptions,
    reporter: Reporter,
    finished: Mapping[str, Finished] | None = None,
) -> list[BuildResult]:
    """Builds every request as far as possible.

    A failure stops only what depends on it. If this is interrupted, the store holds whole results
    only, and the next build continues from them.

    Args:
        requests: What to build.
        store: Has results, and gets those that are missing.
        options: How to build.
        reporter: Receives what happens.
        finished: What `find_all_finished` returned for the requests; by default it is called here.

    Raises:
        EnvironmentProblemError: The output directory cannot be written.
    """
    if finished is None:
        finished = find_all_finished(requests, store, options.goal)
    with writing_to(options.out):
        options.out.mkdir(parents=True, exist_ok=True)
    builds = [
        _Build(request, store, options, reporter, finished.get(request.name))
        for request in requests
    ]
    missing = [one for one in builds if not one.is_finished]
    # A cluster may be away when only files are delivered.
    place = options if missing else replace(options, cluster=None)
    with _running(place, store, reporter) as run:
        reporter.planned([one.fetching for one in builds])
        with side_by_side([one.fetch for one in missing]) as futures:
            fetched = dict(zip(missing, futures, strict=True))
            outcomes = run(
                [
                    Later(fetched[one], partial(one.arrived, fetched[one]))
                    if one in fetched
                    else one.finished_task()
                    for one in builds
                ]
            )
    for one, outcome in zip(builds, outcomes, strict=True):
        one.conclude(outcome)
    return [one.result for one in builds]


@contextmanager
def _running(options: BuildOptions, store: Store, reporter: Reporter) -> Iterator[_Run]:
    """The executor of the steps of a build, on this machine or on a cluster."""
    if options.cluster is not None:
        from .cluster.executor import on_cluster  # of the extra `cluster`

        with on_cluster(options.cluster, store, reporter, options.worker) as executor:
            yield lambda tasks: run_on(executor, tasks, reporter)
        return
    with (
        # It ends in reverse: workers must have ended before the directory they write to is removed.
        store.scratch() as scratch,
        temporary_files_in(scratch),
        closing(Ahead(scratch, verifies=options.goal == "wheel")) as ahead,
        WorkerPool(
            scratch,
            options.max_workers,
            command=options.worker,
            sandbox=options.sandbox,
        ) as pool,
    ):
        tools = Tools(store, pool, reporter, options.sandbox, options.keep_work_directory, ahead)
        yield lambda tasks: run_steps(tasks, tools)


class _Fetched(NamedTuple):
    """A model, and what fetching it took."""

    model: source.FetchedModel
    seconds: float
    cached: bool


class _Build:
    """One request while it is built."""

    def __init__(
        self,
        request: Request,
        store: Store,
        options: BuildOptions,
        reporter: Reporter,
        finished: Finished | None,
    ) -> None:
        self._finished = finished
        request = request if finished is None else finished.request
        self.result = BuildResult(request)
        self._request, self._store = request, store
        self._options, self._reporter = options, reporter
        self._records: dict[str, Record] = {}
        self._failure: tuple[str, ModelwheelError] | None = None
        self.fetching = f"{request.name}/fetch"
        """The name of the first step."""

    @property
    def is_finished(self) -> bool:
        """Whether no step will run, so that nobody looks at the model."""
        return self._finished is not None

    def finished_task(self) -> Task:
        """The steps of a request with nothing left to do."""
        done = self._finished
        assert done is not None
        self._reporter.finished(self.fetching, 0.0, cached=True)
        self._reporter.planned([step.name for step in done.steps])
        return Task(done.steps, self._store.root, self._accept, known=done.records)

    def fetch(self, check: Callable[[], None]) -> _Fetched:
        """Fetches the model, on which all steps depend; in a thread.

        Args:
            check: Raises if the build has ended.
        """

        def tell(text: str) -> None:
            check()
            self._reporter.progressed(self.fetching, text)

        origin, start = self._request.origin, time.monotonic()
        cached = source.is_at_hand(origin, self._store)
        self._reporter.started(self.fetching)
        model = source.fetch(origin, self._store, tell=tell)
        return _Fetched(model, time.monotonic() - start, cached)

    def arrived(self, future: Future[_Fetched]) -> Task | None:
        """The steps after fetching; None if that failed."""
        try:
            fetched = future.result()
        except ModelwheelError as error:
            self._reporter.failed(self.fetching, error)
            self._failure = (self.fetching, error)
            return None
        self._reporter.finished(self.fetching, fetched.seconds, cached=fetched.cached)
        model, goal = fetched.model, self._options.goal
        self._request = self.result.request = self._request.holding(model.file)

        def steps(records: Records) -> Sequence[Step]:
            """All steps, once the batch sizes are decided."""
            self._request = self.result.request = decided(self._request, self._store, records)
            return steps_of(self._request, model.tree_sha256, model.provenance, goal)

        first: Sequence[Step] = (
            first_steps(self._request, model.tree_sha256)
            if self._request.sizes_by_model
            else steps({})
        )
        self._reporter.planned([step.name for step in first])
        return Task(first, model.directory, self._accept, model.key, more=steps)

    def conclude(self, outcome: Outcome) -> None:
        """Takes what became of the steps."""
        self.result.outcome = outcome
        if self._failure is not None:
            outcome.errors.append(self._failure)
        if self._options.keep_unverified:
            self._keep_unverified()

    def _accept(self, step: Step, record: Record) -> None:
        """Checks or delivers the result of a step."""
        self._records[step.name] = record
        if isinstance(step, InspectStep):
            findings = step.check(read_inspection(self._store, record), self._options.limits)
            self._reporter.findings(self._request.name, findings)
            check.refuse(findings)
        elif isinstance(step, SizesStep):
            note = read_sizes(self._store, record).finding
            self._reporter.findings(self._request.name, [note] if note else [])
        elif isinstance(step, FreezeStep):
            frozen = FrozenSignature.model_validate_json(self._store.read_bytes(record, SIGNATURE))
            self.result.replaced = frozen.fusions  # the same for every batch size
        elif isinstance(step, VerifyStep):
            self._deliver_wheel(record)
        elif isinstance(step, SdistStep):
            self.result.sdist = deliver(record, self._store, self._options.out)
            self._deliver_times(self.result.sdist)
        elif isinstance(step, BundleStep):
            model = self._request.spec.model
            path = self._options.out / f"{self._request.spec.module}-{model.version}"
            self.result.bundle = deliver_directory(record, self._store, path)

    def _keep_unverified(self) -> None:
        """Delivers the wheel that did not pass verification, if there is one."""
        name = self._request.name
        failed = dict(self.result.errors).get(f"{name}/verify")
        record = self._records.get(f"{name}/wheel")
        if isinstance(failed, VerifyError) and record is not None:
            out = self._options.out
            self.result.unverified = deliver_unverified(record, self._store, str(failed), out)

    def _deliver_wheel(self, verified: Record) -> None:
        """Delivers the verified wheel with its report and the wheel that it needs."""
        name, store, out = self._request.name, self._store, self._options.out
        if f"{name}/runtime" in self._records:
            self.result.needed = (deliver(self._records[f"{name}/runtime"], store, out),)
        self.result.wheel = deliver(self._records[f"{name}/wheel"], store, out)
        report = store.read_bytes(verified, REPORT)
        deliver_report(report, self.result.wheel)
        self._deliver_times(self.result.wheel)
        self.result.report = parse_report(report)

    def _deliver_times(self, path: Path) -> None:
        """Delivers how long the framework takes, beside a wheel or source distribution."""
        record = self._records[f"{self._request.name}/reference"]
        deliver_times(self._store.read_bytes(record, TIMES), path)


def exit_code(results: Iterable[BuildResult]) -> int:
    """0 if everything was built (wheels: and verified), else the code of the first error."""
    for result in results:
        for _, error in result.errors:
            return error.exit_code
    return 0


def summarise(results: Iterable[BuildResult]) -> list[Mapping[str, object]]:
    """The results in JSON-serialisable form."""
    return [
        {
            # One of them is None: a model that was named itself has no file with its spec.
            "spec": None if result.request.spec.is_bare else str(result.request.spec.path),
            "model_file": str(result.request.spec.path) if result.request.spec.is_bare else None,
            "model": result.request.name,
            "wheel": as_json(result.wheel),
            "wheel_bytes": None if result.wheel is None else result.wheel.stat().st_size,
            "unverified": as_json(result.unverified),
            "needed": as_json(result.needed),
            "sdist": as_json(result.sdist),
            "sdist_bytes": None if result.sdist is None else result.sdist.stat().st_size,
            "bundle": as_json(result.bundle),
            "run": result.run,
            "cached": result.cached,
            "replaced": as_json(result.replaced),
            "skipped": result.outcome.skipped,
            "errors": [
                {"step": step, "message": str(error), "code": error.code}
                for step, error in result.errors
            ],
            "report": as_json(result.report),
        }
        for result in results
    ]
