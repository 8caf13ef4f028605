"""`modelwheel new`: creates a commented spec from a model."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import SpecError
from ..model.inspection import Inspection, SignatureInfo, TensorInfo
from ..model.readings import GraphDefReading, Reading, reading_of
from ..model.shapes import find_shape_problem
from ..sandbox.choose import Sandbox
from ..source import fetch as source
from ..source.git.worktree import Worktree
from ..source.unpinned import pin_address
from ..spec import DirectorySource
from ..spec.scaffold import ModelDescription, Origin, TensorDescription, scaffold_spec
from ..spec.schema import SCHEMA_NAME, write_schema
from ..spec.sources import AnySource
from ..store.store import Store
from ..util.files import write_atomically
from ..util.watching import NOBODY, Watcher, step
from ..util.words import suggest
from ..workers.pool import WorkerPool
from .check_models import inspect

_log = logging.getLogger(__name__)


def write_spec(
    name: str,
    model: Path | str,
    signature: str,
    directory: Path,
    store: Store,
    sandbox: Sandbox,
    watcher: Watcher = NOBODY,
    *,
    shared: bool = False,
) -> Path:
    """Writes `directory/NAME.yaml`; returns its path. The store keeps what was inspected.

    The schema that the first line of a spec names is written beside it, unless it is there.

    Args:
        name: The name of the model.
        model: A path, or an address: `https://`, `file://`, `s3://`, `gs://` or `hf://`.
        signature: The signature to compile.
        directory: Where the spec is written.
        store: Keeps what is fetched and inspected.
        sandbox: Where the model is read.
        watcher: Receives the progress.
        shared: Whether the spec says `bindings: shared`.

    Raises:
        SpecError: The file exists, the name is not valid, or there is no such signature.
        SourceError: There is no such model.
    """
    path = directory / f"{name}.yaml"
    if path.exists():
        raise SpecError(f"{path} exists; remove it or choose another name", code="MW117")
    reading = "reading the files"
    with step(reading, watcher):
        address = str(model)
        if "://" in address:
            pinned = pin_address(address, store, partial(watcher.progressed, reading))
            fetched, origin, place = pinned.fetched, pinned.source, Origin(pinned.fields)
        else:
            model = Path(model)
            fetched, origin = locate(model, store)
            model = model / fetched.file if fetched.file else model
            place = find_origin(model, fetched)
    with (
        store.scratch() as scratch,
        WorkerPool(scratch, 1, sandbox=sandbox) as pool,
        step("inspecting the model", watcher),
    ):
        inspection = inspect(name, fetched, reading_of_unknown(origin), store, pool)
    description = replace(describe(inspection, signature), shared=shared)
    relative = Path() if place.source else Path(os.path.relpath(model, directory))
    is_file = bool(place.source) or Path(model).is_file()
    text = scaffold_spec(name, relative, description, is_file=is_file, origin=place)
    directory.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    if not (schema := directory / SCHEMA_NAME).exists():
        write_schema(schema)
    return path


def find_origin(model: Path, fetched: source.FetchedModel) -> Origin:
    """Where everybody finds a model that is in a git checkout, in its state there."""
    checkout = Worktree.around(model)
    if checkout is None:
        return Origin()
    beside = [model.parent / file.name for file in fetched.directory.iterdir()]
    # Weights in files of their own have to be in the commit, too.
    parts = [model, *(file for file in beside if model.is_file() and file.is_file())]
    pin = checkout.pin(parts)
    if isinstance(pin, str):
        note = (
            f"the model is in a git checkout, but others cannot fetch it from there: {pin}; "
            "then write git, commit and path under source"
        )
        _log.warning("%s", note)
        return Origin(note=note)
    return Origin({"git": pin.git, "commit": pin.commit, "path": pin.path})


def locate(model: Path, store: Store) -> tuple[source.FetchedModel, DirectorySource]:
    """A model that a command line names: what the store has of it, and the source that describes it.

    Raises:
        SpecError: It is not a path.
        SourceError: There is no such model.
    """
    if model.as_posix().startswith("hf:/"):
        raise SpecError(
            "hf:// addresses are not read here; download the .onnx file, or export the model by "
            "optimum-cli export onnx --model OWNER/NAME DIRECTORY, and name the file",
            code="MW117",
        )
    is_file = model.is_file()
    origin = DirectorySource.at(model.parent, model.name) if is_file else DirectorySource.at(model)
    fetched = source.fetch(origin, store)
    return fetched, origin.holding(fetched.file) if fetched.file else origin


def reading_of_unknown(origin: AnySource) -> Reading:
    """How a model is read about which no spec says more: inputs and outputs of graphs are found in them."""
    reading = reading_of(origin, "model")
    if isinstance(reading, GraphDefReading):
        return reading.model_copy(update={"find": True})
    return reading


def describe(inspection: Inspection, key: str) -> ModelDescription:
    """The signature `key` of a model, and the names of all signatures.

    Raises:
        SpecError: There is no such signature.
    """
    keys = tuple(signature.key for signature in inspection.signatures)
    chosen = inspection.signature(key)
    if chosen is None:
        raise SpecError(f"the model has no signature {key!r}; {suggest(key, keys)}", code="MW117")
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
