"""Times the installed model on one thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._model import Model, TensorSpec
from ._reference import load_samples


def run(batches: Sequence[int], seconds: float, level: str | None) -> str:
    """A table of the time of a call by number of rows, by default for the compiled sizes."""
    model = Model(level)
    sample = load_samples()[-1]
    lines = [f"{'rows':>6} {'us/call':>10} {'us/row':>10}   composed of, on {model.level}"]
    for rows in batches or Model.batch_sizes:
        inputs = [_repeat(sample.inputs[spec.name], spec, rows) for spec in Model.inputs]
        call = _time(model, inputs, seconds) * 1e6
        rule = model.batch_rule(rows)
        lines.append(f"{rows:>6} {call:>10.2f} {call / max(rows, 1):>10.2f}   {rule}")
    return "\n".join(lines)


def _repeat(array: NDArray[Any], spec: TensorSpec, rows: int) -> NDArray[Any]:
    """The sample's rows over and over, until there are enough."""
    if not spec.leading_per_row:
        return array
    return np.resize(array, (rows * spec.leading_per_row, *array.shape[1:]))


def _time(model: Model, inputs: Sequence[NDArray[Any]], seconds: float) -> float:
    """Seconds of one call: the best of five rounds."""
    start = time.perf_counter()
    model(*inputs)
    calls = max(1, int(seconds / 5 / max(time.perf_counter() - start, 1e-7)))
    return min(_round(model, inputs, calls) for _ in range(5)) / calls


def _round(model: Model, inputs: Sequence[NDArray[Any]], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        model(*inputs)
    return time.perf_counter() - start
