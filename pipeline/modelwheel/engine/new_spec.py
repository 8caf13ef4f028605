"""`modelwheel new`: creates a commented spec from a model."""

from __future__ import annotations

import os
from pathlib import Path

from ..compiler.inspection import Inspection, SignatureInfo, TensorInfo
from ..compiler.pool import WorkerPool
from ..compiler.readings import GraphDefReading, Reading, reading_of
from ..compiler.shapes import find_shape_problem
from ..errors import SpecError
from ..sandbox.choose import Sandbox
from ..source import fetch as source
from ..spec import DirectorySource
from ..spec.scaffold import ModelDescription, TensorDescription, scaffold_spec
from ..store.store import Store
from ..util.files import write_atomically
from ..util.watching import NOBODY, Watcher, step
from ..util.words import suggest
from .check_models import inspect


def write_spec(
    name: str,
    model: Path,
    signature: str,
    directory: Path,
    store: Store,
    sandbox: Sandbox,
    watcher: Watcher = NOBODY,
) -> Path:
    """Writes `directory/NAME.yaml`; returns its path. The store keeps what was inspected.

    Raises:
        SpecError: The file exists, the name is not valid, or there is no such signature.
        SourceError: There is no such model.
    """
    path = directory / f"{name}.yaml"
    if path.exists():
        raise SpecError(f"{path} exists; remove it or choose another name")
    with step("reading the files", watcher):
        fetched, origin = locate(model, store)
    if fetched.file:
        model = model / fetched.file
    with (
        store.scratch() as scratch,
        WorkerPool(scratch, 1, sandbox=sandbox) as pool,
        step("inspecting the model", watcher),
    ):
        inspection = inspect(name, fetched, reading_of_unknown(origin), store, pool)
    relative = Path(os.path.relpath(model, directory))
    text = scaffold_spec(name, relative, _describe(inspection, signature), is_file=model.is_file())
    directory.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return path


def locate(model: Path, store: Store) -> tuple[source.FetchedModel, DirectorySource]:
    """A model that a command line names: what the store has of it, and the source that describes it.

    Raises:
        SpecError: It is not a path.
        SourceError: There is no such model.
    """
    if model.as_posix().startswith("hf:/"):
        raise SpecError(
            "hf:// addresses are not read; download the .onnx file, or export the model by "
            "optimum-cli export onnx --model OWNER/NAME DIRECTORY, and name the file"
        )
    is_file = model.is_file()
    origin = DirectorySource.at(model.parent, model.name) if is_file else DirectorySource.at(model)
    fetched = source.fetch(origin, store)
    return fetched, origin.holding(fetched.file) if fetched.file else origin


def reading_of_unknown(origin: DirectorySource) -> Reading:
    """How a model is read about which no spec says more: inputs and outputs of graphs are found in them."""
    reading = reading_of(origin, "model")
    if isinstance(reading, GraphDefReading):
        return reading.model_copy(update={"find": True})
    return reading


def _describe(inspection: Inspection, key: str) -> ModelDescription:
    keys = tuple(signature.key for signature in inspection.signatures)
    chosen = inspection.signature(key)
    if chosen is None:
        raise SpecError(f"the model has no signature {key!r}; {suggest(key, keys)}")
    return ModelDescription(
        signatures=keys,
        serving_key=key,
        inputs=tuple(_tensor(chosen, t) for t in chosen.inputs),
        outputs=tuple(TensorDescription(t.name, t.dtype, t.shape) for t in chosen.outputs),
        ports=inspection.ports.model_dump() if inspection.ports is not None else {},
    )


def _tensor(signature: SignatureInfo, tensor: TensorInfo) -> TensorDescription:
    clear = find_shape_problem(signature, tensor, {}) is None
    batch = tensor.shape.index(None) if clear and tensor.shape and None in tensor.shape else 0
    return TensorDescription(tensor.name, tensor.dtype, tensor.shape, batch)
