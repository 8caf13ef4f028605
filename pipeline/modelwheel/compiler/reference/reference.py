"""The job `reference`: what a model computes for random inputs, and whether rows are independent."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ...accuracy import MORE
from ...dtypes import integer_limits
from ...errors import UnsupportedModelError
from ...model.check import RANDOM_FIX
from ...model.inspection import SignatureInfo
from ...model.messages import first_line
from ...model.reference_result import (
    ARRAYS,
    SUMMARY,
    TIMES,
    Reference,
    case_of,
    default_rows,
    input_key,
    output_key,
)
from ...model.renames import rename
from ...model.shapes import batched_inputs, static_shapes
from ...util.text import one_line
from ...workers.endings import is_about_memory
from ...workers.jobs import ReferenceJob, ReferenceRequest
from ...workers.table_reads import tables_read
from .. import formats
from ..loaded.base import Arrays, LoadedModel, framework_of
from ..loaded.rows_first import moved_inputs
from .batch_axes import move_inputs, move_outputs, moved_axes, require_independence
from .boundary import evaluate_boundary
from .calls import evaluate_calls
from .drawn_inputs import described_inputs, draw_inputs
from .failures import explain_failure
from .fitting import check_few_rows, fitting_rows
from .framework_time import allow_one_thread, time_framework
from .lengths import Extents, Lengths, PaddedError, tested_lengths
from .row_noise import RowNoise
from .rows import Evaluate, Rows, check_rows, find_difference
from .samples import read_samples, repeat_rows
from .truth.evaluate import kept_sessions
from .truth.exactly import Exactly
from .truth.find import find_truth
from .truth.missing import NoTruthError
from .truth.pieces import MANY


def run(job: ReferenceJob) -> None:
    """Writes the arrays, the summary, and how long the framework takes."""
    allow_one_thread()
    request = job.request
    loaded = formats.load(
        job.inputs.model, request.reading, request.signature, request.names, request.layers
    )
    with kept_sessions():
        _write_reference(job, loaded)
    time_framework(loaded, request).save(job.out / TIMES)


def _write_reference(job: ReferenceJob, loaded: LoadedModel) -> None:
    request = job.request
    info, shapes = loaded.info, request.shapes
    loaded, request = move_inputs(loaded, request)
    job = job.model_copy(update={"request": request})
    batched = batched_inputs(loaded.info, request.shapes)
    as_declared = loaded
    if batched:
        loaded = _move_outputs(job, as_declared)
    job, narrowed, arrays, summary = _evaluate_or_narrow(job, loaded)
    constant = [name for name, per_row in summary.leading_per_row.items() if not per_row]
    if batched and summary.reason and constant and not request.keep_state:
        moved = _move_outputs(job, as_declared, constant)
        if moved_axes(moved) != moved_axes(loaded):
            loaded = moved
            job, again, arrays, summary = _evaluate_or_narrow(job, loaded)
            narrowed = {**narrowed, **again}
    if not request.keep_state:
        require_independence(info, shapes, summary.reason if batched else None)
    request, evaluate = job.request, _evaluator(job, loaded)
    summary, boundary = evaluate_boundary(loaded, evaluate, arrays, summary, request)
    exact, truth = find_truth(loaded, arrays, summary, request)
    compared = _compared_inputs({**arrays, **boundary.arrays}, summary)
    read = tables_read(request.tables, compared)
    truth = boundary.add_to(truth).model_copy(update={"tables": read, "narrowed": narrowed})
    stored = {**_kept(arrays, summary), **exact, **boundary.arrays}
    storable: dict[str, Any] = {name: _storable(values) for name, values in stored.items()}
    np.savez(job.out / ARRAYS, **storable)
    update = {
        "evaluator": loaded.evaluator,
        "truth": truth,
        "valid": request.valid,
        **moved_axes(loaded),
    }
    summary.model_copy(update=update).save(job.out / SUMMARY)


def _move_outputs(
    job: ReferenceJob, loaded: LoadedModel, misdeclared: Collection[str] = ()
) -> LoadedModel:
    evaluate = _evaluator(job, loaded)
    return move_outputs(
        loaded, job.request, evaluate, lambda rows: _first_batch(job, loaded, rows), misdeclared
    )


def _evaluate_or_narrow(
    job: ReferenceJob, loaded: LoadedModel
) -> tuple[ReferenceJob, dict[str, str], Arrays, Reference]:
    """The evaluation; if the model refuses integers of which nothing is known, one with 0 and 1 only, and why."""
    request = job.request
    try:
        return job, {}, *_evaluate(job, loaded)
    except UnsupportedModelError as error:
        free = [
            tensor.name
            for tensor in loaded.info.inputs
            if integer_limits(tensor.dtype)
            and tensor.name not in {**request.ranges, **request.columns}
        ]
        if not free or request.samples:
            raise
        ranges = {**request.ranges, **dict.fromkeys(free, (0.0, 2.0))}
        narrow = job.model_copy(update={"request": request.model_copy(update={"ranges": ranges})})
        try:
            evaluation = _evaluate(narrow, loaded)
        except UnsupportedModelError:
            raise error from None
        return narrow, dict.fromkeys(free, one_line(error)), *evaluation


def _evaluate(job: ReferenceJob, loaded: LoadedModel) -> tuple[Arrays, Reference]:
    batched = batched_inputs(loaded.info, job.request.shapes)
    if job.request.keep_state:
        evaluate = _evaluator(job, loaded)
        return evaluate_calls(loaded, evaluate, batched, job.request, _samples(job))
    return _evaluate_rows_or_once(job, loaded, batched)


def _compared_inputs(arrays: Arrays, summary: Reference) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs of all ordinary rows, those of calls in a row together."""
    calls: dict[str, list[np.ndarray[Any, Any]]] = {}
    for key, values in arrays.items():
        if match := re.fullmatch(rf"in(?:@(?:{MORE} )?\d+)?/(.+)", key):
            batched = match[1] in summary.batched_inputs
            calls.setdefault(match[1], []).append(values[: summary.rows[-1]] if batched else values)
    return {
        name: np.concatenate([np.atleast_1d(values) for values in every])
        for name, every in calls.items()
    }


