"""Decodes matrix products: XLA's thunks for a library, and the kernels that it has for vectors.

XLA makes a product of a matrix and a vector a kernel of its own, whose matrix has another layout than in the
products of larger batches (DotImplementationStrategy in xla/service/cpu/dot_op_emitter.cc). As a thunk such a
product is one for the runtime's kernels too, and all batch sizes can read the same matrix.
"""

from __future__ import annotations

from typing import Any

from ...dtypes import ElementType
from .. import program as p

_TYPES = (ElementType.FLOAT32, ElementType.FLOAT64)
"""Those for which the runtime has kernels with vectors of the CPU; for others XLA's kernel stays."""


def product(dims: Any, lhs: p.Array, rhs: p.Array, out: p.Array) -> p.Dot:
    """The product of two arrays; `dims` is an `xla.DotDimensionNumbers`."""
    contracted = 1
    for axis in dims.lhs_contracting_dimensions:
        contracted *= lhs.shape[axis]
    return p.Dot(
        operations=2 * out.elements * contracted,
        lhs=lhs,
        rhs=rhs,
        out=out,
        lhs_batch=tuple(dims.lhs_batch_dimensions),
        rhs_batch=tuple(dims.rhs_batch_dimensions),
        lhs_contracting=tuple(dims.lhs_contracting_dimensions),
        rhs_contracting=tuple(dims.rhs_contracting_dimensions),
    )


def is_product(instruction: Any, kernel: p.Kernel) -> bool:
    """Whether a kernel multiplies a matrix and a vector, or two vectors, that the runtime can multiply.

    Args:
        instruction: The `xla.HloInstructionProto` that XLA made the kernel of.
        kernel: Its call.
    """
    return (
        instruction.opcode == "dot"
        and instruction.shape.element_type in _TYPES
        and not instruction.dot_dimension_numbers.lhs_batch_dimensions
        and len(instruction.shape.dimensions) <= 2
        and len(kernel.arguments) == 2
    )
