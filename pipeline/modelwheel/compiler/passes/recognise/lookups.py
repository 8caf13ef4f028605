"""Decodes kernels that look up rows of a table: XLA's copy one element at a time, each with its own index arithmetic.

Where a pooling alone reads these rows, as for the mean of the words of a sentence, it reads them in the table.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from ....dtypes import ELEMENT_TYPES, ElementType
from ....program.arrays import overlap
from ...ir import thunks as p
from ...ir.hlo import HloModule
from ..epilogues import Emitted, Steps

# Shorter rows are copied as quickly element by element.
_MIN_ROW_BYTES = 16
_INDEX_TYPES = (ElementType.INT32, ElementType.INT64)


def lookup(hlo: HloModule, instruction: Any, kernel: p.Kernel) -> p.Lookup | None:
    """The look-up of whole rows that a kernel computes; None if it does anything else.

    Args:
        hlo: The module.
        instruction: The `xla.HloInstructionProto` that XLA made the kernel of.
        kernel: Its call.
    """
    if instruction.opcode != "fusion" or len(kernel.arguments) != 2 or len(kernel.results) != 1:
        return None
    gather = hlo.behind_bitcasts(hlo.called_root(instruction))
    if gather.opcode != "gather":
        return None
    table, positions = hlo.operands(gather)
    found = _indices(hlo, positions)
    if table.opcode != "parameter" or not _takes_rows(gather, table, positions) or found is None:
        return None
    indices, wrap = found
    if {table.parameter_number, indices.parameter_number} != {0, 1}:
        return None
    count, output = math.prod(positions.shape.dimensions), kernel.results[0]
    rows, source = table.shape.dimensions[0], kernel.arguments[table.parameter_number]
    if not count or not rows or output.size // count < _MIN_ROW_BYTES:
        return None
    return p.Lookup(
        operations=kernel.operations,
        table=source,
        indices=kernel.arguments[indices.parameter_number],
        output=output,
        count=count,
        index_type=ELEMENT_TYPES[indices.shape.element_type],
        wrap=wrap,
        rows=rows,
        row_bytes=output.size // count,
    )


def join_bags(steps: Steps) -> None:
    """Makes one thunk of each look-up with the pooling that follows it, if nothing else reads the rows."""
    for found, reader in list(pairwise(steps.all)):
        bag = _bag(steps, found, reader)
        if bag is not None:
            reader.thunk = bag
            steps.all.remove(found)


def _bag(steps: Steps, found: Emitted, reader: Emitted) -> p.EmbeddingBag | None:
    rows, pool = found.thunk, reader.thunk
    pooling = steps.hlo.instruction(reader.instruction)
    if not isinstance(rows, p.Lookup) or not isinstance(pool, p.Pooling) or pooling is None:
        return None
    alone = (
        not found.is_kept
        and pool.input == rows.output
        and pool.in_step is None
        and pool.padding is None
        and pool.features * ElementType.FLOAT32.item_bytes == rows.row_bytes
        and pool.batch * math.prod(pool.in_size) == rows.count
        and not any(overlap(pool.output, part) for part in (rows.table, rows.indices))
        and steps.only_use(found, pooling) is not None
    )
    if not alone:
        return None
    return p.EmbeddingBag(
        operations=rows.operations + pool.operations,
        origin=rows.origin,
        lookup=rows,
        pooling=pool,
    )


def _takes_rows(gather: Any, table: Any, positions: Any) -> bool:
    """Whether each index selects one place of the table's first axis, and rows follow each other in the result.

    What the numbers of a gather mean: https://openxla.org/xla/operation_semantics#gather
    """
    numbers, extents = gather.gather_dimension_numbers, list(table.shape.dimensions)
    rank, axes = len(gather.shape.dimensions), list(positions.shape.dimensions)
    kept = len(extents) - len(numbers.collapsed_slice_dims)
    single = numbers.index_vector_dim == len(axes) or (
        numbers.index_vector_dim == len(axes) - 1 and axes[-1] == 1
    )
    return (
        single
        and list(numbers.start_index_map) == [0]
        and list(numbers.collapsed_slice_dims) in ([], [0])
        and not numbers.operand_batching_dims
        and not numbers.start_indices_batching_dims
        and list(numbers.offset_dims) == list(range(rank - kept, rank))
        and list(gather.gather_slice_sizes) == [1, *extents[1:]]
        and all(map(_is_in_order, (gather.shape, table.shape, positions.shape)))
    )


def _indices(hlo: HloModule, positions: Any) -> tuple[Any, int] | None:
    """The parameter that indices are computed from, and what is added to negative ones."""
    chosen = positions
    while chosen.opcode in ("bitcast", "copy", "reshape"):
        (source,) = hlo.operands(chosen)
        # A bitcast keeps the order in memory; the others keep the order of elements.
        if chosen.opcode != "bitcast" and not all(map(_is_in_order, (chosen.shape, source.shape))):
            return None
        chosen = source
    if chosen.shape.element_type not in _INDEX_TYPES:
        return None
    if chosen.opcode == "parameter":
        return chosen, 0
    if chosen.opcode != "select":
        return None
    negative, wrapped, plain = hlo.operands(chosen)
    if (negative.opcode, wrapped.opcode, plain.opcode) != ("compare", "add", "parameter"):
        return None
    (value, zero), (term, wrap) = hlo.operands(negative), hlo.operands(wrapped)
    added = _number(hlo, wrap)
    same = value.id == term.id == plain.id and all(map(_is_in_order, (chosen.shape, plain.shape)))
    if not same or negative.comparison_direction != "LT" or _number(hlo, zero) != 0:
        return None
    return None if added is None or added < 0 else (plain, added)


def _number(hlo: HloModule, instruction: Any) -> int | None:
    """The integer that all elements are."""
    if instruction.opcode == "broadcast":
        (instruction,) = hlo.operands(instruction)
    if instruction.opcode != "constant":
        return None
    values = [*instruction.literal.s32s, *instruction.literal.s64s]
    return int(values[0]) if len(values) == 1 else None


def _is_in_order(shape: Any) -> bool:
    """Whether elements follow each other in memory in the order of their indices, the last one fastest."""
    axes = [axis for axis in shape.layout.minor_to_major if shape.dimensions[axis] != 1]
    return axes == sorted(axes, reverse=True)
