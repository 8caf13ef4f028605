"""The job `reference`: what TensorFlow computes for random inputs, and whether rows are independent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ...errors import UnsupportedModelError
from ..check import RANDOM_FIX
from ..jobs import ReferenceJob, ReferenceRequest
from ..reference import ARRAYS, SUMMARY, Reference
from ..shapes import batched_inputs, static_shapes
from . import formats
from .drawn_inputs import draw_inputs
from .formats.base import Arrays, LoadedModel
from .lengths import Lengths, tested_lengths
from .messages import without_node_markup
from .rows import Evaluate, Rows, check_rows, find_difference


def run(job: ReferenceJob) -> None:
    """Writes the arrays and the summary."""
    request = job.request
    loaded = formats.load(job.inputs.model, request.reading, request.signature, request.names)
    batched = batched_inputs(loaded.info, request.shapes)
    if batched:
        given, outputs, summary = _evaluate_rows(loaded, batched, request)
    else:
        given, outputs, summary = _evaluate_once(loaded, request)
    arrays = {f"in/{name}": values for name, values in given.items()}
    if request.lengths:
        shorter, summary = _evaluate_lengths(_evaluator(loaded), given, summary, request)
        arrays |= shorter
    for rows in summary.rows:
        arrays |= {f"out/{rows}/{name}": values for name, values in outputs[rows].items()}
    storable: dict[str, Any] = {name: _storable(values) for name, values in arrays.items()}
    np.savez(job.out / ARRAYS, **storable)
    summary.save(job.out / SUMMARY)


_Result = tuple[Arrays, Mapping[int, Arrays], Reference]
"""The inputs, the outputs by number of rows, and the summary."""


def _evaluate_once(loaded: LoadedModel, request: ReferenceRequest) -> _Result:
    shapes = static_shapes(loaded.info, request.shapes, None)
    given = draw_inputs(loaded.info, shapes, request.seed, request.ranges)
    evaluate = _evaluator(loaded)
    outputs = evaluate(given)
    _require_repeatable(evaluate, given, outputs)
    summary = Reference(
        independent=False,
        reason="no input has a free batch axis",
        leading_per_row=dict.fromkeys(outputs, 0),
        batched_inputs=(),
        rows=(1,),
    )
    return given, {1: outputs}, summary


def _evaluate_rows(
    loaded: LoadedModel, batched: tuple[str, ...], request: ReferenceRequest
) -> _Result:
    sizes = request.batch_sizes
    # Whether rows are independent shows only with two or more.
    shapes = static_shapes(loaded.info, request.shapes, max(*request.rows, *sizes, 2))
    rows, other = (
        Rows(draw_inputs(loaded.info, shapes, seed, request.ranges), frozenset(batched))
        for seed in (request.seed, request.seed + 1)
    )
    evaluate = _evaluator(loaded)
    outputs: dict[int, Arrays] = {size: evaluate(rows.take(slice(size)).arrays) for size in sizes}
    _require_repeatable(evaluate, rows.take(slice(sizes[-1])).arrays, outputs[sizes[-1]])
    verdict = check_rows(evaluate, rows, other, outputs, request.rows)
    summary = Reference(
        independent=verdict.reason is None,
        reason=verdict.reason,
        leading_per_row=verdict.leading_per_row,
        batched_inputs=batched,
        rows=sizes if verdict.reason else tuple(sorted(outputs)),
    )
    return rows.arrays, outputs, summary


def _evaluate_lengths(
    evaluate: Evaluate, given: Arrays, summary: Reference, request: ReferenceRequest
) -> tuple[dict[str, np.ndarray[Any, Any]], Reference]:
    """The outputs for shorter inputs, at every batch size, and the summary with what these showed."""
    lengths = Lengths(evaluate, request.padded, summary.leading_per_row)
    sizes = request.batch_sizes or (1,)
    extents = lengths.test(_first_rows(given, summary, sizes[-1]), request.lengths, sizes[-1])
    shorter = [n for n in tested_lengths(request.lengths) if n != request.lengths[-1]]
    arrays = {
        f"out/{rows}x{n}/{name}": values
        for n in shorter
        for rows in sizes
        for name, values in lengths.evaluate(_first_rows(given, summary, rows), n).items()
    }
    update = {"lengths": tuple(shorter), "length_rows": sizes, "extents": extents}
    return arrays, summary.model_copy(update=update)


def _first_rows(given: Arrays, summary: Reference, rows: int) -> Arrays:
    batched = summary.batched_inputs
    return {name: a[:rows] if name in batched else a for name, a in given.items()}


def _evaluator(loaded: LoadedModel) -> Evaluate:
    def evaluate(arrays: Arrays) -> Arrays:
        try:
            return loaded(arrays)
        except (tf.errors.OpError, ValueError) as error:
            line = without_node_markup(str(error)).strip().splitlines()[0]
            raise UnsupportedModelError(f"TensorFlow itself fails: {line}") from error

    return evaluate


def _require_repeatable(evaluate: Evaluate, given: Arrays, before: Arrays) -> None:
    for name, values in evaluate(given).items():
        difference = find_difference(values, before[name], before[name])
        if difference:
            raise UnsupportedModelError(
                f"output {name!r} differs between two evaluations of the same inputs ({difference}): "
                f"the model draws random numbers or keeps state, and cannot be verified; {RANDOM_FIX}"
            )


def _storable(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """NumPy has no bfloat16 (kind V): it is stored as float32, which holds every value exactly."""
    return values.astype(np.float32) if values.dtype.kind == "V" else values
