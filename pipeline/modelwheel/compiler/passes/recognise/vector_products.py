"""Products of a matrix and a vector, which XLA has kernels for, often with the bias.

    f:  dot = f32[8] dot(vector, matrix)
        ROOT sum = f32[8] add(dot, addend)              %3 f32[8] = dot %1 f32[3], %2 f32[3,8], %0 f32[8] {epilogue}

The matrix has another layout than in the products of larger batches, for which XLA has thunks (DotImplementationStrategy in
xla/service/cpu/dot_op_emitter.cc). As a node such a product is one for the runtime's kernels too, and all batch sizes can read
the same matrix.

When: of 32-bit and 64-bit floats; sums only of 32-bit ones, and if the vector is on the left. Bits: not those of XLA's kernel;
sums have another order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....dtypes import ElementType
from ....program.arrays import Slice
from ....program.ops import Dot, Epilogue
from ....program.view import View
from ...ir.graph import INSIDE, Node, Operand, Result, Value
from ...ir.hlo import DotNumbers, Instruction
from ...ir.match import behind_bitcasts, parameter_of, view_of
from ...ir.product_ops import dot_op
from .kernel_calls import KernelCall

_TYPES = (ElementType.FLOAT32, ElementType.FLOAT64)
"""The types for which the runtime has kernels with vectors of the CPU; for others XLA's kernel stays."""


def vector_product(call: KernelCall) -> Node | None:
    """The product of a matrix and a vector, with what is added to it, that a kernel computes; None if it does anything else."""
    dot, addend = _parts(call.instruction)
    axes = None if dot is None else plain_axes(dot)
    if dot is None or axes is None or len(call.arguments) != len(call.instruction.operands):
        return None
    is_fused = call.instruction.opcode == "fusion"
    numbers = [parameter_of(operand) for operand in dot.operands] if is_fused else [0, 1]
    inputs = {
        role: call.typed(number, operand.shape)
        for role, operand, number in zip(("lhs", "rhs"), dot.operands, numbers, strict=True)
        if number is not None
    }
    if len(inputs) != 2:
        return None
    product = call.replaced(dot_op(axes), inputs, view_of(dot.shape, call.place))
    if addend is not None:
        return _with_addend(product, call, addend)
    return product if call.is_apart else None


def _parts(instruction: Instruction) -> tuple[Instruction | None, int | None]:
    """The product in a kernel, and the number of the argument that it adds."""
    if instruction.opcode != "fusion":
        return instruction, None
    root = instruction.called_root
    if root.opcode != "add":
        return root, None
    left, right = (behind_bitcasts(operand) for operand in root.operands)
    for dot, addend in ((left, right), (right, left)):
        if dot.opcode == "dot" and addend.opcode == "parameter":
            return dot, addend.parameter_number
    return None, None


def plain_axes(dot: Instruction) -> DotNumbers | None:
    """The axes of a product without batches; None of anything else."""
    axes = dot.dot
    plain = dot.shape.element_type in _TYPES and dot.shape.rank <= 2
    return axes if axes is not None and plain and not axes.lhs_batch else None


def _with_addend(product: Node, call: KernelCall, number: int) -> Node | None:
    """A product with an epilogue; None if the vector is not on the left, or the sum replaces a part of what is added."""
    assert isinstance(product.op, Dot)
    lhs, result = product.inputs["lhs"].view, product.outputs["out"]
    (contracting,) = product.op.lhs_contracting
    addend, base = call.arguments[number], call.result.base
    part = addend.view.slice
    fits = (
        result.view.element_type == ElementType.FLOAT32
        and lhs.elements == lhs.shape[contracting]
        and part.size == call.place.size
        and not call.result.near
    )
    if not fits:
        return None
    product.op = product.op.model_copy(update={"epilogue": Epilogue()})
    if base is None:
        # Of a single row, what is added has a value for each column.
        columns = View.dense(part, ElementType.FLOAT32, (result.view.elements,))
        product.inputs["bias"] = Operand(addend.value, columns)
        product.outputs["accumulator"] = result
        return product
    if (base.value, base.offset, base.size) != (addend.value, part.offset, part.size):
        return None
    # As in the steps of a recurrent layer. The sums must not be written over what is added to them.
    product.inputs["addend"] = Operand(addend.value, _at(part, result.view))
    own = Slice(allocation=INSIDE, offset=0, size=part.size)
    product.outputs["accumulator"] = Result(Value(part.size), _at(own, result.view))
    return product


def _at(part: Slice, view: View) -> View:
    """A view of other bytes."""
    return view.model_copy(update={"slice": part})


@dataclass(frozen=True)
class ValuesProduct:
    """A product of a matrix and a vector, one of which a fusion computes first."""

    dot: Instruction
    values: int
    """The number of the operand that is computed first."""
    other: int
    """The number of the parameter that the other operand is."""


def product_of_values(fusion: Instruction) -> ValuesProduct | None:
    """The product that is the last operation of a fusion; None if there is none, or nothing is computed before it."""
    if fusion.opcode != "fusion":
        return None
    dot = behind_bitcasts(fusion.called_root)
    if plain_axes(dot) is None:
        return None
    left, right = map(parameter_of, dot.operands)
    if left is None and right is not None:
        return ValuesProduct(dot, 0, right)
    return ValuesProduct(dot, 1, left) if right is None and left is not None else None
