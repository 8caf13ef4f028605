"""Reads `verify.samples`: rows of real data, with which a model is compared instead of random ones."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import UnsupportedModelError
from ...util.text import one_line
from ..inspection import SignatureInfo, TensorInfo

Array = np.ndarray[Any, Any]

MAX_BYTES = 1 << 30
"""Of all arrays in the file, unpacked."""
_MIN_ROWS = 2


def read_samples(
    path: Path,
    signature: SignatureInfo,
    shapes: Mapping[str, tuple[int, ...]],
    batched: Sequence[str],
) -> dict[str, Array]:
    """The arrays of a file, one for each input; axis 0 of batched inputs are the rows.

    Raises:
        UnsupportedModelError: It is not such a file, or not one for this signature.
    """
    arrays = _load(path)
    try:
        found = {
            t.name: _take(arrays, t, shapes[t.name], t.name in batched) for t in signature.inputs
        }
        unknown = set(arrays) - set(found)
        if unknown:
            names = ", ".join(repr(t.name) for t in signature.inputs)
            raise ValueError(
                f"{min(unknown)!r} is not an input of the signature (its inputs: {names})"
            )
        counts = {name: len(found[name]) for name in batched}
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
            raise ValueError(f"its arrays have different numbers of rows: {shown}")
        if counts and min(counts.values()) < _MIN_ROWS:
            raise ValueError(
                "it has less than 2 rows, which do not show whether rows are independent"
            )
    except ValueError as error:
        raise _refuse(path, str(error)) from None
    return found


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


def _load(path: Path) -> dict[str, Array]:
    if not path.is_file():
        raise _refuse(path, "it is not among the model's files")
    try:
        # Sizes first: a small file may unpack to many gigabytes.
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MAX_BYTES:
            raise _refuse(path, f"it unpacks to {size} bytes, above the limit of {MAX_BYTES}")
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        pickled = "allow_pickle" in str(error)
        why = "it holds Python objects" if pickled else "it is damaged or not an .npz file"
        raise _refuse(path, why) from None


def _take(
    arrays: Mapping[str, Array], tensor: TensorInfo, shape: tuple[int, ...], batched: bool
) -> Array:
    name = repr(tensor.name)
    if tensor.name not in arrays:
        raise ValueError(f"it has no array for the input {name}")
    array = arrays[tensor.name]
    # NumPy has no bfloat16.
    stored = "float32" if tensor.dtype == "bfloat16" else tensor.dtype
    if array.dtype.name != stored:
        raise ValueError(
            f"input {name} has the type {array.dtype.name}, but the model takes {stored}"
        )
    expected, given = (shape[1:], array.shape[1:]) if batched else (shape, array.shape)
    if array.ndim != len(shape) or expected != given:
        shown = ["rows", *map(str, shape[1:])] if batched else [*map(str, shape)]
        raise ValueError(
            f"input {name} has the shape {list(array.shape)}, but the model takes [{', '.join(shown)}]"
        )
    return array.astype(ml_dtypes.bfloat16) if tensor.dtype == "bfloat16" else array


def _refuse(path: Path, why: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"verify.samples: {one_line(path.name)!r} cannot be used: {one_line(why)}; write it with "
        "numpy.savez(FILE, **inputs)"
    )
