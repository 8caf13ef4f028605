"""Other ways to call a model, none of which may change results: beside extreme rows, in another order, on a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._core import library
from ._model import Model
from ._reference import Arrays, Expected, Sample, cut, evaluate, from_model


def other_orders(model: Model, samples: Sequence[Sample]) -> Iterator[tuple[Model, Sample]]:
    """Samples to run in turn, each with the object that runs it, if the model has lengths or keeps state.

    A copy continues a row of calls while its original starts over; of lengths, the largest comes first.
    """
    if not Model.states:
        for sample in reversed(samples if Model.lengths else ()):
            yield model, sample._replace(circumstance="in reverse order")
        return
    groups = [list(group) for _, group in groupby(samples, key=lambda sample: sample.rows)]
    for calls in reversed(groups):
        half = len(calls) // 2
        for sample in calls[:half]:
            yield model, sample._replace(circumstance="in reverse order")
        copy = model.copy()
        yield model, calls[0]._replace(circumstance="after a reset", state={})
        for sample in calls[half:]:
            yield copy, sample._replace(circumstance="on a copy")


def beside_extremes(
    model: Model, samples: Sequence[Sample], extremes: Sequence[Sample]
) -> Iterator[tuple[Sample, Arrays]]:
    """Rows in a batch of each compiled size and length while those beside them are extreme.

    Each row is kept once; what is expected of it is what the model computes among ordinary rows.
    """
    if not extremes or not library.batched or library.no_emulation_reason is not None:
        return
    single = [_first_row(sample.inputs) for sample in extremes]
    for length in Model.lengths or (None,):
        for size in Model.batch_sizes:
            if size == 1:
                continue
            model.set_batch_rule(f"{size}:{size}")
            ordinary = _batch([samples[-1].inputs], range(size), length)
            expected = evaluate(model, ordinary)
            # Two alike, so that each is beside rows of both parities.
            for first in range(0, len(single), size // 2):
                picked = [first + row // 2 for row in range(size)]
                extreme = _batch(single, picked, length)
                for parity in (0, 1):
                    kept = np.arange(size) % 2 == parity
                    found = evaluate(model, _mix(ordinary, extreme, kept))
                    yield _kept(expected, kept, length), _select(found, kept)


def _first_row(inputs: Arrays) -> Arrays:
    return {
        spec.name: inputs[spec.name][: spec.leading_per_row]
        if spec.leading_per_row
        else inputs[spec.name]
        for spec in Model.inputs
    }


def _batch(inputs: Sequence[Arrays], picked: Sequence[int], length: int | None) -> Arrays:
    """Some of all rows, which start over after the last."""
    batch = {}
    for spec in Model.inputs:
        arrays = [each[spec.name] for each in inputs]
        if spec.leading_per_row:
            rows = np.concatenate([_by_row(a, len(a) // spec.leading_per_row) for a in arrays])
            chosen = rows[[number % len(rows) for number in picked]]
            arrays = [_together(chosen)]
        batch[spec.name] = cut(arrays[0], spec, length)
    return batch


def _mix(ordinary: Arrays, extreme: Arrays, kept: NDArray[np.bool_]) -> Arrays:
    mixed = {}
    for spec in Model.inputs:
        mixed[spec.name] = ordinary[spec.name].copy()
        if spec.leading_per_row:
            rows = _by_row(mixed[spec.name], len(kept))
            rows[~kept] = _by_row(extreme[spec.name], len(kept))[~kept]
    return mixed


def _select(outputs: Arrays, kept: NDArray[np.bool_]) -> Arrays:
    return {
        spec.name: _together(_by_row(outputs[spec.name], len(kept))[kept]) for spec in Model.outputs
    }


def _together(rows: NDArray[Any]) -> NDArray[Any]:
    """The opposite of `_by_row`."""
    joined: NDArray[Any] = rows.reshape(rows.shape[0] * rows.shape[1], *rows.shape[2:])
    return joined


def _kept(outputs: Arrays, kept: NDArray[np.bool_], length: int | None) -> Sample:
    expected = {}
    for spec in Model.outputs:
        values = from_model(spec, _select(outputs, kept)[spec.name])
        finite = np.abs(values[np.isfinite(values)])
        positions = np.arange(values.size, dtype=np.int64)
        largest = float(finite.max(initial=0))
        expected[spec.name] = Expected(values.shape, positions, values.ravel(), largest)
    return Sample(len(kept), {}, expected, length, circumstance="beside extreme rows")


def _by_row(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """A view whose first axis are the rows. A shorter length may leave fewer elements for each."""
    return array.reshape(rows, len(array) // rows, *array.shape[1:])
