"""The part of a reference that ships in the wheel: a sample of every output, and no inputs.

Inputs are made again from the seed; see `modelwheel.random_inputs`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .manifest import Manifest

MAX_SAMPLES = 256
"""Elements kept of each output for each number of rows."""


def sample_indices(size: int) -> np.ndarray[Any, Any]:
    """Which elements of a flattened output of `size` elements are kept: evenly spread ones."""
    count = min(size, MAX_SAMPLES)
    return np.arange(count, dtype=np.int64) * size // max(count, 1)


def write_sample(reference: Path, manifest: Manifest, path: Path) -> None:
    """Writes `value/ROWS/NAME` and `largest/ROWS/NAME` (largest absolute value) of all outputs."""
    sample: dict[str, Any] = {}
    with np.load(reference) as arrays:
        for rows in manifest.verification.rows:
            for output in manifest.signature.outputs:
                values = arrays[f"out/{rows}/{output.name}"].ravel()
                sample[f"value/{rows}/{output.name}"] = values[sample_indices(values.size)]
                largest = np.abs(values.astype(np.float64)).max(initial=0.0)
                sample[f"largest/{rows}/{output.name}"] = np.float64(largest)
    np.savez_compressed(path, **sample)
