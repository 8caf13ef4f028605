"""Lets products add up where their results will be.

    %3, %4 = dot %1, %2 {bias=..}     =>     %3, %3 = dot %1, %2 {bias=..}

XLA has the product and what is made of it in two places. A kernel with an epilogue needs no other memory than that of the
result: where it stores sums at all, it takes scratch memory.

When: the result is apart from all that the step reads. Only an addend of a dot may be in the same place: each element of it
is read when that of the result is finished. Bits: the same.
"""

from __future__ import annotations

from dataclasses import replace

from ...program.ops import Dot
from ..ir.assignment.in_place import in_place
from ..ir.graph import Graph, Node


class SumInResults:
    """See above."""

    name = "sum-in-results"

    def run(self, graph: Graph) -> int:
        """Changes products; returns how many."""
        products = [node for node in graph.walk() if _suits(node)]
        for node in products:
            result = node.outputs["out"]
            node.outputs["accumulator"] = replace(result, base=None, near=())
        graph.changed |= bool(products)
        return len(products)


def _suits(node: Node) -> bool:
    """Whether a product has memory for its sums that it does not need."""
    sums, result = node.outputs.get("accumulator"), node.outputs.get("out")
    if sums is None or result is None or sums.value is result.value or sums.value.users:
        return False
    own = {sums.value, result.value}
    apart = all(piece.value in own for piece in result.near)
    return apart and (isinstance(node.op, Dot) or not list(in_place(node)))
