"""Numbers of somebody else that a wheel is compared with: checked against its interface before it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..assembly.manifest import Manifest
from ..errors import VerifyError
from ..signature import Tensor
from ..util.arrays import read_arrays
from ..util.text import one_line
from ..util.words import first_few

if TYPE_CHECKING:
    import numpy as np

_MAX_BYTES = 8 << 30
"""Of a whole reference."""

_Arrays = Mapping[str, "np.ndarray[Any, Any]"]


def prepare_evaluation(path: Path, manifest: Manifest, directory: Path) -> Path:
    """A copy of an `.npz` file for the wheel's own test, in the byte order of this machine.

    Args:
        path: One evaluation, with arrays `in/NAME` and `out/NAME`, or a whole reference of a build.
        manifest: Of the wheel.
        directory: For the copy.

    Raises:
        VerifyError: The file is damaged, or its arrays are not those of the wheel's inputs and outputs.
    """
    import numpy as np

    try:
        arrays = read_arrays(path, _MAX_BYTES)
        if not _is_reference(arrays, manifest):
            _require_interface(arrays, manifest)
    except ValueError as error:
        raise VerifyError(
            f"--against {one_line(path.name)}: {one_line(error)}; write it with numpy.savez(FILE, **arrays), where "
            f"arrays has {', '.join(_keys(manifest))}"
        ) from None
    copy = directory / "against.npz"
    np.savez(copy, **arrays)  # type: ignore[arg-type]
    return copy


def _keys(manifest: Manifest) -> list[str]:
    signature = manifest.signature
    return [
        *(f"in/{one_line(tensor.name)}" for tensor in signature.inputs),
        *(f"out/{one_line(tensor.name)}" for tensor in signature.outputs),
    ]


def _is_reference(arrays: _Arrays, manifest: Manifest) -> bool:
    """Whether it has the outputs of all cases, as the file that a build keeps."""
    verification = manifest.verification
    calls = "" if verification.calls is None else "@0"
    return all(
        f"out/{rows}{calls}/{tensor.name}" in arrays
        for rows in verification.rows
        for tensor in manifest.signature.outputs
    )


def _require_interface(arrays: _Arrays, manifest: Manifest) -> None:
    signature = manifest.signature
    wanted = {f"in/{tensor.name}": tensor for tensor in signature.inputs}
    wanted |= {f"out/{tensor.name}": tensor for tensor in signature.outputs}
    for key in wanted:
        if key not in arrays:
            has = first_few(list(arrays)) if arrays else "none"
            raise ValueError(f"the file has no array {key!r}; its arrays are {has}")
    for key in arrays:
        if key not in wanted:
            raise ValueError(f"its array {key!r} is neither an input nor an output of the wheel")
    for key, tensor in wanted.items():
        _require_type(key, tensor, arrays[key])
    rows = set(_rows(signature.inputs, arrays))
    if len(rows) > 1:
        raise ValueError(f"its inputs have different numbers of rows: {sorted(rows)}")
    count = rows.pop() if rows else 1
    if not count:
        raise ValueError("it has no rows")
    for key, tensor in wanted.items():
        shape = tensor.shape_at(count, None)
        if arrays[key].shape != shape:
            raise ValueError(
                f"the array {key!r} has the shape {list(arrays[key].shape)}, but for {count} rows the wheel's is "
                f"{list(shape)}"
            )


def _require_type(key: str, tensor: Tensor, values: np.ndarray[Any, Any]) -> None:
    import numpy as np

    # NumPy has no bfloat16.
    stored = np.dtype("float32" if tensor.dtype == "bfloat16" else tensor.dtype)
    # Wider numbers are closer to the truth.
    wider = key.startswith("out/") and values.dtype.kind == stored.kind
    if values.dtype != stored and not (wider and values.dtype.itemsize > stored.itemsize):
        raise ValueError(
            f"the array {key!r} has the type {values.dtype.name}, but the wheel's is {stored.name}"
        )


def _rows(inputs: tuple[Tensor, ...], arrays: _Arrays) -> Iterator[int]:
    for tensor in inputs:
        axis, shape = tensor.batch_axis, arrays[f"in/{tensor.name}"].shape
        if axis is not None and axis < len(shape):
            yield shape[axis] // max(tensor.leading_per_row, 1)
