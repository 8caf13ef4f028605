"""Which rows of a model's tables some inputs select, and the random inputs of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..accuracy import TableRead
from ..model.inspection import SignatureInfo, Table, TensorInfo
from ..model.random_inputs import random_input
from ..model.shapes import static_shapes
from .jobs import ReferenceRequest

Array = np.ndarray[Any, Any]


def draw_input(
    tensor: TensorInfo, shape: tuple[int, ...], seed: int, request: ReferenceRequest
) -> Array:
    """Random values for one input of a reference; see `random_input`."""
    name = tensor.name
    return random_input(
        seed,
        name,
        shape,
        tensor.dtype,
        request.ranges.get(name),
        [(mask.value, mask.axes) for mask in request.masks.get(name, ())],
        [(c.first, c.end, c.low, c.high, c.parts) for c in request.columns.get(name, ())],
        request.parts.get(name, 0),
        some=name in request.some,
    )


def expected_tables(signature: SignatureInfo, request: ReferenceRequest) -> tuple[TableRead, ...]:
    """How many rows of each table the random rows of a reference would select."""
    rows = max(request.rows) if request.rows else None
    shapes = static_shapes(signature, request.shapes, rows)
    names = {table.input for table in request.tables}
    calls = (request.more + 1,) if request.more else ()
    inputs = {
        tensor.name: draw_input(tensor, (*calls, *shapes[tensor.name]), request.seed, request)
        for tensor in signature.inputs
        if tensor.name in names
    }
    return tables_read(request.tables, inputs)


def tables_read(tables: Sequence[Table], inputs: Mapping[str, Array]) -> tuple[TableRead, ...]:
    """How many rows of each table some inputs select, each table once for each layer."""
    reads: dict[tuple[str, int], set[int] | None] = {}
    for table in tables:
        key, chosen = (table.layer, table.rows), _selected(table, inputs)
        before = reads.setdefault(key, chosen)
        if before is not None and chosen is not None:
            before |= chosen
    return tuple(
        TableRead(layer=layer, rows=rows, read=None if read is None else len(read))
        for (layer, rows), read in reads.items()
    )


def _selected(table: Table, inputs: Mapping[str, Array]) -> set[int] | None:
    values = inputs.get(table.input)
    if values is None or values.dtype.kind not in "fiu":
        return None
    if table.columns is not None:
        values = values[..., slice(*table.columns)]
    integer = values.dtype.kind in "iu"
    indices = values.astype(np.float64)
    for kind, one, other in table.steps:
        change = _CHANGES.get(kind)
        if change is None or (kind == "shift" and one != other):
            return None
        if kind == "scale" and not integer and abs(one) != 1:
            return None  # whether it was rounded before is not known
        indices = change(indices, one, other)
        indices = np.floor(indices) if integer else indices
    indices = np.trunc(indices[np.isfinite(indices)])
    inside = indices[(indices >= 0) & (indices < table.rows)]
    return set(np.unique(inside).astype(np.int64).tolist())


_CHANGES: Mapping[str, Callable[[Array, float, float], Array]] = {
    "shift": lambda x, one, _: x + one,
    "scale": lambda x, one, _: x * one,
    "flip": lambda x, one, _: one - x,
    "at_least": lambda x, one, _: np.maximum(x, one),
    "at_most": lambda x, one, _: np.minimum(x, one),
    "abs": lambda x, *_: np.abs(x),
    "round": lambda x, *_: np.rint(x),
    "floor": lambda x, *_: np.floor(x),
    "ceil": lambda x, *_: np.ceil(x),
    "modulo": lambda x, one, _: np.mod(x, one),
}
"""What steps do to values; see `Origin.steps` in `compiler/tensors/values.py`."""
