"""TensorFlow's results for random inputs, and how far the compiled model may differ from them.

The package stores a sample of each output. Inputs are generated from the seed in the manifest
(`_random_inputs.py`), unless the package has rows of real data. Rows are axis 0
of all arrays here, whatever the batch axis of the model is: see `to_call`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._errors import widen
from ._model import Model, TensorSpec
from ._random_inputs import random_input

Arrays = dict[str, NDArray[Any]]

_PACKAGE = Path(__file__).parent


_ROUNDINGS = 4
"""How many units in the last place of a 16-bit type are rounding, whatever was measured."""
_UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


class Expected(NamedTuple):
    """One output of TensorFlow: all of its elements or some of them."""

    shape: tuple[int, ...]
    positions: NDArray[np.int64]
    """Indices of the known elements in the flattened output, ascending."""
    values: NDArray[Any]
    largest: float
    """Largest absolute value of the whole output."""
    exact: NDArray[Any] | None = None
    """The values of the same model in float64, if they are known."""
    noise: NDArray[Any] | None = None
    """The error that rounding makes of each known element; infinite for what decides nothing."""

    def first(self, rows: int, total: int) -> Expected:
        """The part that belongs to the first `rows` of `total` rows."""
        shape = (self.shape[0] // total * rows, *self.shape[1:])
        known = int(np.searchsorted(self.positions, math.prod(shape)))
        exact = None if self.exact is None else self.exact[:known]
        noise = None if self.noise is None else self.noise[:known]
        positions, values = self.positions[:known], self.values[:known]
        return Expected(shape, positions, values, self.largest, exact, noise)


class Sample(NamedTuple):
    """One evaluation by TensorFlow."""

    rows: int
    inputs: Arrays
    outputs: dict[str, Expected]
    length: int | None = None
    """If it is not the largest of `Model.lengths`."""
    call: int | None = None
    """Of a model with state: how many samples come before this one in a row; 0 is the first call."""
    state: Mapping[str, Expected] = {}
    """What its variables then hold, by name, if it is the last call in a row."""
    circumstance: str | None = None
    """What is special about the rows, such as `zeros`, or about the way of calling."""

    @property
    def case(self) -> str:
        """The name of its arrays in a file: `16`, `4x20`, `1@3`."""
        return _case(self.rows, self.length, self.circumstance or self.call)

    @property
    def arguments(self) -> Arrays:
        """The inputs with the axes of the model, as calls take them."""
        return {spec.name: to_call(spec, self.inputs[spec.name]) for spec in Model.inputs}

    def first(self, rows: int) -> Sample:
        """The first rows alone; valid only if rows are independent."""
        inputs = {spec.name: _first(self.inputs[spec.name], spec, rows) for spec in Model.inputs}
        outputs = {
            spec.name: self.outputs[spec.name].first(rows, self.rows)
            for spec in Model.outputs
            if spec.leading_per_row
        }
        return Sample(rows, inputs, outputs)


class Tolerance(NamedTuple):
    """Allowed error of an output: `absolute + relative * largest value`, and what rounding makes."""

    absolute: float
    relative: float
    scale: float = 0.0
    """The largest absolute value that the output can have, if its last operation says it."""
    unit: float = 0.0
    """A unit in the last place at 1 of the 16-bit type that its values pass through."""

    def at(self, largest: float) -> float:
        """The allowed error, where this is the largest value."""
        # `modelwheel.accuracy.Truth.least_allowed` computes the same as the second and the third.
        return max(
            self.absolute + self.relative * largest,
            min(self.relative, 2.0**-23) * self.scale,
            _ROUNDINGS * self.unit * max(largest, self.scale),
        )


def load_manifest() -> dict[str, Any]:
    """The manifest: what the wheel was built from."""
    manifest: dict[str, Any] = json.loads((_PACKAGE / "_manifest.json").read_bytes())
    return manifest


def load_tolerances() -> dict[str, Tolerance]:
    """The tolerance of each output."""
    verification = load_manifest()["verification"]
    scales, narrow = (verification["truth"][name] for name in ("scales", "narrow"))
    return {
        name: Tolerance(
            value["atol"], value["rtol"], scales.get(name, 0.0), _UNITS.get(narrow.get(name), 0.0)
        )
        for name, value in verification["tolerances"].items()
    }


def load_state_tolerance() -> Tolerance:
    """The tolerance of every variable."""
    value = load_manifest()["verification"]["state_tolerance"]
    return Tolerance(value["atol"], value["rtol"])


def load_samples(path: Path | None = None) -> list[Sample]:
    """Reads samples: those of shorter lengths, then the others by ascending number of rows.

    Those of a model with state are in the order of calls.

    Args:
        path: An `.npz` file with whole inputs `in/NAME`, of which the first rows serve for fewer,
            and outputs `out/CASE/NAME`, of a model with state inputs `in@CALL/NAME` and `state/ROWS/NAME`; or one
            evaluation by anybody, with arrays `in/NAME` and `out/NAME`; by default the sample in this package,
            which has inputs only if they are not random, and then perhaps fewer rows.

    Raises:
        ValueError: An array of somebody's evaluation is missing or of another type.
    """
    verification = load_manifest()["verification"]
    recorded: list[int] = verification["rows"]
    cases = [(rows, n) for n in verification["lengths"] for rows in verification["length_rows"]]
    last = None if verification["calls"] is None else verification["calls"] - 1
    calls = [None] if last is None else range(last + 1)
    with np.load(path or _PACKAGE / "_reference.npz") as file:
        if any(f"out/{spec.name}" in file for spec in Model.outputs):
            return [_read_evaluation(file)]
        random = path is None and not verification["sampled"]
        inputs = [
            make_inputs(recorded[-1], call or 0) if random else _read_inputs(file, call)
            for call in calls
            if random or call is None or any(name.startswith(f"in@{call}/") for name in file)
        ]
        return [
            Sample(
                rows,
                {spec.name: _part(given[spec.name], spec, rows, length) for spec in Model.inputs},
                {
                    spec.name: _read(file, f"out/{_case(rows, length, call)}/{spec.name}")
                    for spec in Model.outputs
                },
                length,
                call,
                {
                    spec.name: _read(file, f"state/{rows}/{spec.name}")
                    for spec in Model.states
                    if call == last
                },
            )
            for rows, length in [*cases, *((rows, None) for rows in recorded)]
            for call, given in zip(
                calls, inputs, strict=False
            )  # a package may have the first calls only
            if _has_rows(given, rows)
        ]


def load_boundary(samples: Sequence[Sample], path: Path | None = None) -> list[Sample]:
    """Rows at the boundaries of what inputs may hold, in the order in which they were evaluated.

    Args:
        samples: Ordinary rows of the same file: their errors are allowed here too.
        path: See `load_samples`.

    Returns:
        Samples with the outputs that are defined; those of a model with state are calls in a row.
    """
    verification = load_manifest()["verification"]
    rows: int = verification["boundary_rows"]
    ordinary = next(s for s in samples if s.length is None and s.call in (None, 0))
    with np.load(path or _PACKAGE / "_reference.npz") as file:
        return [
            Sample(
                rows,
                {
                    spec.name: _to_model(spec, file[f"in@{kind}/{spec.name}"])
                    if f"in@{kind}/{spec.name}" in file
                    else ordinary.inputs[spec.name]
                    for spec in Model.inputs
                },
                {
                    spec.name: _allow(_read(file, key), spec, samples)
                    for spec in Model.outputs
                    for key in [f"out/{_case(rows, None, kind)}/{spec.name}"]
                    if key in file or f"sample/{key}" in file
                },
                circumstance=kind,
            )
            for kind in verification["boundary"]
            if any(f"in@{kind}/{spec.name}" in file for spec in Model.inputs)
        ]


def _allow(expected: Expected, spec: TensorSpec, samples: Sequence[Sample]) -> Expected:
    """With the scale and the noise of ordinary rows: a single one may be computed exactly by chance."""
    ordinary = [sample.outputs[spec.name] for sample in samples]
    largest = max(expected.largest, *(one.largest for one in ordinary))
    if spec.dtype.kind in "biu":
        return expected._replace(largest=largest)
    noises = [one.noise[np.isfinite(one.noise)] for one in ordinary if one.noise is not None]
    known = np.concatenate(noises) if noises else np.zeros(0)
    least = float(np.median(known)) if known.size else 0.0
    own = np.zeros(expected.positions.size) if expected.noise is None else expected.noise
    return expected._replace(largest=largest, noise=np.maximum(own, least))


def _read_evaluation(file: Mapping[str, NDArray[Any]]) -> Sample:
    """One evaluation by anybody: `in/NAME` and `out/NAME`."""
    given = {spec.name: _read_given(file, f"in/{spec.name}", spec) for spec in Model.inputs}
    given = {spec.name: _rows_first(spec, given[spec.name]) for spec in Model.inputs}
    counts = [len(given[s.name]) // s.leading_per_row for s in Model.inputs if s.leading_per_row]
    rows = counts[0] if counts else 1
    outputs = {}
    for spec in Model.outputs:
        values = _rows_first(spec, _read_given(file, f"out/{spec.name}", spec))
        finite = np.abs(values[np.isfinite(values)])
        # Wider numbers are closer to the truth.
        exact = widen(values).ravel()
        values = values if _is_bfloat16(spec) else values.astype(spec.dtype)
        outputs[spec.name] = Expected(
            values.shape,
            np.arange(values.size, dtype=np.int64),
            values.ravel(),
            float(finite.max(initial=0)),
            exact,
        )
    inputs = {spec.name: _to_model(spec, given[spec.name]) for spec in Model.inputs}
    return Sample(rows, inputs, outputs, None, 0 if Model.states else None)


def _read_given(file: Mapping[str, NDArray[Any]], key: str, spec: TensorSpec) -> NDArray[Any]:
    if key not in file:
        raise ValueError(
            f"the file has no array {key!r}; write it with numpy.savez(FILE, **arrays)"
        )
    values = file[key]
    dtype = np.dtype(np.float32) if _is_bfloat16(spec) else spec.dtype
    wider = key.startswith("out/") and values.dtype.kind == dtype.kind
    if values.dtype != dtype and not (wider and values.dtype.itemsize > dtype.itemsize):
        raise ValueError(f"array {key!r} has the type {values.dtype}, but the model's is {dtype}")
    return values


def _has_rows(inputs: Arrays, rows: int) -> bool:
    return all(
        len(inputs[s.name]) >= rows * s.leading_per_row for s in Model.inputs if s.leading_per_row
    )


def make_inputs(rows: int, call: int = 0) -> Arrays:
    """The inputs that TensorFlow's results are for."""
    return {spec.name: _random(spec, rows, call) for spec in Model.inputs}


