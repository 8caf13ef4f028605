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
from ._model import Model, TensorSpec
from ._reference import (
    Expected,
    Sample,
    Tolerance,
    from_model,
    load_samples,
    load_state_tolerance,
    load_tolerances,
)


class Comparison(NamedTuple):
    """One output of one evaluation, or one variable after it, compared with TensorFlow's."""

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
    """Largest absolute difference."""
    relative: float
    """The same relative to the largest absolute value of the output."""
    limit: float
    """Largest absolute difference allowed."""
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


def _compare(model: Model, sample: Sample, rule: str | None) -> Iterator[Comparison]:
    if rule is not None:
        model.set_batch_rule(rule)
    if sample.call == 0:
        model.reset()
    tolerances = load_tolerances()
    result = model.predict(sample.inputs)
    results = {Model.outputs[0].name: result} if len(Model.outputs) == 1 else result
    for spec in Model.outputs:
        expected, tolerance = sample.outputs[spec.name], tolerances[spec.name]
        yield _judge(model, sample, spec, results[spec.name], expected, tolerance)
    state = model.state if sample.state else {}
    for spec in Model.states if sample.state else ():
        expected, tolerance = sample.state[spec.name], load_state_tolerance()
        compared = _judge(model, sample, spec, state[spec.name], expected, tolerance)
        yield compared._replace(state=True)


def _judge(
    model: Model,
    sample: Sample,
    spec: TensorSpec,
    values: NDArray[Any],
    expected: Expected,
    tolerance: Tolerance,
) -> Comparison:
    difference = _largest_difference(from_model(spec, values), expected)
    return Comparison(
        level=model.level,
        rows=sample.rows,
        rule=model.batch_rule(sample.rows),
        length=sample.length,
        call=sample.call,
        output=spec.name,
        absolute=difference,
        relative=difference / expected.largest if expected.largest else difference,
        limit=tolerance.absolute + tolerance.relative * expected.largest,
    )


def _largest_difference(actual: NDArray[Any], expected: Expected) -> float:
    """Infinite if shapes or types differ, or if only one of two values is finite or NaN."""
    if actual.shape != expected.shape or actual.dtype != expected.values.dtype:
        return float("inf")
    ours, theirs = actual.ravel()[expected.positions], expected.values
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        difference = np.abs(ours.astype(wide) - theirs.astype(wide))
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return _largest(np.where(same, 0.0, np.nan_to_num(difference, nan=np.inf)))


def _largest(values: NDArray[Any]) -> float:
    return float(values.max(initial=0))


def run(levels: Sequence[str] | None, reference: Path | None, as_json: bool) -> tuple[bool, str]:
    """Whether all comparisons passed, and the comparisons as a table or as JSON."""
    comparisons, skipped = compare_all(levels, reference)
    passed = bool(comparisons) and all(comparison.passed for comparison in comparisons)
    if not as_json:
        return passed, "\n".join([*_table(comparisons, skipped), "passed" if passed else "FAILED"])
    rows = [{**comparison._asdict(), "passed": comparison.passed} for comparison in comparisons]
    return passed, json.dumps({"passed": passed, "comparisons": rows, "skipped": skipped}, indent=1)


def _table(comparisons: Sequence[Comparison], skipped: Mapping[str, str]) -> Iterator[str]:
    head = ("level", "rows", "output", "max abs", "max rel", "allowed", "")
    lines = [head, *map(_cells, comparisons)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(map(str.ljust, line, widths)).rstrip()
    for level, reason in skipped.items():
        yield f"{level}  skipped: {reason}"


def _cells(item: Comparison) -> tuple[str, ...]:
    numbers = (f"{number:.2e}" for number in (item.absolute, item.relative, item.limit))
    length = "" if item.length is None else f" x {item.length}"
    place = "state after call" if item.state else "call"
    call = "" if item.call is None else f" ({place} {item.call + 1})"
    return (
        item.level,
        _shorten(item.rule) + length,
        item.output + call,
        *numbers,
        "" if item.passed else "FAILED",
    )


def _shorten(rule: str) -> str:
    """`19:1x3,16` for `19:1,1,1,16`."""
    rows, _, sizes = rule.partition(":")
    runs = [(size, len(list(run))) for size, run in groupby(sizes.split(","))]
    return f"{rows}:" + ",".join(size if n == 1 else f"{size}x{n}" for size, n in runs)
