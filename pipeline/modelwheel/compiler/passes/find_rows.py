"""Notes which kernels compute rows of a batch by themselves.

    %2 = kernel %0, %1 {symbol=add}    =>    %2 = kernel %0, %1 {symbol=add apart=[{count=16 arguments=[0]}]}

When: XLA has made a kernel of one instruction whose operands are its arguments. Bits: the same, as nothing is rewritten: the code of
a program says by this of which steps a call with fewer rows computes only the first ones.
"""

from __future__ import annotations

from ...program.ops import Kernel
from ..ir.graph import Graph, Node
from ..ir.hlo import Shape
from .match.kernel_rows import rows_apart


class FindRows:
    """See above."""

    name = "find-rows"

    def run(self, graph: Graph) -> int:
        """Changes the operations of kernels; returns how many."""
        found = 0
        for node in graph.walk():
            if isinstance(node.op, Kernel):
                found += _note(graph, node, node.op)
        return found


def _note(graph: Graph, node: Node, op: Kernel) -> bool:
    """Notes what is known of a kernel; returns whether something is."""
    instructions = graph.instructions(node)
    if len(instructions) != 1 or instructions[0].name in graph.repeated:
        return False
    if list(node.inputs) != [f"argument{number}" for number in range(len(node.inputs))]:
        return False
    (instruction,) = instructions
    results = instruction.shape.tuple_shapes or (instruction.shape,)
    arguments = [operand.shape for operand in instruction.operands]
    read = [operand.view.slice.size for operand in node.inputs.values()]
    written = [result.view.slice.size for result in node.outputs.values()]
    if read != [*map(_bytes, arguments)] or written != [*map(_bytes, results)]:
        return False
    node.op = op.model_copy(update={"apart": tuple(rows_apart(instruction))})
    return bool(node.op.apart)


def _bytes(shape: Shape) -> int:
    """The size of an array; -1 of what is none."""
    element_type = shape.element_type
    return -1 if element_type is None else shape.elements * element_type.item_bytes
