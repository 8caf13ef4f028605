"""Compares the installed model with TensorFlow on all CPU levels, for batch sizes and numbers of rows between them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._core import library
from ._errors import Measured, difference, measure, widen
from ._model import Model, TensorSpec
from ._reference import (
    Arrays,
    Expected,
    Sample,
    Tolerance,
    evaluate,
    from_model,
    load_boundary,
    load_manifest,
    load_samples,
    load_state_tolerance,
    load_tolerances,
)
from ._ways import beside_extremes, other_orders


class Comparison(NamedTuple):
    """One output of one evaluation, or one variable after it, compared with the truth, or with TensorFlow's where
    the truth is not known."""

    level: str
    rows: int
    rule: str
    """Rows, and the batch sizes that they were split into."""
    length: int | None
    """Of the inputs, if it is not the largest of `Model.lengths`."""
    call: int | None
    """How many calls of a model with state came before."""
    output: str
    absolute: float
    relative: float
    ulp: float | None
    changed: int | None
    """See `Measured`; None if not all of the output is known."""
    limit: float
    """Largest absolute error allowed."""
    exact: bool
    """Whether the truth is known: the same model in float64."""
    circumstance: str | None
    """What is special about the rows, such as `zeros`, or about the way of calling."""
    state: bool = False
    """Whether `output` is a variable after the last call in a row."""

    @property
    def passed(self) -> bool:
        return self.absolute <= self.limit


def compare_all(
    levels: Sequence[str] | None = None, reference: Path | None = None
) -> tuple[list[Comparison], dict[str, str]]:
    """Runs every case on every level.

    Args:
        levels: CPU levels; by default all.
        reference: See `load_samples`.

    Returns:
        The comparisons, and the reason for each level that this CPU cannot run.
    """
    samples = load_samples(reference)
    boundary = load_boundary(samples, reference)
    comparisons: list[Comparison] = []
    skipped: dict[str, str] = {}
    for level in levels or Model.levels:
        try:
            model = Model(level)
        except ValueError as error:
            skipped[level] = str(error)
            continue
        for sample, rule in _cases(samples):
            comparisons += _compare(model, sample, rule)
        for one, sample in other_orders(model, samples):
            comparisons += _compare(one, sample)
        model.reset()
        for sample in boundary:
            comparisons += _compare(model, sample)
        for sample, results in beside_extremes(model, samples, boundary):
            comparisons += _judge_all(model, sample, results)
    return comparisons, skipped


def _cases(samples: Sequence[Sample]) -> Iterator[tuple[Sample, str | None]]:
    """Samples to run, each with a batch rule or with None for the model's own."""
    for sample in samples:
        yield sample, None
    if not library.batched or library.no_emulation_reason is not None:
        return
    largest = samples[-1]
    known = {sample.rows for sample in samples if sample.length is None}
    near = {size + step for size in Model.batch_sizes for step in (-1, 0, 1)}
    for rows in sorted(near - known):
        if 0 < rows < largest.rows:
            yield largest.first(rows), None
    for size in Model.batch_sizes:
        repeats = -(-largest.rows // size)
        yield largest, f"{largest.rows}:" + ",".join([str(size)] * repeats)


def _compare(model: Model, sample: Sample, rule: str | None = None) -> Iterator[Comparison]:
    if rule is not None:
        model.set_batch_rule(rule)
    if sample.call == 0:
        model.reset()
    yield from _judge_all(model, sample, evaluate(model, sample.inputs))
    state = model.state if sample.state else {}
    for spec in Model.states if sample.state else ():
        expected, tolerance = sample.state[spec.name], load_state_tolerance()
        compared = _judge(model, sample, spec, state[spec.name], expected, tolerance)
        yield compared._replace(state=True)


def _judge_all(model: Model, sample: Sample, results: Arrays) -> Iterator[Comparison]:
    tolerances = load_tolerances()
    for spec in Model.outputs:
        if spec.name in sample.outputs:
            expected, tolerance = sample.outputs[spec.name], tolerances[spec.name]
            yield _judge(model, sample, spec, results[spec.name], expected, tolerance)


def _judge(
    model: Model,
    sample: Sample,
    spec: TensorSpec,
    values: NDArray[Any],
    expected: Expected,
    tolerance: Tolerance,
) -> Comparison:
    found, limit = _measure(from_model(spec, values), expected, tolerance)
    return Comparison(
        level=model.level,
        rows=sample.rows,
        rule=model.batch_rule(sample.rows),
        length=sample.length,
        call=sample.call,
        output=spec.name,
        **found._asdict(),
        limit=limit,
        exact=expected.exact is not None,
        circumstance=sample.circumstance,
    )


def _measure(
    actual: NDArray[Any], expected: Expected, tolerance: Tolerance
) -> tuple[Measured, float]:
    """The errors and the largest that is allowed; of the element that is closest to its limit, or exceeds it most.

    Infinite if shapes or types differ.
    """
    limit = tolerance.at(expected.largest)
    if actual.shape != expected.shape or actual.dtype != expected.values.dtype:
        return Measured(float("inf"), float("inf"), None, None), limit
    ours, theirs = actual.ravel()[expected.positions], expected.values
    truth = theirs if expected.exact is None else expected.exact
    if expected.exact is not None and actual.dtype.kind in "biu":
        # A value on a boundary: both decisions are right.
        truth = np.where(ours == theirs, widen(theirs), truth)
    if expected.noise is not None:
        # What decides nothing is not compared.
        truth = np.where(np.isfinite(expected.noise), truth, ours)
    if ours.size == actual.size:
        ours, truth = ours.reshape(actual.shape), truth.reshape(actual.shape)
    found = measure(ours, truth)
    if expected.noise is not None and ours.size:
        limits = np.maximum(limit, load_manifest()["verification"]["error_factor"] * expected.noise)
        errors = difference(ours, truth).ravel()
        worst = int(np.argmax(errors - limits))
        # The element that fails, if one does, although another may have a larger error that it is allowed.
        closest = errors[worst] if errors[worst] > limits[worst] else found.absolute
        limit = float(limits[worst if errors[worst] > limits[worst] else int(np.argmax(errors))])
        found = found._replace(absolute=float(closest))
    relative = found.absolute / expected.largest if expected.largest else found.absolute
    return found._replace(relative=relative), limit


def run(levels: Sequence[str] | None, reference: Path | None, as_json: bool) -> tuple[bool, str]:
    """Whether all comparisons passed, and the comparisons as a table or as JSON."""
    comparisons, skipped = compare_all(levels, reference)
    passed = bool(comparisons) and all(comparison.passed for comparison in comparisons)
    if not as_json:
        lines = (*_table(comparisons, skipped), *_tables(), "passed" if passed else "FAILED")
        return passed, "\n".join(lines)
    rows = [{**comparison._asdict(), "passed": comparison.passed} for comparison in comparisons]
    truth = load_manifest()["verification"]["truth"]
    report = {"passed": passed, "comparisons": rows, "skipped": skipped, "truth": truth}
    return passed, json.dumps(report, indent=1)


def _table(comparisons: Sequence[Comparison], skipped: Mapping[str, str]) -> Iterator[str]:
    head = ("level", "rows", "output", "max abs", "max rel", "ulp", "changed", "allowed", "")
    lines = [head, *map(_cells, comparisons)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(map(str.ljust, line, widths)).rstrip()
    for level, reason in skipped.items():
        yield f"{level}  skipped: {reason}"


def _tables() -> Iterator[str]:
    """How much of each table of the model the rows above select."""
    for table in load_manifest()["verification"]["truth"]["tables"]:
        read = "an unknown number" if table["read"] is None else table["read"]
        yield f"{read} of {table['rows']} rows of the table of {table['layer']!r} selected"


def _cells(item: Comparison) -> tuple[str, ...]:
    ulp = "" if item.ulp is None else f"{item.ulp:.3g}"
    changed = "" if item.changed is None else str(item.changed)
    length = "" if item.length is None else f" x {item.length}"
    special = "" if item.circumstance is None else f" {item.circumstance}"
    place = "state after call" if item.state else "call"
    call = "" if item.call is None else f" ({place} {item.call + 1})"
    return (
        item.level,
        _shorten(item.rule) + length + special,
        item.output + call,
        f"{item.absolute:.2e}",
        f"{item.relative:.2e}",
        ulp,
        changed,
        f"{item.limit:.2e}",
        "" if item.passed else "FAILED",
    )


def _shorten(rule: str) -> str:
    """`19:1x3,16` for `19:1,1,1,16`."""
    rows, _, sizes = rule.partition(":")
    runs = [(size, len(list(run))) for size, run in groupby(sizes.split(","))]
    return f"{rows}:" + ",".join(size if n == 1 else f"{size}x{n}" for size, n in runs)
