"""Decodes kernels that look up rows of a table: XLA's copy one element at a time, each with its own index arithmetic."""

from __future__ import annotations

from ....dtypes import ElementType
from ...ir.emitted import thunks as p
from ...ir.hlo import Instruction
from ...ir.match import behind_bitcasts, integer_of, row_major

# Shorter rows are copied as quickly element by element.
_MIN_ROW_BYTES = 16
_INDEX_TYPES = (ElementType.INT32, ElementType.INT64)


def lookup(instruction: Instruction, kernel: p.Kernel) -> p.Lookup | None:
    """The look-up of whole rows that a kernel computes; None if it does anything else.

    Args:
        instruction: The instruction that XLA made the kernel of.
        kernel: Its call.
    """
    if instruction.opcode != "fusion" or len(kernel.arguments) != 2 or len(kernel.results) != 1:
        return None
    gather = behind_bitcasts(instruction.called_root)
    if gather.opcode != "gather":
        return None
    table, positions = gather.operands
    found = _indices(positions)
    if table.opcode != "parameter" or not _takes_rows(gather, table, positions) or found is None:
        return None
    indices, wrap = found
    element = indices.shape.element_type
    if {table.parameter_number, indices.parameter_number} != {0, 1} or element is None:
        return None
    count, output = positions.shape.elements, kernel.results[0]
    rows, source = table.shape.dimensions[0], kernel.arguments[table.parameter_number]
    if not count or not rows or output.size // count < _MIN_ROW_BYTES:
        return None
    return p.Lookup(
        operations=kernel.operations,
        table=source,
        indices=kernel.arguments[indices.parameter_number],
        output=output,
        count=count,
        index_type=element,
        wrap=wrap,
        rows=rows,
        row_bytes=output.size // count,
    )


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
