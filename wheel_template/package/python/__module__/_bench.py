"""Times the installed model on one thread."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._model import Model, TensorSpec
from ._reference import Sample, load_samples, to_call


class Timing(NamedTuple):
    """How long one call takes."""

    level: str
    rows: int
    rule: str
    """Rows, and the batch sizes that they were split into."""
    nanoseconds: float


def run(batches: Sequence[int], seconds: float, level: str | None, as_json: bool) -> str:
    """Times calls for several numbers of rows; returns a table or JSON.

    Args:
        batches: Numbers of rows, split by the model's rules; by default every compiled batch size, each run
            with its own code.
        seconds: Time to spend on each.
        level: CPU level; by default the highest of this CPU.
        as_json: Print JSON.
    """
    model = Model(level)
    if not batches:
        for size in Model.batch_sizes:
            model.set_batch_rule(f"{size}:{size}")
    sample = load_samples()[-1]
    timings = [_measure(model, sample, rows, seconds) for rows in batches or Model.batch_sizes]
    if as_json:
        return json.dumps([timing._asdict() for timing in timings], indent=1)
    return "\n".join([_head(model), *map(_line, timings)])


def _measure(model: Model, sample: Sample, rows: int, seconds: float) -> Timing:
    inputs = [to_call(s, _repeat(sample.inputs[s.name], s, rows)) for s in Model.inputs]
    nanoseconds = _time(model, inputs, seconds) * 1e9
    return Timing(model.level, rows, model.batch_rule(rows), nanoseconds)


def _head(model: Model) -> str:
    return f"{'rows':>6} {'us/call':>10} {'us/row':>10}   split into, on {model.level}"


def _line(timing: Timing) -> str:
    call = timing.nanoseconds / 1000
    return f"{timing.rows:>6} {call:>10.2f} {call / max(timing.rows, 1):>10.2f}   {timing.rule}"


def _repeat(array: NDArray[Any], spec: TensorSpec, rows: int) -> NDArray[Any]:
    """The sample's rows, repeated until there are enough."""
    if not spec.leading_per_row:
        return array
    return np.resize(array, (rows * spec.leading_per_row, *array.shape[1:]))


def _time(model: Model, inputs: Sequence[NDArray[Any]], seconds: float) -> float:
    """Seconds for one call: the best of five rounds."""
    start = time.perf_counter()
    model(*inputs)
    calls = max(1, int(seconds / 5 / max(time.perf_counter() - start, 1e-7)))
    return min(_round(model, inputs, calls) for _ in range(5)) / calls


def _round(model: Model, inputs: Sequence[NDArray[Any]], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        model(*inputs)
    return time.perf_counter() - start
