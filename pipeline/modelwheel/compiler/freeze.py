"""Freezing: one signature of a SavedModel becomes a graph without variables, of fixed shapes.

The work is done by `modelwheel.compiler.worker.freeze`; here it is described.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ..spec.names import is_keyword
from ..versions import TENSORFLOW_VERSION
from .inspection import Shapes
from .jobs import Job

VERSION = 1
"""Raised when the same request gives other files; part of every key."""

GRAPH, CONFIG, SIGNATURE = "graph.pb", "config.pb", "signature.json"
OUTPUTS = (GRAPH, CONFIG, SIGNATURE)
"""A GraphDef, the tf2xla Config that names its feeds and fetches, and a `FrozenSignature`."""


class FrozenTensor(BaseModel):
    """One input or output of a frozen graph."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """As in the SavedModel's signature."""
    c_name: str
    """The same as a C identifier, unique among the inputs or among the outputs."""
    dtype: str
    """NumPy's name of the element type; `bfloat16` for that one."""
    shape: tuple[int, ...]


class FrozenSignature(BaseModel):
    """What a frozen graph takes and gives, in the order of the compiled program's parameters.

    Inputs and outputs are sorted by name, as TensorFlow's own tools do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    key: str
    """The name of the signature."""
    batch: int | None
    """None where the signature has no batch axis."""
    inputs: tuple[FrozenTensor, ...]
    outputs: tuple[FrozenTensor, ...]
    batched_inputs: tuple[str, ...]
    """Names of the inputs whose axis 0 is the batch."""
    pruned_inputs: tuple[str, ...]
    """Inputs of the signature that no output depends on: they are not among `inputs`."""

    def save(self, path: Path) -> None:
        """Writes the signature as JSON, the same bytes for the same value."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> FrozenSignature:
        """Reads what `save` wrote."""
        return FrozenSignature.model_validate_json(path.read_bytes())


@dataclass(frozen=True)
class FreezeRequest:
    """A request to freeze one signature at one batch size."""

    signature: str
    batch: int | None
    """None for a signature without a free batch axis."""
    shapes: Shapes = field(default_factory=dict)
    allow_pruned_inputs: bool = False

    def params(self) -> dict[str, Any]:
        """The request as JSON holds it."""
        return {
            "signature": self.signature,
            "batch": self.batch,
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "allow_pruned_inputs": self.allow_pruned_inputs,
        }

    def key_inputs(self, saved_model: str) -> dict[str, Any]:
        """What the outputs depend on; `saved_model` is the hash of the model's tree."""
        versions = {"version": VERSION, "tensorflow": TENSORFLOW_VERSION}
        return {**versions, "saved_model": saved_model, **self.params()}

    def job(self, saved_model: Path, out: Path) -> Job:
        """The job that writes `OUTPUTS` into the directory `out`."""
        return Job("freeze", self.params(), {"saved_model": saved_model}, out)


def c_names(names: Iterable[str]) -> tuple[str, ...]:
    """For every name a C identifier that resembles it, each one different.

    They are used behind a prefix (`arg_x`, `result_y`) and alone, as names of parameters and members,
    so keywords get a `_` at their end.
    """
    found: dict[str, None] = {}
    for name in names:
        base = re.sub(r"[^A-Za-z0-9_]", "_", name)
        if not re.match(r"[A-Za-z_]", base):
            base = f"_{base}"
        if is_keyword(base):
            base = f"{base}_"
        candidate, number = base, 2
        while candidate in found:
            candidate, number = f"{base}_{number}", number + 1
        found[candidate] = None
    return tuple(found)
