"""What was found in a SavedModel by reading it, as typed values: signatures, operations, files.

A worker writes it as `inspection.json`; `modelwheel.compiler.check` judges it without TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from ..errors import UnsupportedModelError
from ..versions import TENSORFLOW_VERSION
from .jobs import Job

VERSION = 1
"""Raised when the worker looks for something else; part of every key."""

OUTPUTS = ("inspection.json",)

Shape: TypeAlias = tuple[int | None, ...]
"""Extents; None where the extent is free."""

Shapes: TypeAlias = Mapping[str, Sequence[int | None]]
"""Whole shapes of some inputs as the spec fixes them; None on axis 0 keeps it the batch."""

Support: TypeAlias = Literal["compiled", "frozen", "unsupported", "unregistered"]
"""What becomes of an operation: XLA compiles it; it vanishes when the graph is frozen; XLA lacks it
for these types; TensorFlow does not know it at all."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TensorInfo(_Record):
    """One input or output of a signature."""

    name: str
    dtype: str
    """TensorFlow's name of the element type: `float32`, `string`, ..."""
    shape: Shape | None
    """None where even the rank is unknown."""
    encoding: Literal["dense", "sparse", "composite"] = "dense"


class SignatureInfo(_Record):
    """One function that the model offers; inputs and outputs are sorted by name."""

    key: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class SignatureUse(_Record):
    """How one signature uses an operation."""

    count: int
    layers: tuple[str, ...]
    """The first few names of layers."""


class OpUse(_Record):
    """One kind of operation, over all functions of the model."""

    op: str
    dtypes: str = ""
    """Where that decides the support: the types that XLA does not accept, as `T=string`."""
    support: Support
    count: int
    functions: tuple[str, ...]
    """The first few functions that hold it; "" is the graph itself."""
    layers: tuple[str, ...]
    """The first few names of layers."""
    signatures: Mapping[str, SignatureUse]
    """The signatures whose outputs depend on it, or that change a variable with it."""


class Inspection(_Record):
    """Everything that is known of a SavedModel before it is loaded."""

    version: Literal[1] = 1
    written_by: str
    """The version of TensorFlow that wrote the model."""
    tags: tuple[str, ...]
    signatures: tuple[SignatureInfo, ...]
    """Sorted by key."""
    ops: tuple[OpUse, ...]
    """Sorted by name."""
    assets: tuple[str, ...]
    """Names of files that the model reads when it is loaded."""
    initializers: tuple[str, ...]
    """Operations that run when the model is loaded, apart from the restoring of variables."""

    def signature(self, key: str) -> SignatureInfo | None:
        """The signature of that name, or None."""
        return next((s for s in self.signatures if s.key == key), None)

    def save(self, path: Path) -> None:
        """Writes the inspection as JSON, the same bytes for the same value."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Inspection:
        """Reads what `save` wrote."""
        return Inspection.model_validate_json(path.read_bytes())


def key_inputs(saved_model: str) -> dict[str, Any]:
    """What an inspection depends on; `saved_model` is the hash of the model's tree."""
    return {"version": VERSION, "tensorflow": TENSORFLOW_VERSION, "saved_model": saved_model}


def job(saved_model: Path, out: Path) -> Job:
    """The job that writes `inspection.json` of a SavedModel into the directory `out`."""
    return Job("inspect", {}, {"saved_model": saved_model}, out)


def find_shape_problem(tensor: TensorInfo, given: Sequence[int | None] | None) -> str | None:
    """What is wrong with an input's shape, given what the spec says of it; None if nothing is."""
    if given is None:
        if tensor.shape is None:
            return f"input {tensor.name!r} has an unknown number of axes"
        free = [axis for axis, extent in enumerate(tensor.shape) if axis and extent is None]
        if free:
            return f"input {tensor.name!r} has the free axis {free[0]} in {show(tensor.shape)}"
        return None
    if any(extent is None for extent in given[1:]):
        return f"input {tensor.name!r} is given the shape {show(given)}: only axis 0 may be free"
    declared = tensor.shape
    if declared is not None and (
        len(declared) != len(given)
        or any(d is not None and d != g for d, g in zip(declared, given, strict=True))
    ):
        return (
            f"input {tensor.name!r} is given the shape {show(given)}, "
            f"but the model declares {show(declared)}"
        )
    return None


def compiled_shape(tensor: TensorInfo, shapes: Shapes) -> Shape:
    """The shape that an input is compiled for: None on axis 0 is the batch, all else is fixed.

    Raises:
        UnsupportedModelError: More than axis 0 is free, or the spec contradicts the model.
    """
    given = shapes.get(tensor.name)
    problem = find_shape_problem(tensor, given)
    if problem:
        raise UnsupportedModelError(
            f"{problem}; fix it with inputs.{tensor.name}.shape in the spec"
        )
    return tuple(given if given is not None else tensor.shape or ())


def batched_inputs(signature: SignatureInfo, shapes: Shapes) -> tuple[str, ...]:
    """Names of the inputs whose axis 0 is the batch."""
    return tuple(
        tensor.name for tensor in signature.inputs if compiled_shape(tensor, shapes)[:1] == (None,)
    )


def static_shapes(
    signature: SignatureInfo, shapes: Shapes, batch: int | None
) -> dict[str, tuple[int, ...]]:
    """The shape of every input at one batch size; `batch` is None if no input has a batch axis.

    Raises:
        UnsupportedModelError: A shape is not known, or `batch` does not fit the signature.
    """
    batched = batched_inputs(signature, shapes)
    if batched and batch is None:
        raise UnsupportedModelError(
            f"input {batched[0]!r} of signature {signature.key!r} has a free batch axis; "
            "give a batch size"
        )
    if batch is not None and not batched:
        raise UnsupportedModelError(
            f"signature {signature.key!r} has no free batch axis; omit the batch size"
        )
    rows = batch or 0  # where there is no batch, no axis is free
    return {
        tensor.name: tuple(rows if e is None else e for e in compiled_shape(tensor, shapes))
        for tensor in signature.inputs
    }


def show(shape: Sequence[int | None]) -> str:
    """A shape as people write it: `[batch, 128]`, `[?, ?]`."""
    names = ["?" if extent is None else str(extent) for extent in shape]
    if shape and shape[0] is None:
        names[0] = "batch"
    return f"[{', '.join(names)}]"
