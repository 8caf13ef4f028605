"""How many rows the framework evaluates at once: of large models, 64 rows would need more memory than machines have."""

from __future__ import annotations

from collections.abc import Collection

from ...errors import UnsupportedModelError
from ..freeze.frozen import freeze_graph
from ..loaded.base import Arrays, LoadedModel
from .rows import Evaluate, Explain, Rows, Verdict, check_rows
from .truth.largest import largest_value
from .truth.pieces import Pieces

_BYTES = 128 << 20
"""Of the largest value. Frameworks keep some ten of that size, and memory of those before."""
LEAST = 4
"""Rows that are always evaluated at once: whether they are independent shows with a few."""
_SMALL = 32 << 10
"""Bytes of a row of all inputs, up to which a model is not looked at: its values are not large."""


def fitting_rows(loaded: LoadedModel, rows: Rows) -> int:
    """How many of some rows are evaluated at once; all of them if that is not known."""
    count = rows.count
    small = sum(rows.arrays[name].nbytes for name in rows.batched) <= _SMALL * count
    if small or count <= LEAST:
        return count
    shapes = {name: values.shape for name, values in rows.take(slice(LEAST)).arrays.items()}
    try:
        largest = largest_value(freeze_graph(loaded.graph(shapes), shapes).graph_def)
    except UnsupportedModelError:
        return count
    return min(count, fitting(largest, LEAST))


def fitting(elements: int, rows: int) -> int:
    """How many rows fit.

    Args:
        elements: Of the largest value of a graph.
        rows: The number of rows that the graph is for.
    """
    return max(LEAST, _BYTES * rows // max(4 * elements, 1))


def check_few_rows(
    evaluate: Evaluate,
    rows: Rows,
    other: Rows,
    few: int,
    counts: Collection[int],
    explain: Explain,
) -> tuple[dict[int, Arrays], Verdict] | None:
    """As `check_rows` with all rows, but no more than a few at once.

    Args:
        evaluate: The model.
        rows: The rows.
        other: As many other rows.
        few: How many are evaluated at once.
        counts: The numbers of rows to evaluate.
        explain: Is asked about each change of values.

    Returns:
        The outputs by number of rows, and what the first rows showed; None if rows depend on each other: then only an
        evaluation of all of them says what they are.
    """
    sizes = [count for count in counts if count <= few]
    first, beside = rows.take(slice(few)), other.take(slice(few))
    outputs = {few: evaluate(first.arrays)}
    verdict = check_rows(evaluate, first, beside, outputs, sizes, explain)
    leading = verdict.leading_per_row
    if verdict.reason is not None:
        return None
    pieces = Pieces(few, rows.count, 0, rows.batched, leading)
    (whole,) = pieces.run(lambda calls: [evaluate(call) for call in calls], [rows.arrays])
    for count in counts:
        if count not in outputs:
            outputs[count] = {name: a[: count * leading[name]] for name, a in whole.items()}
    return {count: outputs[count] for count in counts}, verdict
