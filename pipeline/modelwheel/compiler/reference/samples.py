"""Reads `verify.samples`: rows of real data, with which a model is compared instead of random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import UnsupportedModelError
from ...model.inspection import SignatureInfo, TensorInfo
from ...model.reference_result import MAX_CALLS
from ...util.arrays import read_arrays
from ...util.text import one_line
from ...workers.jobs import Padding
from ..loaded.rows_first import Orders

Array = np.ndarray[Any, Any]

_MIN_ROWS = 2
_MIN_CALLS = 2


def read_samples(
    path: Path,
    signature: SignatureInfo,
    shapes: Mapping[str, tuple[int, ...]],
    batched: Sequence[str],
    padded: Mapping[str, Padding],
    orders: Orders = MappingProxyType({}),
    field: str = "verify.samples",
) -> dict[str, Array]:
    """The arrays of a file, one for each input, whose rows are then on axis 0.

    In the file, inputs in `orders` have their axes as the model itself has them.

    Axes with buckets may be shorter than in `shapes`: they are filled up. Errors name the field of the spec.

    Raises:
        UnsupportedModelError: It is not such a file, or not one for this signature.
    """
    arrays = _load(path, field)
    try:
        _require_names(arrays, signature)
        samples = {
            t.name: _take(
                arrays[t.name],
                t,
                shapes[t.name],
                t.name in batched,
                padded.get(t.name),
                orders.get(t.name, ()),
            )
            for t in signature.inputs
        }
        _require_rows(samples, batched)
        if batched and len(samples[batched[0]]) < _MIN_ROWS:
            raise ValueError(
                "it has less than 2 rows, which do not show whether rows are independent"
            )
    except ValueError as error:
        raise _refuse(path, str(error), field) from None
    return samples


def read_calls(
    path: Path,
    signature: SignatureInfo,
    shapes: Mapping[str, tuple[int, ...]],
    batched: Sequence[str],
    orders: Orders = MappingProxyType({}),
) -> list[dict[str, Array]]:
    """The inputs of calls in a row: axis 0 of every array in the file are the calls, the others those of the model.

    Rows are repeated up to the number in `shapes`.

    Raises:
        UnsupportedModelError: It is not such a file, or not one for this signature.
    """
    arrays = _load(path)
    try:
        _require_names(arrays, signature)
        counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
        _require_equal(counts, "calls, which are axis 0")
        count = min(counts.values(), default=0)
        if not _MIN_CALLS <= count <= MAX_CALLS:
            raise ValueError(
                f"it has {count} calls in a row (axis 0 of every array), but {_MIN_CALLS} to "
                f"{MAX_CALLS} are needed for a model that keeps state"
            )
        calls = []
        for call in range(count):
            samples = {
                t.name: _take(
                    arrays[t.name][call],
                    t,
                    shapes[t.name],
                    t.name in batched,
                    None,
                    orders.get(t.name, ()),
                )
                for t in signature.inputs
            }
            _require_rows(samples, batched)
            rows = shapes[batched[0]][0] if batched else 0
            calls.append(repeat_rows(samples, batched, rows, 0))
    except ValueError as error:
        raise _refuse(path, str(error)) from None
    return calls


def _require_names(arrays: Mapping[str, Array], signature: SignatureInfo) -> None:
    names = [tensor.name for tensor in signature.inputs]
    for name in names:
        if name not in arrays:
            raise ValueError(f"it has no array for the input {name!r}")
    unknown = set(arrays) - set(names)
    if unknown:
        shown = ", ".join(map(repr, names))
        raise ValueError(f"{min(unknown)!r} is not an input of the signature (its inputs: {shown})")


def _require_rows(arrays: Mapping[str, Array], batched: Sequence[str]) -> None:
    _require_equal({name: len(arrays[name]) for name in batched}, "rows")
    if batched and not len(arrays[batched[0]]):
        raise ValueError("it has no rows")


def _require_equal(counts: Mapping[str, int], what: str) -> None:
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise ValueError(f"its arrays have different numbers of {what}: {shown}")


def repeat_rows(
    samples: Mapping[str, Array], batched: Sequence[str], count: int, first: int
) -> dict[str, Array]:
    """`count` rows from number `first` on, starting over after the last."""
    return {
        name: np.take(array, np.arange(first, first + count) % len(array), axis=0)
        if name in batched
        else array
        for name, array in samples.items()
    }


def _load(path: Path, field: str = "verify.samples") -> dict[str, Array]:
    if not path.is_file():
        raise _refuse(path, "it is not among the model's files", field)
    try:
        return read_arrays(path)
    except ValueError as error:
        raise _refuse(path, str(error), field) from None


def _take(
    array: Array,
    tensor: TensorInfo,
    shape: tuple[int, ...],
    batched: bool,
    padding: Padding | None,
    order: Sequence[int],
) -> Array:
    """One input in the order of axes in `shape`: the axes `order` of the array, or all as they are if that is empty."""
    name = repr(tensor.name)
    # NumPy has no bfloat16.
    stored = "float32" if tensor.dtype == "bfloat16" else tensor.dtype
    if array.dtype.name != stored:
        raise ValueError(
            f"input {name} has the type {array.dtype.name}, but the model takes {stored}"
        )
    extents = array.shape
    if order and array.ndim == len(shape):
        array = array.transpose(order)
    if array.ndim == len(shape) and padding is not None:
        array = fill_up(array, shape, padding)
    expected, actual = (shape[1:], array.shape[1:]) if batched else (shape, array.shape)
    if array.ndim != len(shape) or expected != actual:
        shown = ["rows", *map(str, shape[1:])] if batched else [*map(str, shape)]
        shown = [shown[list(order).index(a)] for a in range(len(shape))] if order else shown
        raise ValueError(
            f"input {name} has the shape {list(extents)}, but the model takes [{', '.join(shown)}]"
        )
    return array.astype(ml_dtypes.bfloat16) if tensor.dtype == "bfloat16" else array


def fill_up(array: Array, shape: Sequence[int], padding: Padding) -> Array:
    """An array whose padded axes have the extents in `shape`, unless they are longer."""
    wanted = [
        max(extent, shape[axis]) if axis in padding.axes else extent
        for axis, extent in enumerate(array.shape)
    ]
    filled = np.full(wanted, padding.value, array.dtype)
    filled[tuple(map(slice, array.shape))] = array
    return filled


def _refuse(path: Path, why: str, field: str = "verify.samples") -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{field}: {one_line(path.name)!r} cannot be used: {one_line(why)}; write it with "
        "numpy.savez(FILE, **inputs)",
        code="MW413",
    )
