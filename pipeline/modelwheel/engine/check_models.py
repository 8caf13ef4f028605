"""`modelwheel check`: fetches models, checks them against their specs, and compiles each once.

What is compiled is the smallest of what a build compiles, by the steps of a build: they find the results in the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from ..errors import ModelwheelError, UnsupportedModelError
from ..limits import Limits
from ..model.findings import Finding
from ..model.inspection import Inspection
from ..model.readings import Reading
from ..model.supported_operations import SUPPORTED, Supported
from ..request import Request, make_request
from ..sandbox.choose import Sandbox
from ..source import fetch as source
from ..spec import Spec
from ..spec.package import STATE_LICENSE, UNKNOWN_LICENSE
from ..store.keys import action_key
from ..store.store import Store
from ..util.text import one_line
from ..util.words import count
from ..workers.client import COMMAND
from ..workers.jobs import InspectRequest, SupportedRequest
from ..workers.pool import WorkerPool
from .cluster.address import OnCluster
from .fetching import side_by_side
from .notes import Work, model_files
from .reporting import Reporter
from .scheduler import Outcome, Task, Tools, run_on, run_steps
from .steps import first_steps
from .steps.base import Step
from .steps.model import (
    CompileStep,
    FreezeStep,
    InspectStep,
    SizesStep,
    inspection_inputs,
    read_inspection,
    read_sizes,
)


def first_line(text: object) -> str:
    """The first line of a message."""
    return one_line(str(text).partition("\n")[0])


@dataclass(frozen=True)
class CheckedModel:
    """The findings of one model and their consequences for its spec."""

    JSON_FIELDS: ClassVar = (
        "model",
        "signature",
        "error",
        "code",
        "inspection",
        "findings",
        "verdict",
    )

    model: str
    """Name and version."""
    name: str
    """Of the model, without its version."""
    signature: str
    """The signature to compile."""
    error: ModelwheelError | None = None
    """Why the model could not be inspected, converted or compiled."""
    inspection: Inspection | None = None
    findings: Sequence[Finding] = ()
    verdict: str = ""
    """One line: whether the model can be compiled, or what stands in the way."""
    path: Path | None = None
    """The spec."""

    @property
    def code(self) -> str:
        """Of the first error: see `ModelwheelError.code`; empty if there is none."""
        if self.error is not None:
            return self.error.code
        return next((f.code for f in self.findings if f.severity == "error"), "")

    @property
    def refusal(self) -> ModelwheelError | None:
        """Why the model cannot be compiled; None if it can."""
        refused = any(finding.severity == "error" for finding in self.findings)
        return self.error or (UnsupportedModelError(self.verdict) if refused else None)

    @property
    def exit_code(self) -> int:
        """0 if the model can be compiled."""
        return 0 if self.refusal is None else self.refusal.exit_code


@dataclass(frozen=True)
class _FirstCompileStep(CompileStep):
    """A step of a build that does not wait for the outputs of the framework: `check` evaluates nothing."""

    @property
    def waits_for(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class _Fetched:
    """A model that is here."""

    spec: Spec
    request: Request
    model: source.FetchedModel

    @property
    def step(self) -> InspectStep:
        return InspectStep(self.request, self.model.tree_sha256)

    def task(self, steps: Sequence[Step], more: Sequence[Step] = ()) -> Task:
        """Steps on this model, and those that follow whatever becomes of optional ones."""
        key = self.model.key
        return Task(steps, self.model.directory, model_key=key, more=lambda _: more)


@dataclass(frozen=True)
class _Inspected:
    """A model on its way."""

    checked: CheckedModel
    task: Task | None = None
    """The steps that compile it once; None if it is refused before."""


def check_models(
    specs: Sequence[Spec],
    store: Store,
    sandbox: Sandbox,
    reporter: Reporter,
    worker: Sequence[str] = COMMAND,
    limits: Limits | None = None,
    *,
    lenient: bool = False,
    cluster: OnCluster | None = None,
) -> list[CheckedModel]:
    """Checks the model of every spec; one that is refused does not stop the others.

    Args:
        specs: The specs.
        store: Keeps models, inspections and what is compiled.
        sandbox: Where models are read and compiled.
        reporter: Receives the progress of converting and compiling.
        worker: The command that starts a worker process.
        limits: How large models may be.
        lenient: Whether tolerances, rows and ranges beyond their bounds only warn.
        cluster: Where models are read and compiled, if not on this machine.
    """
    judge = partial(_judge, limits=limits, lenient=lenient)
    if cluster is not None:
        from .cluster.executor import on_cluster  # of the extra `cluster`

        with on_cluster(cluster, store, reporter, worker) as executor:
            run = partial(run_on, executor, reporter=reporter)
            return _compile_each(
                _inspect_at_once(specs, store, judge, run, reporter), run, reporter, store
            )
    with store.scratch() as scratch, WorkerPool(scratch, command=worker, sandbox=sandbox) as pool:

        def inspect_here(spec: Spec) -> _Inspected:
            fetched = _fetch(spec, store, reporter)
            return judge(
                fetched, inspect(spec.model.name, fetched.model, fetched.step.reading, store, pool)
            )

        reporter.planned([_inspect_name(spec) for spec in specs])
        inspected = [_told(spec, partial(inspect_here, spec), reporter) for spec in specs]
        return _compile_each(
            inspected,
            partial(run_steps, tools=Tools(store, pool, reporter, sandbox)),
            reporter,
            store,
        )


def _told(spec: Spec, inspected: Callable[[], _Inspected], reporter: Reporter) -> _Inspected:
    """Inspects a model, and says so."""
    name, start = _inspect_name(spec), time.monotonic()
    reporter.started(name)
    result = _unless_refused(spec, inspected)
    refusal = result.checked.refusal
    if refusal is None:
        reporter.finished(name, time.monotonic() - start, cached=False)
    else:
        reporter.failed(name, refusal)
    return result


def _compile_each(
    inspected: Sequence[_Inspected],
    run: Callable[[Sequence[Task]], list[Outcome]],
    reporter: Reporter,
    store: Store,
) -> list[CheckedModel]:
    tasks = [model.task for model in inspected if model.task is not None]
    # What inspects is one of them already, and its result is in the store.
    reporter.planned([step.name for task in tasks for step in task.steps])
    outcomes = iter(run(tasks))
    return [
        model.checked if model.task is None else _conclude(model, next(outcomes), store)
        for model in inspected
    ]


def _inspect_at_once(
    specs: Sequence[Spec],
    store: Store,
    judge: Callable[[_Fetched, Inspection], _Inspected],
    run: Callable[[Sequence[Task]], list[Outcome]],
    reporter: Reporter,
) -> list[_Inspected]:
    """Fetches models here, and has all of them inspected by the workers of a cluster."""
    fetched: dict[int, _Fetched] = {}
    inspected: dict[int, _Inspected] = {}
    works = [partial(_fetch, spec, store, reporter) for spec in specs]
    with side_by_side(works) as futures:
        for number, (spec, future) in enumerate(zip(specs, futures, strict=True)):
            try:
                fetched[number] = future.result()
            except ModelwheelError as error:
                inspected[number] = _refuse(spec, error)
    reporter.planned([model.step.name for model in fetched.values()])
    outcomes = run([model.task((model.step,)) for model in fetched.values()])
    for (number, model), outcome in zip(fetched.items(), outcomes, strict=True):
        inspected[number] = _unless_refused(
            model.spec, partial(_read, model, outcome, store, judge)
        )
    return [inspected[number] for number in range(len(specs))]


def _read(
    fetched: _Fetched,
    outcome: Outcome,
    store: Store,
    judge: Callable[[_Fetched, Inspection], _Inspected],
) -> _Inspected:
    for _, error in outcome.errors:
        raise error
    return judge(fetched, read_inspection(store, outcome.records[fetched.step.name]))


def _name(spec: Spec) -> str:
    return f"{spec.model.name}-{spec.model.version}"


def _inspect_name(spec: Spec) -> str:
    return f"{_name(spec)}/inspect"


def _fetch(
    spec: Spec, store: Store, reporter: Reporter, check: Callable[[], None] = lambda: None
) -> _Fetched:
    request = make_request(spec)

    def tell(text: str) -> None:
        check()
        reporter.progressed(_inspect_name(spec), text)

    model = source.fetch(spec.origin, store, tell=tell)
    return _Fetched(spec, request.holding(model.file), model)


def _judge(
    fetched: _Fetched, inspection: Inspection, *, limits: Limits | None, lenient: bool
) -> _Inspected:
    spec, step = fetched.spec, fetched.step
    findings = [*step.check(inspection, limits, lenient=lenient), *_judge_licence(spec)]
    name, key = spec.model.name, spec.model.serving_key
    verdict = judge_findings(name, inspection, key, findings)
    checked = CheckedModel(_name(spec), name, key, None, inspection, findings, verdict, spec.path)
    if checked.exit_code:
        return _Inspected(checked)
    first = first_steps(step.request, step.tree)  # the result of the inspection is in the store
    return _Inspected(checked, fetched.task(first, _smallest(step.request, step.tree)))


def _unless_refused(spec: Spec, inspected: Callable[[], _Inspected]) -> _Inspected:
    try:
        return inspected()
    except ModelwheelError as error:
        return _refuse(spec, error)


def _refuse(spec: Spec, error: ModelwheelError) -> _Inspected:
    name, key = spec.model.name, spec.model.serving_key
    verdict = _refused(name, error)
    return _Inspected(CheckedModel(_name(spec), name, key, error, verdict=verdict, path=spec.path))


def _judge_licence(spec: Spec) -> Iterator[Finding]:
    # A model without a spec has no licence at all, which is said where it is named.
    if spec.package.lacks_license and not spec.is_bare:
        yield Finding("warning", "weights-licence", UNKNOWN_LICENSE, STATE_LICENSE)


def _smallest(request: Request, tree: str) -> tuple[Step, ...]:
    """The steps that compile the smallest batch size and length for the lowest CPU level."""
    platform, level, extent = request.variants[0]
    return (
        FreezeStep(request, tree, extent),
        _FirstCompileStep(request, tree, extent, level, platform),
    )


def _conclude(inspected: _Inspected, outcome: Outcome, store: Store) -> CheckedModel:
    checked = inspected.checked
    sizes = outcome.records.get(f"{checked.model}/{SizesStep.kind}")
    if sizes is not None and (note := read_sizes(store, sizes).finding):
        checked = replace(checked, findings=(*checked.findings, note))
    if not outcome.errors:
        return checked
    _, error = outcome.errors[0]
    return replace(checked, error=error, verdict=_refused(checked.name, error))


def _refused(name: str, error: ModelwheelError) -> str:
    return f"refused {name}: {first_line(error)}"


def judge_findings(name: str, inspection: Inspection, key: str, findings: Sequence[Finding]) -> str:
    """The verdict on one signature of a model.

    >>> print(judge_findings("net", inspection, "serving_default", []))  # doctest: +SKIP
    ok net: 36 kinds of operation, all compiled
    """
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        kinds = {use.op for use in inspection.ops if key in use.signatures}
        return f"ok {name}: {count(len(kinds), 'kind')} of operation, all compiled"
    more = f" (and {count(len(errors) - 1, 'other error')})" if errors[1:] else ""
    return f"refused {name}: {first_line(errors[0].message)}{more}"


def list_supported(store: Store, sandbox: Sandbox, worker: Sequence[str] = COMMAND) -> Supported:
    """The operations that the installed TensorFlow compiles; from the store if they were listed before."""
    request = SupportedRequest()
    key = action_key("supported", **request.key_inputs())
    record = store.lookup(key)
    if record is None:
        with (
            store.scratch() as scratch,
            WorkerPool(scratch, command=worker, sandbox=sandbox) as pool,
            store.scratch() as out,
        ):
            pool.submit(request.job(out), step="supported").result()
            record = store.publish(key, out, {"step": "supported"})
    return Supported.model_validate_json(store.read_bytes(record, SUPPORTED))


def inspect(
    name: str, model: source.FetchedModel, reading: Reading, store: Store, pool: WorkerPool
) -> Inspection:
    """The contents of a model; from the store if it was inspected before."""
    inputs = inspection_inputs(model.tree_sha256, reading)
    key = action_key(InspectStep.kind, **inputs)
    record = store.lookup(key)
    if record is None:
        with store.scratch() as out:
            step = f"{name}/{InspectStep.kind}"
            job = InspectRequest(reading=reading).job(model.directory, out)
            used = pool.submit(job, step=step).result()
            meanings = {model.tree_sha256: {"files": model_files(model.directory)}}
            work = Work(step, InspectStep.kind, step, inputs, meanings, model.directory, used)
            record = work.publish(out, store)
    return read_inspection(store, record)
