"""Decodes kernels that multiply the features of images by factors, as squeeze and excite does.

XLA's kernels do that as quickly with one thread, but cannot be divided among several.
"""

from __future__ import annotations

import math

from ....dtypes import ElementType
from ...ir.emitted import thunks as p
from ...ir.hlo import Instruction
from ...ir.match import behind_bitcasts, parameter_of, row_major
from ..epilogues import Steps

# With fewer, no thread gets a part, or vectors would be nearly empty.
_MIN_ELEMENTS = 1 << 14
_MIN_FEATURES = 8


def decode_scalings(steps: Steps) -> None:
    """Replaces the kernels that are left when all others are part of the steps before them."""
    for step in steps.all:
        instruction = steps.hlo.instruction(step.instruction)
        if isinstance(step.thunk, p.Kernel) and instruction is not None:
            found = scaling_of(instruction, step.thunk)
            if found is not None:
                step.thunk = found.model_copy(update={"origin": step.thunk.origin})


def scaling_of(instruction: Instruction, kernel: p.Kernel) -> p.Scaling | None:
    """The multiplication by factors that a kernel computes; None if it does anything else.

    Args:
        instruction: The instruction that XLA made the kernel of.
        kernel: Its call.
    """
    if instruction.opcode != "fusion" or len(kernel.arguments) != 2 or len(kernel.results) != 1:
        return None
    root = behind_bitcasts(instruction.called_root)
    if root.opcode != "multiply" or not _is_plain(root):
        return None
    one, other = root.operands
    for values, repeated in ((one, other), (other, one)):
        sizes, source = _repeated(repeated), parameter_of(values)
        if sizes is not None and source is not None and row_major(values.shape):
            batch, rows, features = sizes
            return p.Scaling(
                operations=kernel.operations,
                input=kernel.arguments[source],
                factors=kernel.arguments[1 - source],
                output=kernel.results[0],
                batch=batch,
                rows=rows,
                features=features,
            )
    return None


def _is_plain(node: Instruction) -> bool:
    shape = node.shape
    return (
        shape.element_type == ElementType.FLOAT32
        and shape.rank > 1
        and row_major(shape)
        and shape.dimensions[-1] >= _MIN_FEATURES
        and shape.elements >= _MIN_ELEMENTS
    )


def _repeated(node: Instruction) -> tuple[int, int, int] | None:
    """Images, places of each and features, if a parameter has one factor for each feature: of each image, or of all."""
    if node.opcode != "broadcast":
        return None
    (factors,) = node.operands
    sizes = node.shape.dimensions
    last = len(sizes) - 1
    if parameter_of(factors) is None or not row_major(factors.shape):
        return None
    if node.dimensions == (last,):
        return 1, math.prod(sizes[:last]), sizes[last]
    if node.dimensions == (0, last):
        return sizes[0], math.prod(sizes[1:last]), sizes[last]
    return None