def _kept(arrays: Arrays, summary: Reference) -> Arrays:
    """Without the outputs for numbers of rows that extreme rows have shown to be of no use."""
    cases = {case_of(rows) for rows in summary.rows}
    return {
        name: values
        for name, values in arrays.items()
        if not (match := re.match(r"out/(\d+)/", name)) or match[1] in cases
    }


def _evaluate_rows_or_once(
    job: ReferenceJob, loaded: LoadedModel, batched: tuple[str, ...]
) -> tuple[Arrays, Reference]:
    request = job.request
    if batched:
        inputs, outputs, summary = _evaluate_rows(job, loaded, batched)
    else:
        inputs, outputs, summary = _evaluate_once(job, loaded)
    arrays = {input_key(name): values for name, values in inputs.items()}
    if request.lengths:
        shorter, summary = _evaluate_lengths(job, loaded, inputs, summary)
        arrays |= shorter
    for rows in summary.rows:
        arrays |= {output_key(case_of(rows), name): v for name, v in outputs[rows].items()}
    return arrays, summary


_Result = tuple[Arrays, Mapping[int, Arrays], Reference]
"""The inputs, the outputs by number of rows, and the summary."""


def _samples(job: ReferenceJob) -> Path | None:
    return job.inputs.model / job.request.samples if job.request.samples else None


def _evaluate_once(job: ReferenceJob, loaded: LoadedModel) -> _Result:
    request = job.request
    shapes = static_shapes(loaded.info, request.shapes, None)
    if samples := _samples(job):
        inputs = read_samples(samples, loaded.info, shapes, (), request.padded)
    else:
        inputs = draw_inputs(loaded.info, shapes, request.seed, request)
    evaluate = _evaluator(job, loaded)
    outputs = evaluate(inputs)
    _require_repeatable(evaluate, inputs, outputs)
    summary = Reference(
        independent=False,
        reason="no input has a free batch axis",
        leading_per_row=dict.fromkeys(outputs, 0),
        batched_inputs=(),
        rows=(1,),
        **described_inputs(request),
    )
    return inputs, {1: outputs}, summary


def _evaluate_rows(job: ReferenceJob, loaded: LoadedModel, batched: tuple[str, ...]) -> _Result:
    request, sizes = job.request, job.request.batch_sizes
    # Whether rows are independent shows only with two or more.
    shapes = static_shapes(loaded.info, request.shapes, max(*request.rows, *sizes, 2))
    rows, other = (
        Rows(arrays, frozenset(batched)) for arrays in _two_batches(job, loaded, shapes, batched)
    )
    evaluate = _evaluator(job, loaded)
    with closing(RowNoise(loaded, by_spread=True)) as noise:
        few, found = fitting_rows(loaded, rows), None
        if request.tables:
            few = min(few, max(MANY, *sizes, *default_rows(sizes)))
        if few < rows.count:
            if not request.tables:  # which are read by many rows
                rows = rows.take(np.arange(rows.count) % few)
            _require_repeatable(evaluate, rows.take(slice(few)).arrays)
            found = check_few_rows(evaluate, rows, other, few, request.rows, noise)
        if found is None:
            outputs = {size: evaluate(rows.take(slice(size)).arrays) for size in sizes}
            _require_repeatable(evaluate, rows.take(slice(sizes[-1])).arrays, outputs[sizes[-1]])
            found = outputs, check_rows(evaluate, rows, other, outputs, request.rows, noise)
    outputs, verdict = found
    summary = Reference(
        independent=verdict.reason is None,
        reason=verdict.reason,
        leading_per_row=verdict.leading_per_row,
        batched_inputs=batched,
        rows=sizes if verdict.reason else tuple(sorted(outputs)),
        **described_inputs(request),
    )
    return rows.arrays, outputs, summary


