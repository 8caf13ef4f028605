"""The part of a reference that ships in the wheel: a sample of every output, and of inputs some rows at most.

Random inputs are generated again from the seed; see `modelwheel.model.random_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UnsupportedModelError
from ..model.reference_result import exact_key, input_key, noise_key, output_key, state_key
from ..signature import Tensor
from .manifest import Manifest

MAX_SAMPLES = 256
"""Elements stored of each output for each number of rows."""
MAX_TABLE_BYTES = 1 << 19
"""Stored of all outputs together for the largest number of rows, of a model with tables: each row selects others."""


MAX_INPUT_BYTES = 1 << 20
"""Rows of real data that a wheel carries: as many as this holds, but enough for one evaluation."""


def sample_indices(size: int, most: int = MAX_SAMPLES) -> np.ndarray[Any, Any]:
    """Indices of the elements to store of a flattened output with `size` elements: evenly spread, `most` at most."""
    count = min(size, most)
    # The wheel's `_reference.py` computes the same positions from the count: change both or neither.
    return np.arange(count, dtype=np.int64) * size // max(count, 1)


def write_sample(reference: Path, manifest: Manifest, path: Path) -> None:
    """Writes the sample of a whole reference, as an `.npz` file.

    For every output and variable in it (see `compiler.reference`), such as `out/CASE/NAME`, it holds `sample/out/CASE/NAME`,
    the values at `sample_indices`, `shape/out/CASE/NAME`, and `largest/out/CASE/NAME`, the largest absolute value; for
    outputs whose truth is known `exact/CASE/NAME`, what is to be added to the sample for it; `noise/CASE/NAME`, the error
    that rounding makes of each element of the sample; the inputs of boundary rows; with real data also the first rows of every input, or the inputs of the first calls.

    Raises:
        UnsupportedModelError: An output has another shape there than in the compiled code.
    """
    sample: dict[str, Any] = {}
    with np.load(reference) as arrays:
        if manifest.verification.sampled:
            calls = manifest.verification.calls
            sample |= (
                _first_rows(arrays, manifest)
                if calls is None
                else _first_calls(arrays, manifest, calls)
            )
        for case in manifest.verification.cases:
            most = _most(manifest, case)
            for output in manifest.signature.outputs:
                key = output_key(case, output.name)
                _require_shape(output, case, arrays[key].shape)
                sample |= _describe(arrays, key, most)
                sample |= _exact(arrays, exact_key(case, output.name), most)
                sample |= _noise(arrays, case, output.name, most)
        sample |= _boundary(arrays, manifest)
        for rows in manifest.verification.state_rows:
            for variable in manifest.signature.state:
                sample |= _describe(arrays, state_key(variable.name, rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **sample)


def _most(manifest: Manifest, case: str) -> int:
    """How many elements of each output of a case are stored."""
    verification = manifest.verification
    if not verification.truth.tables or case != str(verification.rows[-1]):
        return MAX_SAMPLES
    per_output = MAX_TABLE_BYTES // max(len(manifest.signature.outputs), 1) // 8
    # An odd number, so that rows of 10 elements are not all compared in their first one.
    return max(MAX_SAMPLES, per_output - 1 | 1)


def _require_shape(output: Tensor, case: str, shape: tuple[int, ...]) -> None:
    """XLA compiles one shape, also where values decide it, as that of a list that grows in a loop."""
    rows, _, length = case.partition("@")[0].partition("x")
    compiled = output.shape_at(int(rows), int(length) if length else None)
    if shape != output.rows_first(compiled):
        raise UnsupportedModelError(
            f"output {output.name!r} has the shape {list(shape)} for the inputs of the comparison, but "
            f"XLA compiles {list(compiled)}: its shape depends on values, and compiled shapes are fixed; "
            "export a signature that ends before it, or keep the largest shape and a mask",
            code="MW409",
        )


def _describe(arrays: Mapping[str, Any], key: str, most: int = MAX_SAMPLES) -> dict[str, Any]:
    values = arrays[key]
    # The scale of the tolerance, which the sample alone might miss.
    finite = values[np.isfinite(values)]
    return {
        f"shape/{key}": np.array(values.shape, np.int64),
        f"sample/{key}": values.ravel()[sample_indices(values.size, most)],
        f"largest/{key}": np.float64(np.abs(finite).max(initial=0)),
    }


def _exact(arrays: Mapping[str, Any], key: str, most: int = MAX_SAMPLES) -> dict[str, Any]:
    if key not in arrays:
        return {}
    values = arrays[key]
    return {key: values.ravel()[sample_indices(values.size, most)]}


def _noise(
    arrays: Mapping[str, Any], case: str, name: str, most: int = MAX_SAMPLES
) -> dict[str, Any]:
    key = noise_key(case, name)
    if key not in arrays:
        return {}
    values = np.broadcast_to(arrays[key], arrays[output_key(case, name)].shape)
    return {key: values.ravel()[sample_indices(values.size, most)]}


def _boundary(arrays: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    """Boundary rows with their inputs, which hold few different numbers and so are compressed to little."""
    fields: dict[str, Any] = {}
    for case in manifest.verification.boundary_cases:
        for output in manifest.signature.outputs:
            if (key := output_key(case, output.name)) in arrays:
                _require_shape(output, case, arrays[key].shape)
                fields |= _describe(arrays, key)
                fields |= _exact(arrays, exact_key(case, output.name))
                fields |= _noise(arrays, case, output.name)
    for kind in manifest.verification.boundary:
        keys = [input_key(tensor.name, kind) for tensor in manifest.signature.inputs]
        fields |= {key: arrays[key] for key in keys if key in arrays}
    return fields


def _first_calls(arrays: Mapping[str, Any], manifest: Manifest, calls: int) -> dict[str, Any]:
    """The inputs of as many calls as may be carried, but of one at least."""
    names = [tensor.name for tensor in manifest.signature.inputs]
    inputs: dict[str, Any] = {}
    for call in range(calls):
        values = {input_key(name, call): arrays[input_key(name, call)] for name in names}
        if call and sum(a.nbytes for a in (inputs | values).values()) > MAX_INPUT_BYTES:
            break
        inputs |= values
    return inputs


def _first_rows(arrays: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    inputs = {f"in/{t.name}": t.leading_per_row for t in manifest.signature.inputs}
    values = {name: arrays[name] for name in inputs}
    recorded = manifest.verification.rows
    for rows in reversed(recorded):
        first = {n: v[: inputs[n] * rows] if inputs[n] else v for n, v in values.items()}
        if rows == recorded[0] or sum(v.nbytes for v in first.values()) <= MAX_INPUT_BYTES:
            return first
    return values
