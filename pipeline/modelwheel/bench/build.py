"""Builds what is compared: wheels, with the seconds that they took and the programs in them, and files for other runtimes.

TensorFlow's converter and tf2onnx write these, of models of TensorFlow's and Keras's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..engine.build import BuildOptions, BuildResult, build
from ..engine.programs import found_steps, records_of, stored_programs
from ..engine.reporting import Reporter, Several, SilentReporter
from ..engine.steps.model import FreezeStep
from ..errors import ModelwheelError
from ..model.messages import first_line
from ..model.readings import OnnxReading, reading_of
from ..request import Request
from ..sandbox.choose import Sandbox
from ..source import fetch as source
from ..store.keys import action_key
from ..store.store import Store
from ..workers.jobs import EXPORTED, ExportRequest, FreezeRequest
from ..workers.outcomes import Exported
from ..workers.pool import WorkerPool
from .compare import FORMATS, Contender

_EXPORTED = ("graph_def", "keras", "saved_model")
"""Of models that converters take."""

_FILES: Mapping[str, str] = dict(zip(EXPORTED, ("saved_model", "tflite", "onnx"), strict=True))
"""The formats of the peers by the exported files."""


class _Stopwatch(SilentReporter):
    """Adds up what the steps of each request take."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.cached: set[str] = set()

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:  # noqa: ARG002
        request, _, step = name.partition("/")
        self.seconds[request] += seconds
        if cached and step != "fetch":
            self.cached.add(request)


def build_contenders(
    requests: Sequence[Request],
    store: Store,
    options: BuildOptions,
    reporter: Reporter,
    exported: Path | None = None,
) -> list[tuple[BuildResult, Contender | None]]:
    """Builds wheels; each contender has what a spec knows. None where the build failed.

    Args:
        requests: What is built.
        store: Results of steps.
        options: See `build`.
        reporter: Receives what happens.
        exported: A directory for files that models of TensorFlow's are exported to for other runtimes; by default there
            are none.
    """
    stopwatch = _Stopwatch()
    results = build(requests, store, options, Several(reporter, stopwatch))
    contenders = []
    for result in results:
        contender = _contender(result, store, stopwatch)
        reading = reading_of(result.request.spec.origin, result.request.spec.interface_order)
        if contender is not None and exported is not None and reading.format in _EXPORTED:
            directory = exported / result.request.name
            files, failures = _export(result.request, store, options.sandbox, directory)
            contender = replace(contender, files={**files, **contender.files}, failures=failures)
        contenders.append((result, contender))
    return contenders


def _contender(result: BuildResult, store: Store, stopwatch: _Stopwatch) -> Contender | None:
    if result.wheel is None:
        return None
    request = result.request
    reading = reading_of(request.spec.origin, request.spec.interface_order)
    files: dict[str, Path] = {}
    if reading.format in FORMATS:
        # It has been judged before it was built, and what reads it runs in the sandbox.
        directory = source.fetch(request.spec.origin, store).directory
        files[reading.format] = directory / getattr(reading, "file", "")
    cached = request.name in stopwatch.cached
    return Contender(
        wheel=result.wheel,
        needed=result.needed,
        files=files,
        programs={level.name: stored_programs(request, store, level) for level in request.levels},
        build_seconds=None if cached else round(stopwatch.seconds[request.name], 1),
        constants=reading.constants if isinstance(reading, OnnxReading) else {},
    )


def _export(
    request: Request, store: Store, sandbox: Sandbox, directory: Path
) -> tuple[dict[str, Path], dict[str, str]]:
    """Exports a model that has been built; what was exported before comes from the store.

    Args:
        request: What was built.
        store: It has the model, and what was found in it.
        sandbox: Where the converters run.
        directory: Is made; the files go there.

    Returns:
        The files by format (a SavedModel is a directory), and why there are no others.
    """
    plan = found_steps(request, store)
    records = records_of(plan, store)
    step = next(step for step in plan if isinstance(step, FreezeStep))
    freezing = step.asked(store, records)
    assert isinstance(freezing, FreezeRequest)
    export = ExportRequest(freezing=freezing)
    key = action_key("export", **export.key_inputs(model=step.tree))
    record = store.lookup(key)
    if record is None:
        model = source.fetch(request.origin, store).directory
        name = f"{request.name}/export"
        with (
            store.scratch() as scratch,
            WorkerPool(scratch, sandbox=sandbox) as pool,
            store.scratch() as out,
        ):
            try:
                pool.submit(export.job(model, out), step=name).result()
            except ModelwheelError as error:
                return {}, dict.fromkeys(_FILES.values(), first_line(error))
            record = store.publish(key, out, {"step": name})
    store.materialize(record, directory, link=True)
    failures = Exported.load(directory / Exported.FILE).failures
    files = {
        format_: directory if format_ == "saved_model" else directory / name
        for name, format_ in _FILES.items()
        if name not in failures
    }
    return files, {_FILES[name]: reason for name, reason in failures.items()}
