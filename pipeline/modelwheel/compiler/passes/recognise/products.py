"""Decodes matrix products: XLA's thunks for a library, and the kernels that it has for vectors.

XLA makes a product of a matrix and a vector a kernel of its own, often with the bias, whose matrix has another layout
than in the products of larger batches (DotImplementationStrategy in xla/service/cpu/dot_op_emitter.cc). As a thunk such a
product is one for the runtime's kernels too, and all batch sizes can read the same matrix.
"""

from __future__ import annotations

import math

from ....dtypes import ElementType
from ....program.arrays import Slice, overlap
from ...ir.emitted import thunks as p
from ...ir.emitted.memory import Memory
from ...ir.emitted.thunks import Array
from ...ir.hlo import DotNumbers, Instruction
from ...ir.match import array_of, behind_bitcasts, parameter_of

_TYPES = (ElementType.FLOAT32, ElementType.FLOAT64)
"""The types for which the runtime has kernels with vectors of the CPU; for others XLA's kernel stays."""


def product(axes: DotNumbers, lhs: Array, rhs: Array, out: Array) -> p.Dot:
    """The product of two arrays."""
    contracted = math.prod(lhs.shape[axis] for axis in axes.lhs_contracting)
    return p.Dot(
        operations=2 * out.elements * contracted,
        lhs=lhs,
        rhs=rhs,
        out=out,
        lhs_batch=axes.lhs_batch,
        rhs_batch=axes.rhs_batch,
        lhs_contracting=axes.lhs_contracting,
        rhs_contracting=axes.rhs_contracting,
    )


def vector_product(instruction: Instruction, kernel: p.Kernel, memory: Memory) -> p.Dot | None:
    """The product of a matrix and a vector that a kernel computes, with what it adds; None if it does anything else.

    Args:
        instruction: The instruction that XLA made the kernel of.
        kernel: Its call.
        memory: Has room for the product if the sum replaces what is added.
    """
    dot, addend = _parts(instruction)
    axes = None if dot is None else _plain_axes(dot)
    if dot is None or axes is None or len(kernel.results) != 1:
        return None
    operands = dot.operands
    fused = instruction.opcode == "fusion"
    numbers = [parameter_of(o) for o in operands] if fused else [0, 1]
    if len(kernel.arguments) != len(instruction.operands) or None in numbers:
        return None
    lhs, rhs = (
        array_of(operand.shape, kernel.arguments[number])
        for operand, number in zip(operands, numbers, strict=True)
        if number is not None
    )
    found = product(axes, lhs, rhs, array_of(dot.shape, kernel.results[0]))
    if addend is None:
        return found
    return _with_addend(found, kernel, kernel.arguments[addend], memory)


def product_of_values(
    instruction: Instruction, kernel: p.Kernel, values: Slice
) -> tuple[Instruction, p.Dot] | None:
    """A product of a matrix and a vector, one of which the kernel computes first.

    Args:
        instruction: The instruction that XLA made the kernel of.
        kernel: Its call.
        values: Where another step may write what the kernel computes first.

    Returns:
        The instruction of these values, and the product that reads them there; None if the kernel does anything else.
    """
    if instruction.opcode != "fusion" or len(kernel.results) != 1:
        return None
    dot = behind_bitcasts(instruction.called_root)
    axes = _plain_axes(dot)
    if axes is None or len(kernel.arguments) != len(instruction.operands):
        return None
    operands = dot.operands
    numbers = [parameter_of(operand) for operand in operands]
    if numbers.count(None) != 1:
        return None
    lhs, rhs = (
        array_of(operand.shape, values if number is None else kernel.arguments[number])
        for operand, number in zip(operands, numbers, strict=True)
    )
    out = array_of(dot.shape, kernel.results[0])
    found = product(axes, lhs, rhs, out)
    return operands[numbers.index(None)], found


def _parts(instruction: Instruction) -> tuple[Instruction | None, int | None]:
    """The product in a kernel, and the number of the argument that it adds."""
    if instruction.opcode != "fusion":
        return instruction, None
    root = instruction.called_root
    if root.opcode != "add":
        return root, None
    one, other = (behind_bitcasts(operand) for operand in root.operands)
    for dot, addend in ((one, other), (other, one)):
        if dot.opcode == "dot" and addend.opcode == "parameter":
            return dot, addend.parameter_number
    return None, None


def _plain_axes(dot: Instruction) -> DotNumbers | None:
    """The axes of a product without batches; None of anything else."""
    axes = dot.dot
    plain = dot.shape.element_type in _TYPES and dot.shape.rank <= 2
    return axes if axes is not None and plain and not axes.lhs_batch else None


def _with_addend(dot: p.Dot, kernel: p.Kernel, addend: Slice, memory: Memory) -> p.Dot | None:
    """A product with an epilogue; None if the vector is not on the left, or the sum replaces a part of what is added."""
    out = dot.out
    (contracting,) = dot.lhs_contracting
    replaces = addend == out.slice
    fitting = (
        out.element_type == ElementType.FLOAT32
        and dot.lhs.elements == dot.lhs.shape[contracting]
        and addend.size == out.slice.size
        and (replaces or not overlap(addend, out.slice))
    )
    if not fitting:
        return None
    # Of a single row, what is added has a value for each column.
    epilogue = p.Epilogue(result=out.slice, bias=addend)
    if replaces:  # as in the steps of a recurrent layer; the sums must not be written over what is added to them
        epilogue = p.Epilogue(result=out.slice, addend=addend)
        out = out.model_copy(update={"slice": memory.reserve(out.slice.size)})
    update = {"out": out, "epilogue": epilogue, "operations": kernel.operations}
    return dot.model_copy(update=update)
