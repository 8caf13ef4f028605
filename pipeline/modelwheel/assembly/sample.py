"""The part of a reference that ships in the wheel: a sample of every output, and of inputs some rows at most.

Random inputs are generated again from the seed; see `modelwheel.compiler.random_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .manifest import Manifest

MAX_SAMPLES = 256
"""Elements stored of each output for each number of rows."""


MAX_INPUT_BYTES = 1 << 20
"""Rows of real data that a wheel carries: as many as this holds, but enough for one evaluation."""


def sample_indices(size: int) -> np.ndarray[Any, Any]:
    """Indices of the elements to store of a flattened output with `size` elements: evenly spread."""
    count = min(size, MAX_SAMPLES)
    # The wheel's `_reference.py` computes the same positions: change both or neither.
    return np.arange(count, dtype=np.int64) * size // max(count, 1)


def write_sample(reference: Path, manifest: Manifest, path: Path) -> None:
    """Writes the sample of a whole reference, as an `.npz` file.

    For every case (see `compiler.reference`) and output it holds `sample/CASE/NAME`, the values at
    `sample_indices`, `shape/CASE/NAME`, and `largest/CASE/NAME`, the largest absolute value; with
    rows of real data also `in/NAME`, the first rows of every input.
    """
    sample: dict[str, Any] = {}
    with np.load(reference) as arrays:
        if manifest.verification.sampled:
            sample |= _first_rows(arrays, manifest)
        for case in manifest.verification.cases:
            for output in manifest.signature.outputs:
                values = arrays[f"out/{case}/{output.name}"]
                key = f"{case}/{output.name}"
                sample[f"shape/{key}"] = np.array(values.shape, np.int64)
                sample[f"sample/{key}"] = values.ravel()[sample_indices(values.size)]
                # The scale of the tolerance, which the sample alone might miss.
                finite = values[np.isfinite(values)]
                sample[f"largest/{key}"] = np.float64(np.abs(finite).max(initial=0))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **sample)


def _first_rows(arrays: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    inputs = {f"in/{t.name}": t.leading_per_row for t in manifest.signature.inputs}
    values = {name: arrays[name] for name in inputs}
    recorded = manifest.verification.rows
    for rows in reversed(recorded):
        first = {n: v[: inputs[n] * rows] if inputs[n] else v for n, v in values.items()}
        if rows == recorded[0] or sum(v.nbytes for v in first.values()) <= MAX_INPUT_BYTES:
            return first
    return values