def _read_inputs(file: Mapping[str, NDArray[Any]], call: int | None) -> Arrays:
    place = "in" if call is None else f"in@{call}"
    return {spec.name: _to_model(spec, file[f"{place}/{spec.name}"]) for spec in Model.inputs}


def _random(spec: TensorSpec, rows: int, call: int) -> NDArray[Any]:
    longest = max(Model.lengths, default=0)
    shape = tuple(
        rows if axis == spec.batch_axis else longest if extent is None else extent
        for axis, extent in _axes(spec)
    )
    verification, name = load_manifest()["verification"], spec.name
    columns = verification["columns"].get(name, [])
    return random_input(
        verification["seed"] + call,
        name,
        shape,
        "bfloat16" if _is_bfloat16(spec) else spec.dtype.name,
        verification["ranges"].get(name),
        [(mask["value"], mask["axes"]) for mask in verification["masks"].get(name, [])],
        [(c["first"], c["end"], c["low"], c["high"], c["parts"]) for c in columns],
        verification["parts"].get(name, 0),
        name in verification["some"],
    )


def _is_bfloat16(spec: TensorSpec) -> bool:
    """NumPy has no bfloat16: models use its bits as uint16, references its values as float32."""
    signature = load_manifest()["signature"]
    tensors = signature["inputs"] + signature["outputs"] + signature["state"]
    return any(t["name"] == spec.name and t["dtype"] == "bfloat16" for t in tensors)


