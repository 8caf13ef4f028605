"""Which rows of a model's tables the random rows of a comparison select, and how many rows that takes.

A weight that no row of a comparison reads could be anything. Inputs that become indices are drawn so that
each index comes once before any comes twice (`parts`), and more rows are drawn where these are too few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..accuracy import TableRead
from .inspection import SignatureInfo, Table, TensorInfo
from .jobs import ReferenceRequest
from .random_inputs import random_input
from .shapes import static_shapes

MAX_TABLE_ROWS = 1024
"""Most rows that are drawn because of tables."""
MAX_TABLE_CALLS = 63
"""Most evaluations of a model of one shape that are added because of tables."""
MAX_TABLE_ELEMENTS = 1 << 22
"""Most elements that the inputs of these have together."""

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


def table_rows(signature: SignatureInfo, shapes: Mapping[str, Sequence[int | None]]) -> int:
    """How many rows read all rows of all tables, as far as that is within the limits; 0 without tables.

    Args:
        signature: Has the tables.
        shapes: Compiled shapes of all inputs, None standing for the batch.
    """
    batched = [name for name, shape in shapes.items() if None in shape]
    most = MAX_TABLE_ELEMENTS // max(sum(map(_elements, shapes.values())), 1)
    return min(_wanted(signature, shapes, batched), most, MAX_TABLE_ROWS)


def table_calls(signature: SignatureInfo, shapes: Mapping[str, Sequence[int | None]]) -> int:
    """How many more evaluations than one read all tables, as far as that is within the limits, without a batch."""
    return min(max(_wanted(signature, shapes, [*shapes]) - 1, 0), MAX_TABLE_CALLS)


def _wanted(
    signature: SignatureInfo, shapes: Mapping[str, Sequence[int | None]], varied: Sequence[str]
) -> int:
    masks = {t.name: bool(t.valid and t.valid.masks) for t in signature.inputs}
    wanted = 0
    for table in signature.tables:
        shape = shapes.get(table.input)
        if shape is None or table.input not in varied:
            continue
        width = (shape[-1] if shape else 1) or 1
        part = table.columns[1] - table.columns[0] if table.columns else width
        each = _elements(shape) // width * part
        # Masks replace some elements: up to two thirds of them.
        needed = table.rows * (3 if masks[table.input] else 1)
        wanted = max(wanted, math.ceil(needed / max(each, 1)))
    return wanted


def _elements(shape: Sequence[int | None]) -> int:
    return math.prod(extent for extent in shape if extent is not None)


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
    found: dict[tuple[str, int], set[int] | None] = {}
    for table in tables:
        key, chosen = (table.layer, table.rows), _selected(table, inputs)
        before = found.setdefault(key, chosen)
        if before is not None and chosen is not None:
            before |= chosen
    return tuple(
        TableRead(layer=layer, rows=rows, read=None if read is None else len(read))
        for (layer, rows), read in found.items()
    )


def _selected(table: Table, inputs: Mapping[str, Array]) -> set[int] | None:
    values = inputs.get(table.input)
    if values is None or values.dtype.kind not in "fiu":
        return None
    if table.columns is not None:
        values = values[..., slice(*table.columns)]
    integer = values.dtype.kind in "iu"
    found = values.astype(np.float64)
    for kind, one, other in table.steps:
        change = _CHANGES.get(kind)
        if change is None or (kind == "shift" and one != other):
            return None
        if kind == "scale" and not integer and abs(one) != 1:
            return None  # whether it was rounded before is not known
        found = change(found, one, other)
        found = np.floor(found) if integer else found
    found = np.trunc(found[np.isfinite(found)])
    inside = found[(found >= 0) & (found < table.rows)]
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
"""What steps do to values; see `Origin.steps` in `worker/values.py`."""


def unread(tables: Sequence[TableRead]) -> Iterator[TableRead]:
    """Those of which not all is read, or that is not known."""
    return (table for table in tables if table.read != table.rows)
