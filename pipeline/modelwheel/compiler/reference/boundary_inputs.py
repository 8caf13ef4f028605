"""Rows at the boundaries of what the inputs of a signature may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from ...accuracy import MORE
from ...model.inspection import TensorInfo
from ...model.random_inputs import default_bounds
from ...workers.jobs import ReferenceRequest
from ...workers.table_reads import draw_input
from .rows import Arrays

Array = np.ndarray[Any, Any]

LARGE = "large"
"""Rows that are larger than those of the comparison: what they give is not compared, but rows beside them are."""

_FINITE = ("zeros", "denormals", "lowest", "highest")
_SPECIAL = {"infinity": np.inf, "nan": np.nan}


def boundary_inputs(
    arrays: Arrays, varied: Iterable[str], request: ReferenceRequest
) -> dict[str, Arrays]:
    """Inputs of each kind that differs from those before it, by its name.

    Args:
        arrays: All inputs; those of a kind have the same shapes and types.
        varied: The names of those that are replaced.
        request: Has the valid values.
    """
    names = sorted(varied)
    inputs = {f"{MORE} {n}": made for n, made in enumerate(_more(arrays, names, request), start=1)}
    for kind in (*_FINITE, LARGE, *_SPECIAL):
        made = {n: _make(kind, n, arrays[n], request) for n in names}
        if any(_same(made, other) for other in inputs.values()):
            continue
        inputs[kind] = {**arrays, **made}
    return inputs


def _more(arrays: Arrays, names: Iterable[str], request: ReferenceRequest) -> Iterator[Arrays]:
    """More ordinary inputs of the same shapes, which continue those that are given."""
    stacks = {}
    for name in names if request.more else ():
        like = arrays[name]
        tensor = TensorInfo(name=name, dtype=like.dtype.name, shape=like.shape)
        drawn = draw_input(tensor, (request.more + 1, *like.shape), request.seed, request)
        stacks[name] = drawn.view(like.dtype)
    for number in range(1, request.more + 1):
        yield {**arrays, **{name: stack[number] for name, stack in stacks.items()}}


def _same(made: Arrays, other: Arrays) -> bool:
    return all(values.tobytes() == other[name].tobytes() for name, values in made.items())


def _make(kind: str, name: str, like: Array, request: ReferenceRequest) -> Array:
    if like.dtype.kind == "c":
        made = np.empty_like(like)
        made.real = made.imag = _make(kind, name, like.real, request)
        return made
    low, high = _limits(name, like, request)
    if kind in ("lowest", "highest"):
        return np.asarray(low if kind == "lowest" else high)
    if not _is_floating(like):
        return np.clip(np.zeros_like(like), low, high)
    free = name not in request.ranges and name not in request.columns
    values = np.zeros_like(like)
    if kind == "denormals":
        values = _alternate(like, _finfo(like).smallest_normal / 2)
    elif kind == LARGE and free:
        # The square of it is finite in every type.
        return _alternate(like, min(2.0**16, 2.0 ** (_finfo(like).maxexp // 2 - 1)))
    elif kind in _SPECIAL and free and like.size:
        # Among zeros, so that infinities of both signs do not meet in every sum.
        rows = values.reshape(len(like) if like.ndim else 1, -1)
        rows[:, rows.shape[1] // 2] = _SPECIAL[kind]
        return values
    # NumPy clips bfloat16 as float32.
    return np.clip(values, low, high).astype(like.dtype)


def _limits(name: str, like: Array, request: ReferenceRequest) -> tuple[Array, Array]:
    """The lowest and the highest value of each element."""
    own = None if name in request.wide else request.ranges.get(name)
    low, end = own or default_bounds(like.dtype.name)
    lows, ends = np.full(like.shape, low), np.full(like.shape, end)
    for column in request.columns.get(name, ()):
        lows[..., column.first : column.end] = column.low
        ends[..., column.first : column.end] = column.high
    if like.dtype.kind in "iu":
        # float64 has no largest int64, only the number after it.
        most = np.iinfo(like.dtype).max
        inside = ends < most + 1.0
        last = (np.ceil(np.where(inside, ends, 0)) - 1).astype(like.dtype)
        return np.ceil(lows).astype(like.dtype), np.where(inside, last, most).astype(like.dtype)
    if like.dtype.kind == "b":
        return np.ceil(lows).astype(bool), np.ceil(ends) > 1
    low_values, high_values = lows.astype(like.dtype), ends.astype(like.dtype)
    up, down = np.asarray(np.inf, like.dtype), np.asarray(-np.inf, like.dtype)
    return (
        np.where(low_values < lows, np.nextafter(low_values, up), low_values),
        np.where(high_values >= ends, np.nextafter(high_values, down), high_values),
    )


def _alternate(like: Array, value: float) -> Array:
    """The value with both signs in turn."""
    signs = 1.0 - 2.0 * (np.arange(like.size) % 2)
    return np.asarray(signs.reshape(like.shape) * float(value)).astype(like.dtype)


def _is_floating(array: Array) -> bool:
    return array.dtype.kind in "fV"  # bfloat16 is of kind V


def _finfo(array: Array) -> Any:
    return ml_dtypes.finfo(array.dtype)  # type: ignore[no-untyped-call]
