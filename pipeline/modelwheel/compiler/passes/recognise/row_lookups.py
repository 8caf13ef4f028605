"""Kernels that look up rows of a table: XLA's copy one element at a time, each with its own index arithmetic.

    f:  negative = pred[6] compare(indices, 0), direction=LT
        wrapped = s32[6] add(indices, 7)
        chosen = s32[6] select(negative, wrapped, indices)
        ROOT rows = f32[6,5] gather(table, chosen)         =>    %2 u8[6,20] = lookup %0 u8[7,20], %1 s32[6] {wrap=7}

When: rows follow each other in the table and in the result, and have at least `_MIN_ROW_BYTES`. Bits: the same.
"""

from __future__ import annotations

from ....dtypes import ElementType
from ....program.ops import Lookup
from ....program.view import View
from ...ir.graph import Node
from ...ir.hlo import Instruction
from ...ir.match import behind_bitcasts, integer_of, row_major
from .kernel_calls import KernelCall

_MIN_ROW_BYTES = 16
"""Shorter rows are copied as quickly element by element."""
_INDEX_TYPES = (ElementType.INT32, ElementType.INT64)


def row_lookup(call: KernelCall) -> Node | None:
    """The look-up of whole rows that a kernel computes; None if it does anything else."""
    if call.instruction.opcode != "fusion" or len(call.arguments) != 2 or not call.is_apart:
        return None
    gather = behind_bitcasts(call.instruction.called_root)
    if gather.opcode != "gather":
        return None
    table, positions = gather.operands
    match = _indices(positions)
    if table.opcode != "parameter" or not _takes_rows(gather, table, positions) or match is None:
        return None
    indices, wrap = match
    element = indices.shape.element_type
    if {table.parameter_number, indices.parameter_number} != {0, 1} or element is None:
        return None
    count, rows = positions.shape.elements, table.shape.dimensions[0]
    if not count or not rows or call.place.size // count < _MIN_ROW_BYTES:
        return None
    row_bytes = call.place.size // count
    inputs = {
        "table": call.dense(table.parameter_number, ElementType.UINT8, (rows, row_bytes)),
        "indices": call.dense(indices.parameter_number, element, (count,)),
    }
    output = View.dense(call.place, ElementType.UINT8, (count, row_bytes))
    return call.replaced(Lookup(wrap=wrap), inputs, output)


def _takes_rows(gather: Instruction, table: Instruction, positions: Instruction) -> bool:
    """Whether each index selects one place of the table's first axis, and rows follow each other in the result.

    What the numbers of a gather mean: https://openxla.org/xla/operation_semantics#gather
    """
    numbers, extents = gather.gather, table.shape.dimensions
    assert numbers is not None, "a gather has them"
    rank, axes = gather.shape.rank, positions.shape.dimensions
    kept = len(extents) - len(numbers.collapsed_slice_dims)
    single = numbers.index_vector_dim == len(axes) or (
        numbers.index_vector_dim == len(axes) - 1 and axes[-1] == 1
    )
    return (
        single
        and numbers.start_index_map == (0,)
        and numbers.collapsed_slice_dims in ((), (0,))
        and not numbers.operand_batching_dims
        and not numbers.start_indices_batching_dims
        and numbers.offset_dims == tuple(range(rank - kept, rank))
        and gather.slice_sizes == (1, *extents[1:])
        and row_major(gather.shape, table.shape, positions.shape, ignoring_unit_axes=True)
    )


def _indices(positions: Instruction) -> tuple[Instruction, int] | None:
    """The parameter that indices are computed from, and what is added to negative ones."""
    chosen = positions
    while chosen.opcode in ("bitcast", "copy", "reshape"):
        (source,) = chosen.operands
        # A bitcast keeps the order in memory; the others keep the order of elements.
        if chosen.opcode != "bitcast" and not row_major(
            chosen.shape, source.shape, ignoring_unit_axes=True
        ):
            return None
        chosen = source
    if chosen.shape.element_type not in _INDEX_TYPES:
        return None
    if chosen.opcode == "parameter":
        return chosen, 0
    if chosen.opcode != "select":
        return None
    negative, wrapped, plain = chosen.operands
    if (negative.opcode, wrapped.opcode, plain.opcode) != ("compare", "add", "parameter"):
        return None
    (value, zero), (term, wrap) = negative.operands, wrapped.operands
    added = integer_of(wrap)
    same = value is term is plain and row_major(chosen.shape, plain.shape, ignoring_unit_axes=True)
    if not same or negative.direction != "LT" or integer_of(zero) != 0:
        return None
    return None if added is None or added < 0 else (plain, added)