def _to_model(spec: TensorSpec, values: NDArray[Any]) -> NDArray[Any]:
    """Converts values of a reference to the model's element type."""
    if not _is_bfloat16(spec):
        return values
    return np.asarray(values.astype(np.float32).view(np.uint32) >> np.uint32(16), np.uint16)


def from_model(spec: TensorSpec, array: NDArray[Any]) -> NDArray[Any]:
    """Converts an array of the model to the element type of a reference."""
    if not _is_bfloat16(spec):
        return array
    bits = np.asarray(array.astype(np.uint32) << np.uint32(16), np.uint32)
    return bits.view(np.float32)


def _case(rows: int, length: int | None, call: int | str | None) -> str:
    if call is not None:
        return f"{rows}@{call}"
    return str(rows) if length is None else f"{rows}x{length}"


def _read(file: Mapping[str, NDArray[Any]], key: str) -> Expected:
    if key in file:
        values = file[key]
        finite = np.abs(values[np.isfinite(values)])
        shape, largest = values.shape, float(finite.max(initial=0))
        positions = np.arange(values.size, dtype=np.int64)
    else:
        if f"shape/{key}" not in file:
            raise ValueError(
                f"the file has no array {key!r}; give arrays in/NAME and out/NAME for all inputs and outputs"
            )
        shape = tuple(int(extent) for extent in file[f"shape/{key}"])
        values, largest = file[f"sample/{key}"], float(file[f"largest/{key}"])
        positions = np.arange(values.size, dtype=np.int64) * math.prod(shape) // max(values.size, 1)
    values, known = values.ravel(), Expected(shape, positions, values.ravel(), largest)
    evaluation = key.removeprefix("out/")
    if f"noise/{evaluation}" in file:
        noise = file[f"noise/{evaluation}"]
        whole = np.broadcast_to(noise, shape).ravel() if key in file else noise
        known = known._replace(noise=whole.astype(np.float64))
    if f"exact/{evaluation}" not in file:
        return known
    return known._replace(exact=widen(values) + widen(file[f"exact/{evaluation}"].ravel()))


