"""`modelwheel check`: fetches models, checks them against their specs, and compiles each once.

What is compiled is the smallest of what a build compiles, by the steps of a build: they find the results in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from ..compiler.findings import Finding
from ..compiler.inspection import Inspection
from ..compiler.jobs import InspectRequest, SupportedRequest
from ..compiler.pool import WorkerPool
from ..compiler.readings import Reading, reading_of
from ..compiler.supported import SUPPORTED, Supported
from ..compiler.worker_process import COMMAND
from ..errors import ModelwheelError, UnsupportedModelError
from ..limits import Limits
from ..request import Request, make_request
from ..sandbox.choose import Sandbox
from ..source import fetch as source
from ..spec import Spec
from ..spec.package import STATE_LICENSE, UNKNOWN_LICENSE
from ..store.keys import action_key
from ..store.store import Store
from ..util.text import one_line
from ..util.watching import each
from ..util.words import count
from .notes import Work, model_files
from .reporting import Reporter
from .scheduler import Outcome, Task, Tools, run_steps
from .steps.base import Step
from .steps.model import CompileStep, FreezeStep, InspectStep, inspection_inputs, read_inspection


def first_line(text: object) -> str:
    """The first line of a message."""
    return one_line(str(text).partition("\n")[0])


@dataclass(frozen=True)
class CheckedModel:
    """What was found in one model and what follows for its spec."""

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
    def exit_code(self) -> int:
        """0 if the model can be compiled."""
        if self.error is not None:
            return self.error.exit_code
        refused = any(finding.severity == "error" for finding in self.findings)
        return UnsupportedModelError.exit_code if refused else 0


@dataclass(frozen=True)
class _FirstCompileStep(CompileStep):
    """A step of a build that does not wait for the outputs of the framework: `check` evaluates nothing."""

    @property
    def waits_for(self) -> tuple[str, ...]:
        return ()


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
    """
    with store.scratch() as scratch, WorkerPool(scratch, command=worker, sandbox=sandbox) as pool:
        found = [
            _inspect(spec, store, pool, limits, reporter, lenient=lenient)
            for spec in each(specs, lambda spec: f"{_name(spec)}/inspect", reporter)
        ]
        tasks = [one.task for one in found if one.task is not None]
        # What inspects is one of them already, and its result is in the store.
        reporter.planned([step.name for task in tasks for step in task.steps])
        outcomes = iter(run_steps(tasks, Tools(store, pool, reporter, sandbox)))
    return [one.checked if one.task is None else _conclude(one, next(outcomes)) for one in found]


def _name(spec: Spec) -> str:
    return f"{spec.model.name}-{spec.model.version}"


def _inspect(
    spec: Spec,
    store: Store,
    pool: WorkerPool,
    limits: Limits | None,
    reporter: Reporter,
    *,
    lenient: bool,
) -> _Inspected:
    name, key = _name(spec), spec.model.serving_key
    try:
        request = make_request(spec)
        tell = partial(reporter.progressed, f"{name}/inspect")
        model = source.fetch(spec.origin, store, tell=tell)
        request = request.holding(model.file)
        reading = reading_of(request.spec.origin, spec.interface_order)
        found = inspect(spec.model.name, model, reading, store, pool)
        findings = [
            *InspectStep(request, model.tree_sha256).check(found, limits, lenient=lenient),
            *_judge_licence(spec),
        ]
    except ModelwheelError as error:
        said = _refused(spec.model.name, error)
        refused = CheckedModel(name, spec.model.name, key, error, verdict=said, path=spec.path)
        return _Inspected(refused)
    said = judge_findings(spec.model.name, found, key, findings)
    checked = CheckedModel(name, spec.model.name, key, None, found, findings, said, spec.path)
    if checked.exit_code:
        return _Inspected(checked)
    steps = _steps_of_check(request, model.tree_sha256)
    return _Inspected(checked, Task(steps, model.directory))


def _judge_licence(spec: Spec) -> Iterator[Finding]:
    # A model without a spec has no licence at all, which is said where it is named.
    if spec.package.weights_license is None and not spec.is_bare:
        yield Finding("warning", "weights-licence", UNKNOWN_LICENSE, STATE_LICENSE)


def _steps_of_check(request: Request, tree: str) -> tuple[Step, ...]:
    """What compiles the smallest batch size and length for the lowest CPU level."""
    platform, level, extent = request.variants[0]
    return (
        InspectStep(request, tree),  # its result is in the store
        FreezeStep(request, tree, extent),
        _FirstCompileStep(request, tree, extent, level, platform),
    )


def _conclude(inspected: _Inspected, outcome: Outcome) -> CheckedModel:
    if not outcome.errors:
        return inspected.checked
    _, error = outcome.errors[0]
    checked = inspected.checked
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
    """What the installed TensorFlow compiles; from the store if it was listed before."""
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
    """What a model holds; from the store if it was inspected before."""
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
