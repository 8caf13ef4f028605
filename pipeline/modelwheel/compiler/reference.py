"""References: what TensorFlow computes for random inputs, and whether rows are independent.

The work is done by `modelwheel.compiler.worker.reference`; here it is described.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ..versions import TENSORFLOW_VERSION
from .inspection import Shapes
from .jobs import Job

VERSION = 1
"""Raised when the same request gives other files; part of every key."""

ARRAYS, SUMMARY = "reference.npz", "reference.json"
OUTPUTS = (ARRAYS, SUMMARY)
"""`reference.npz` holds `in/NAME`, made for the largest number of rows, of which the first ones
serve for fewer, and `out/ROWS/NAME` for every number of rows. `reference.json` is a `Reference`."""


class Reference(BaseModel):
    """What the evaluations showed about a signature."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    independent: bool
    """Whether each row of every output depends on the same row of the inputs alone."""
    reason: str | None
    """Why not, as a sentence."""
    leading_per_row: dict[str, int]
    """For every output the extent of axis 0 for each row of the batch; 0 where it does not grow."""
    batched_inputs: tuple[str, ...]
    """Names of the inputs whose axis 0 is the batch; empty for a signature without batch axis."""
    rows: tuple[int, ...]
    """Numbers of rows with outputs in `reference.npz`, ascending. Where rows are not independent
    these are compiled batch sizes only; without a batch axis it is 1, one evaluation."""

    def save(self, path: Path) -> None:
        """Writes the reference as JSON, the same bytes for the same value."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Reference:
        """Reads what `save` wrote."""
        return Reference.model_validate_json(path.read_bytes())


def default_rows(batch_sizes: Sequence[int]) -> tuple[int, ...]:
    """Every batch size, a number of rows between each two, and one above the largest.

    >>> default_rows([1, 4, 16])
    (1, 3, 4, 7, 16, 19)
    """
    sizes = sorted(batch_sizes)
    above = [min(size + 3, following - 1) for size, following in pairwise(sizes)]
    return tuple(sorted({*sizes, *above, sizes[-1] + 3}))


@dataclass(frozen=True)
class ReferenceRequest:
    """A request to evaluate one signature."""

    signature: str
    batch_sizes: tuple[int, ...]
    """The compiled ones; empty for a signature without a free batch axis."""
    rows: tuple[int, ...] = ()
    """Numbers of rows to evaluate; `default_rows` if empty."""
    seed: int = 0
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """[low, high) of random inputs, by name; see `modelwheel.compiler.random_inputs`."""
    shapes: Shapes = field(default_factory=dict)

    def params(self) -> dict[str, Any]:
        """The request as JSON holds it."""
        rows = self.rows or (default_rows(self.batch_sizes) if self.batch_sizes else ())
        return {
            "signature": self.signature,
            "batch_sizes": sorted(self.batch_sizes),
            "rows": sorted({*rows, *self.batch_sizes}),
            "seed": self.seed,
            "ranges": {name: list(bounds) for name, bounds in self.ranges.items()},
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
        }

    def key_inputs(self, saved_model: str) -> dict[str, Any]:
        """What the outputs depend on; `saved_model` is the hash of the model's tree."""
        versions = {"version": VERSION, "tensorflow": TENSORFLOW_VERSION}
        return {**versions, "saved_model": saved_model, **self.params()}

    def job(self, saved_model: Path, out: Path) -> Job:
        """The job that writes `OUTPUTS` into the directory `out`."""
        return Job("reference", self.params(), {"saved_model": saved_model}, out)
