"""Decodes kernels that multiply the features of images by factors, as squeeze and excite does.

XLA's kernels do that as quickly with one thread, but cannot be divided among several.
"""

from __future__ import annotations

import math
from typing import Any

from ....dtypes import ElementType
from ...ir import thunks as p
from ...ir.hlo import HloModule
from ..epilogues import Steps
from .pooling import is_in_order

# With fewer, no thread gets a part, or vectors would be nearly empty.
_MIN_ELEMENTS = 1 << 14
_MIN_FEATURES = 8


def decode_scalings(steps: Steps) -> None:
    """Replaces the kernels that are left when all others are part of the steps before them."""
    for step in steps.all:
        instruction = steps.hlo.instruction(step.instruction)
        if isinstance(step.thunk, p.Kernel) and instruction is not None:
            found = scaling_of(steps.hlo, instruction, step.thunk)
            if found is not None:
                step.thunk = found.model_copy(update={"origin": step.thunk.origin})


def scaling_of(hlo: HloModule, instruction: Any, kernel: p.Kernel) -> p.Scaling | None:
    """The multiplication by factors that a kernel computes; None if it does anything else.

    Args:
        hlo: The module.
        instruction: The `xla.HloInstructionProto` that XLA made the kernel of.
        kernel: Its call.
    """
    if instruction.opcode != "fusion" or len(kernel.arguments) != 2 or len(kernel.results) != 1:
        return None
    root = hlo.behind_bitcasts(hlo.called_root(instruction))
    if root.opcode != "multiply" or not _is_plain(root):
        return None
    one, other = hlo.operands(root)
    for values, repeated in ((one, other), (other, one)):
        sizes = _repeated(hlo, repeated)
        source = hlo.behind_bitcasts(values)
        if sizes is not None and source.opcode == "parameter" and is_in_order(values.shape):
            batch, rows, features = sizes
            return p.Scaling(
                operations=kernel.operations,
                input=kernel.arguments[source.parameter_number],
                factors=kernel.arguments[1 - source.parameter_number],
                output=kernel.results[0],
                batch=batch,
                rows=rows,
                features=features,
            )
    return None


def _is_plain(node: Any) -> bool:
    shape = node.shape
    return (
        shape.element_type == ElementType.FLOAT32
        and len(shape.dimensions) > 1
        and is_in_order(shape)
        and shape.dimensions[-1] >= _MIN_FEATURES
        and math.prod(shape.dimensions) >= _MIN_ELEMENTS
    )


def _repeated(hlo: HloModule, node: Any) -> tuple[int, int, int] | None:
    """Images, places of each and features, if a parameter has one factor for each feature: of each image, or of all."""
    if node.opcode != "broadcast":
        return None
    (factors,) = hlo.operands(node)
    sizes = list(node.shape.dimensions)
    last = len(sizes) - 1
    if hlo.behind_bitcasts(factors).opcode != "parameter" or not is_in_order(factors.shape):
        return None
    if list(node.dimensions) == [last]:
        return 1, math.prod(sizes[:last]), sizes[last]
    if list(node.dimensions) == [0, last]:
        return sizes[0], math.prod(sizes[1:last]), sizes[last]
    return None