def _evaluate_lengths(
    job: ReferenceJob, loaded: LoadedModel, inputs: Arrays, summary: Reference
) -> tuple[dict[str, np.ndarray[Any, Any]], Reference]:
    """The outputs for shorter inputs, at every batch size, and the summary with what these showed."""
    request = job.request
    lengths = Lengths(_evaluator(job, loaded), request.padded, summary.leading_per_row)
    sizes = request.batch_sizes or (1,)
    extents = _test_lengths(loaded, lengths, inputs, summary, request)
    shorter = [n for n in tested_lengths(request.lengths) if n != request.lengths[-1]]
    arrays = {
        output_key(case_of(rows, length=n), name): values
        for n in shorter
        for rows in sizes
        for name, values in lengths.evaluate(_first_rows(inputs, summary, rows), n).items()
    }
    update = {"lengths": tuple(shorter), "length_rows": sizes, "extents": extents}
    return arrays, summary.model_copy(update=update)


def _test_lengths(
    loaded: LoadedModel,
    lengths: Lengths,
    arrays: Arrays,
    summary: Reference,
    request: ReferenceRequest,
) -> Mapping[str, Extents]:
    """See `Lengths.test`: where padding changes something in float32, float64 says whether that is its noise."""
    rows = (request.batch_sizes or (1,))[-1]
    inputs = _first_rows(arrays, summary, rows)
    try:
        return lengths.test(inputs, request.lengths, rows)
    except PaddedError as error:
        try:
            with closing(Exactly(loaded)) as evaluate:
                exact = Lengths(evaluate, request.padded, summary.leading_per_row)
                return exact.test(inputs, request.lengths, rows, exactly=True)
        except (NoTruthError, PaddedError):
            raise UnsupportedModelError(str(error)) from None


def _first_rows(arrays: Arrays, summary: Reference, rows: int) -> Arrays:
    batched = summary.batched_inputs
    return {name: a[:rows] if name in batched else a for name, a in arrays.items()}


def _two_batches(
    job: ReferenceJob,
    loaded: LoadedModel,
    shapes: Mapping[str, tuple[int, ...]],
    batched: tuple[str, ...],
) -> Iterator[Arrays]:
    """The inputs, and others of which every row differs."""
    request, path = job.request, _samples(job)
    if path is None:
        for seed in (request.seed, request.seed + 1):
            yield draw_inputs(loaded.info, shapes, seed, request)
        return
    orders = moved_inputs(loaded)
    samples = read_samples(path, loaded.info, shapes, batched, request.padded, orders)
    count = shapes[batched[0]][0]
    for first in (0, len(samples[batched[0]]) // 2):
        yield repeat_rows(samples, batched, count, first)


def _first_batch(job: ReferenceJob, loaded: LoadedModel, rows: int) -> Arrays:
    shapes = static_shapes(loaded.info, job.request.shapes, rows)
    batched = batched_inputs(loaded.info, job.request.shapes)
    return next(_two_batches(job, loaded, shapes, batched))


def _evaluator(job: ReferenceJob, loaded: LoadedModel) -> Evaluate:
    def evaluate(arrays: Arrays) -> Arrays:
        try:
            return loaded(arrays)
        except (tf.errors.OpError, ValueError) as error:
            if is_about_memory(str(error)):
                raise MemoryError(first_line(error)) from error
            sampled = bool(job.request.samples)
            by = framework_of(loaded)
            message = explain_failure(str(error), arrays, _inspected(job), sampled=sampled, by=by)
            raise UnsupportedModelError(message) from error

    return evaluate


def _inspected(job: ReferenceJob) -> SignatureInfo | None:
    """The signature with the valid values of its inputs, which the loaded one lacks."""
    request = job.request
    try:
        inspection = formats.inspect(job.inputs.model, request.reading)
    except UnsupportedModelError:
        return None
    signature = inspection.signature(request.signature)
    return signature if signature is None else rename(signature, request.names)


def _require_repeatable(evaluate: Evaluate, inputs: Arrays, before: Arrays | None = None) -> None:
    before = evaluate(inputs) if before is None else before
    for name, values in evaluate(inputs).items():
        difference = find_difference(values, before[name], before[name])
        if difference:
            raise UnsupportedModelError(
                f"output {name!r} differs between two evaluations of the same inputs ({difference}): "
                f"the model draws random numbers or keeps state, and cannot be verified; {RANDOM_FIX}",
                code="MW411",
            )


def _storable(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """NumPy has no bfloat16 (kind V): it is stored as float32, which holds every value exactly."""
    return values.astype(np.float32) if values.dtype.kind == "V" else values
