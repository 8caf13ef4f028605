"""Decodes kernels that multiply the features of images by factors, as squeeze and excite does.

    %2 = kernel %0, %1 {symbol=fusion}    =>    %2 f32[4,400,24] = scaling %0 f32[4,400,24], %1 f32[4,24]

    fusion:  repeated = f32[4,20,20,24] broadcast(factors), dimensions={0,3}
             ROOT scaled = f32[4,20,20,24] multiply(x, repeated)

XLA's kernels do that as quickly with one thread, but cannot be divided among several.

When: with enough elements for each thread to get a part, and whole vectors. Bits: the same, each element is one product.
"""

from __future__ import annotations

import math

from ...dtypes import ElementType
from ...program.ops import Scaling
from ...program.view import View
from ..ir.graph import Graph, Node
from ..ir.hlo import Instruction
from ..ir.match import behind_bitcasts, parameter_of, row_major
from .recognise.kernel_calls import KernelCall

# With fewer, no thread gets a part, or vectors would be nearly empty.
_MIN_ELEMENTS = 1 << 14
_MIN_FEATURES = 8

_FLOAT = ElementType.FLOAT32


class DecodeScalings:
    """See above."""

    name = "decode-scalings"

    def run(self, graph: Graph) -> int:
        """Replaces kernels; returns how many."""
        scalings = [(node, _scaling(graph, node)) for node in list(graph.walk())]
        for node, scaling in scalings:
            if scaling is not None:
                graph.replace([node], scaling)
        return sum(scaling is not None for _, scaling in scalings)


def _scaling(graph: Graph, node: Node) -> Node | None:
    """The node that does the same as a kernel; None if it does anything else."""
    call = KernelCall.of(graph, node)
    sizes = None if call is None or len(call.arguments) != 2 else _sizes(call.instruction)
    if call is None or sizes is None:
        return None
    number, shape = sizes
    base = call.result.base
    spares_factors = base is None or base.value is call.arguments[number].value
    # The kernel of the runtime may write over the images, and over nothing else that it reads.
    if call.result.near or (call.is_whole and not spares_factors):
        return None
    inputs = {
        "input": call.dense(number, _FLOAT, shape),
        "factors": call.dense(1 - number, _FLOAT, (shape[0], shape[2])),
    }
    return call.replaced(Scaling(), inputs, View.dense(call.place, _FLOAT, shape))


def _sizes(instruction: Instruction) -> tuple[int, tuple[int, int, int]] | None:
    """Which parameter of a fusion it multiplies by factors, and as what: images, places of each, features."""
    if instruction.opcode != "fusion":
        return None
    root = behind_bitcasts(instruction.called_root)
    if root.opcode != "multiply" or not _is_plain(root):
        return None
    left, right = root.operands
    for values, repeated in ((left, right), (right, left)):
        sizes, source = _repeated(repeated), parameter_of(values)
        if sizes is not None and source is not None and row_major(values.shape):
            return source, sizes
    return None


def _is_plain(node: Instruction) -> bool:
    shape = node.shape
    return (
        shape.element_type == _FLOAT
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
