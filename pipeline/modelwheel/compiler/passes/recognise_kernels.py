"""Replaces kernels of XLA's that the runtime has better ones for.

    %2 = kernel %0, %1 {symbol=fusion}    =>    %2 u8[6,20] = lookup %0 u8[7,20], %1 s32[6] {wrap=7}

When and bits: as each of the rules in `recognise` says. None replaces a kernel whose result XLA has put over what it reads, but
for products, which finish what they are added to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..ir.graph import Graph, Node
from .recognise.convolution_kernels import convolution_kernel
from .recognise.kernel_calls import KernelCall
from .recognise.poolings import mean_of_images, pooling, row_reduction
from .recognise.row_lookups import row_lookup
from .recognise.vector_products import vector_product

Rule: TypeAlias = Callable[[KernelCall], Node | None]
"""What takes the place of a kernel; None if it does anything else."""

RULES: tuple[Rule, ...] = (
    vector_product,  # First: a product finishes what is added to it; all others compute one operation.
    convolution_kernel,  # Of an instruction of its own, which no other rule takes.
    pooling,  # Windows of images before those of rows, which are reduce-windows too.
    mean_of_images,  # Before rows: a pooling has the factor, and later takes over one before it.
    row_reduction,
    row_lookup,  # The only one that ends in a gather.
)
"""In order: the first that returns something decides."""


class RecogniseKernels:
    """See above."""

    name = "recognise-kernels"

    def run(self, graph: Graph) -> int:
        """Replaces kernels; returns how many."""
        replaced = 0
        for node in list(graph.walk()):
            if (new := _replacement(graph, node)) is not None:
                graph.replace([node], new)
                replaced += 1
        return replaced


def _replacement(graph: Graph, node: Node) -> Node | None:
    call = KernelCall.of(graph, node)
    if call is None:
        return None
    return next((new for rule in RULES if (new := rule(call)) is not None), None)
