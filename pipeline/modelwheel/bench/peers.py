"""Files of a model of TensorFlow's or Keras's for the runtimes that do not read it, by TensorFlow's converter and tf2onnx."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..engine.programs import found_steps, records_of
from ..engine.steps.model import FreezeStep
from ..errors import ModelwheelError
from ..model.messages import first_line
from ..request import Request
from ..sandbox.choose import Sandbox
from ..source import fetch as source
from ..store.keys import action_key
from ..store.store import Store
from ..workers.jobs import EXPORTED, Exported, ExportRequest, FreezeRequest
from ..workers.pool import WorkerPool

EXPORTED_FORMATS = ("graph_def", "keras", "saved_model")
"""Of models that converters take."""

_FILES: Mapping[str, str] = dict(zip(EXPORTED, ("saved_model", "tflite", "onnx"), strict=True))
"""The formats of the peers by the exported files."""


def export_peers(
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