def _first(array: NDArray[Any], spec: TensorSpec, rows: int) -> NDArray[Any]:
    return array[: rows * spec.leading_per_row] if spec.leading_per_row else array


def _part(array: NDArray[Any], spec: TensorSpec, rows: int, length: int | None) -> NDArray[Any]:
    """The first rows, cut to a length."""
    return _first(cut(array, spec, length), spec, rows)


def cut(array: NDArray[Any], spec: TensorSpec, length: int | None) -> NDArray[Any]:
    """An input of the largest length cut to another one."""
    if length is None:
        return array
    follows = [extent is None and axis != spec.batch_axis for axis, extent in _axes(spec)]
    shorter = array[tuple(slice(length if follow else None) for follow in follows)]
    return np.array(shorter, order="C")


def _axes(spec: TensorSpec) -> list[tuple[int, int | None]]:
    """The axes with their extents, in the order of arrays here."""
    return sorted(enumerate(spec.shape), key=lambda axis: axis[0] != spec.batch_axis)


def _rows_first(spec: TensorSpec, array: NDArray[Any]) -> NDArray[Any]:
    return (
        np.ascontiguousarray(np.moveaxis(array, spec.batch_axis, 0)) if spec.batch_axis else array
    )


def to_call(spec: TensorSpec, array: NDArray[Any]) -> NDArray[Any]:
    """An array with the axes that the model has."""
    return (
        np.ascontiguousarray(np.moveaxis(array, 0, spec.batch_axis)) if spec.batch_axis else array
    )


def evaluate(model: Model, inputs: Arrays) -> Arrays:
    """The outputs by name, however many there are, with rows first as the inputs."""
    found = model.predict({s.name: to_call(s, inputs[s.name]) for s in Model.inputs})
    results = {Model.outputs[0].name: found} if len(Model.outputs) == 1 else found
    return {spec.name: _rows_first(spec, results[spec.name]) for spec in Model.outputs}
