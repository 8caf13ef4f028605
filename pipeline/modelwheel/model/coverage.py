"""How many rows of a comparison read all rows of a model's tables.

A weight that no row of a comparison reads could be anything. Inputs that become indices are drawn so that
each index comes once before any comes twice (`parts`), and more rows are drawn where these are too few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..accuracy import TableRead
from .inspection import SignatureInfo

MAX_TABLE_ROWS = 1024
"""Most rows that are drawn because of tables."""
MAX_TABLE_CALLS = 63
"""Most evaluations of a model of one shape that are added because of tables."""
MAX_TABLE_ELEMENTS = 1 << 22
"""Most elements that the inputs of these have together."""


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
        per_call = _elements(shape) // width * part
        # Masks replace some elements: up to two thirds of them.
        needed = table.rows * (3 if masks[table.input] else 1)
        wanted = max(wanted, math.ceil(needed / max(per_call, 1)))
    return wanted


def _elements(shape: Sequence[int | None]) -> int:
    return math.prod(extent for extent in shape if extent is not None)


def unread(tables: Sequence[TableRead]) -> Iterator[TableRead]:
    """The tables of which some rows are not read, or of which that is not known."""
    return (table for table in tables if table.read != table.rows)
