"""The job `quantize`: which layers compute with narrower numbers, and what that changes on real rows.

All layers do that can. Where the outputs then change by more than the budget, the layers with the largest errors stay in float32, as few
as possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UnsupportedModelError
from ..model.quantization import QUANTIZATION, MeasuredLayer, Quantization
from ..model.shapes import batch_axes, batched_inputs, static_shapes
from ..spec.compute import Narrow
from ..workers.jobs import QuantizeJob, QuantizeRequest
from . import formats
from .formats.quantizing import DataRange, FloatLayer, bfloat16_error, weights_error
from .loaded.base import Arrays, LoadedModel
from .reference.samples import read_samples

Array = np.ndarray[Any, Any]

_ROWS = 4
"""Of each call, of a model with a batch: the data of all layers are in memory together."""
_ENOUGH = 16
"""With twice as many rows, those that decide the scales measure no errors."""
_NUMBERS: Mapping[Narrow, str] = {"int8": "8-bit integers", "bf16": "bfloat16 weights"}
"""In messages."""


def run(job: QuantizeJob) -> None:
    """Writes the layers, and what they change.

    Raises:
        UnsupportedModelError: The budget is exceeded however many layers stay in float32, or nothing can be measured.
    """
    request = job.request
    freezing = request.freezing
    where = (job.inputs.model, freezing.reading, freezing.signature, freezing.names)
    loaded = formats.load(*where)
    rows = _read_rows(job, loaded)
    opened = formats.open_quantizer(*where, [provider.name for provider in freezing.fusions])
    layers = [layer for layer in opened.layers(rows.shapes) if layer.gains_by(request.type)]
    if not layers:
        kinds = "product or convolution" if request.type == "int8" else "product"
        raise UnsupportedModelError(
            f"package.compute: the model has no {kinds} of float32 by large constants outside loops; remove it"
        )
    measured = _measure(request.type, opened, layers, rows)
    expected = rows.outputs(loaded)

    def change_with(left: int) -> tuple[Quantization, _Change]:
        worst = {layer.name for layer in sorted(measured, key=lambda one: -one.error)[:left]}
        chosen = tuple(layer for layer in measured if layer.name not in worst)
        change = _Change.between(expected, rows.outputs(opened.load(chosen)))
        found = Quantization(
            type=request.type,
            layers=chosen,
            left=tuple(layer.name for layer in layers if layer.name in worst),
            rows=rows.measured,
            errors=change.errors,
            changed_decisions=change.decisions,
        )
        return found, change

    _fewest_left(len(layers), request, change_with).save(job.out / QUANTIZATION)


def _fewest_left(
    count: int,
    request: QuantizeRequest,
    change_with: Callable[[int], tuple[Quantization, _Change]],
) -> Quantization:
    """The first choice within the budget, by bisection: more layers in float32 change less."""
    found, change = change_with(0)
    if change.is_within(request):
        return found
    within, largest = None, change
    first, last = 1, count - 1
    while first <= last:
        left = (first + last) // 2
        found, change = change_with(left)
        if change.is_within(request):
            within, last = found, left - 1
        else:
            first = left + 1
    if within is None:
        raise UnsupportedModelError(
            f"package.compute: with {_NUMBERS[request.type]} in {_layers(count)}, {largest}; even in one layer alone they change more "
            f"than the budget of {request.most_changed:g} and {request.most_error:g} allows; raise package.compute.budget, or "
            "remove package.compute"
        )
    return within


def _layers(count: int) -> str:
    return "the only layer" if count == 1 else f"all {count} layers"


def _measure(
    numbers: Narrow, opened: formats.OpenQuantizer, layers: Sequence[FloatLayer], rows: _Rows
) -> list[MeasuredLayer]:
    """The layers with what their numbers gain and lose: of bfloat16, that follows from the weights."""
    if numbers == "bf16":
        return [
            MeasuredLayer(
                name=layer.name,
                error=round(math.sqrt(bfloat16_error(layer)), 6),
                saved_bytes=2 * layer.weights.size,
            )
            for layer in layers
        ]
    ranges = {layer.name: DataRange() for layer in layers}
    observe = opened.observer(rows.shapes, layers)
    for call, _ in rows.deciding():
        for name, data in observe(call).items():
            ranges[name].add(data)
    return [_measure_integers(layer, ranges[layer.name]) for layer in layers]


def _measure_integers(layer: FloatLayer, data: DataRange) -> MeasuredLayer:
    scale, zero, error = data.choose()
    return MeasuredLayer(
        name=layer.name,
        scale=scale,
        zero=zero,
        error=round(math.sqrt(error + weights_error(layer)), 6),
        saved_bytes=3 * layer.weights.size - 4 * layer.weights.shape[layer.features],
    )


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """Rows of real data, and how many of them a call takes."""

    arrays: Arrays
    batched: frozenset[str]
    shapes: Mapping[str, tuple[int, ...]]
    """Of the inputs of a call."""
    count: int
    each: int
    decide: bool
    """Whether some of them decide anything."""

    @property
    def are_apart(self) -> bool:
        """Whether there are enough to measure with others than decide."""
        return self.decide and self.count >= 2 * _ENOUGH

    @property
    def measured(self) -> int:
        """How many rows measure."""
        return self.count // 2 if self.are_apart else self.count

    def deciding(self) -> Iterator[tuple[Arrays, int]]:
        """Calls with the rows that decide scales, every other one, and how many rows count in each."""
        return self._calls(range(0, self.count, 2 if self.are_apart else 1))

    def measuring(self) -> Iterator[tuple[Arrays, int]]:
        """Calls with the rows that measure errors."""
        return self._calls(range(1, self.count, 2) if self.are_apart else range(self.count))

    def _calls(self, rows: Sequence[int]) -> Iterator[tuple[Arrays, int]]:
        """All of one shape: rows that are missing are the last one again."""
        for first in range(0, len(rows), self.each):
            part = list(rows[first : first + self.each])
            padded = part + part[-1:] * (self.each - len(part))
            yield (
                {name: a[padded] if name in self.batched else a for name, a in self.arrays.items()},
                len(part),
            )

    def outputs(self, loaded: LoadedModel) -> dict[str, Array]:
        """The outputs for the rows that measure errors; axis 0 are the rows, or the calls of what has none."""
        results: dict[str, list[Array]] = {}
        for call, count in self.measuring():
            for name, output in loaded(call).items():
                has_rows = output.ndim and len(output) == self.each
                results.setdefault(name, []).append(output[:count] if has_rows else output[None])
        return {name: np.concatenate(parts) for name, parts in results.items()}


def _read_rows(job: QuantizeJob, loaded: LoadedModel) -> _Rows:
    """The rows of `package.compute.samples`; of a model without a batch, calls with one row each."""
    freezing = job.request.freezing
    axes = batch_axes(loaded.info, freezing.shapes)
    if any(axes.values()):
        raise UnsupportedModelError(
            "package.compute: rows are on another axis than the first one, and samples are rows; export the model with the "
            "batch first"
        )
    batched = batched_inputs(loaded.info, freezing.shapes)
    each = _ROWS if batched else 1
    shapes = static_shapes(loaded.info, freezing.shapes, each if batched else None)
    single = all(shape[:1] == (1,) for shape in shapes.values())
    rows = batched or (tuple(shapes) if single else ())
    path = job.inputs.model / job.request.samples
    arrays = read_samples(path, loaded.info, shapes, rows, {}, field="package.compute.samples")
    count = len(arrays[rows[0]]) if rows else 1
    decide = job.request.type == "int8"
    return _Rows(arrays, frozenset(rows), shapes, count, each, decide)


# --- what changes ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Change:
    """How outputs with narrower numbers differ from those in float32."""

    errors: Mapping[str, float]
    decisions: float

    @classmethod
    def between(cls, expected: Mapping[str, Array], found: Mapping[str, Array]) -> _Change:
        """The change of all outputs."""
        errors = {
            name: round(_error(values, found[name]), 6)
            for name, values in expected.items()
            if np.issubdtype(values.dtype, np.floating)
        }
        changed = [_changed(values, found[name]) for name, values in expected.items()]
        return cls(errors, round(max(changed, default=0.0), 6))

    def is_within(self, request: QuantizeRequest) -> bool:
        """Whether it is within the budget."""
        worst = max(self.errors.values(), default=0.0)
        return worst <= request.most_error and self.decisions <= request.most_changed

    def __str__(self) -> str:
        worst = max(self.errors, key=self.errors.__getitem__, default="")
        error = (
            f" and the output {worst!r} by {self.errors[worst]:.4f} of its range" if worst else ""
        )
        return f"{self.decisions:.4f} of the decisions change{error}"


def _error(expected: Array, found: Array) -> float:
    """The root mean square of the change, over the range; infinite if other values are finite."""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)):
        return math.inf
    if not finite.any():
        return 0.0
    before, after = (one[finite].astype(np.float64) for one in (expected, found))
    change = math.sqrt(float(np.mean(np.square(after - before))))
    span = float(before.max() - before.min()) or float(np.abs(before).max())
    return change / span if span else (math.inf if change else 0.0)


def _changed(expected: Array, found: Array) -> float:
    """The part of the decisions that are others: of a row's scores the largest, of a single one the side of the middle, of integers each value.

    Outputs with more axes for each row have no decisions that anybody knows.
    """
    if not np.issubdtype(expected.dtype, np.floating):
        return float(np.mean(expected != found))
    row = expected.shape[1:]
    if len(row) > 1:
        return 0.0
    if row and row[0] > 1:
        return float(np.mean(expected.argmax(-1) != found.argmax(-1)))
    middle = (float(np.nanmin(expected)) + float(np.nanmax(expected))) / 2
    return float(np.mean((expected > middle) != (found > middle)))
