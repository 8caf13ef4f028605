"""Calls of XLA's kernels: what a rule reads of one, and the node that takes its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....dtypes import ElementType
from ....program.arrays import Slice
from ....program.ops import AnyOp, Kernel
from ....program.view import View
from ...ir.graph import Graph, Node, Operand, Result
from ...ir.hlo import Instruction, Shape
from ...ir.match import view_of


@dataclass(frozen=True)
class KernelCall:
    """A node that calls a kernel with one result."""

    graph: Graph
    node: Node
    instruction: Instruction
    """XLA has made the kernel of it alone."""
    arguments: tuple[Operand, ...]
    """Of a fusion, the operands by the numbers of its parameters, if there are as many."""
    result: Result

    @classmethod
    def of(cls, graph: Graph, node: Node) -> KernelCall | None:
        """The call that a node is; None of any other node."""
        if not isinstance(node.op, Kernel) or len(node.outputs) != 1:
            return None
        instructions = graph.instructions(node)
        if len(instructions) != 1:
            return None
        (result,) = node.outputs.values()
        return cls(graph, node, instructions[0], tuple(node.inputs.values()), result)

    @property
    def place(self) -> Slice:
        """The bytes of the result, inside of its value."""
        return self.result.view.slice

    @property
    def is_whole(self) -> bool:
        """Whether the result is all of its value."""
        return self.place.size == self.result.value.size and not self.place.step

    @property
    def is_apart(self) -> bool:
        """Whether it writes all bytes of a value, which XLA has apart from what the kernel reads."""
        return self.result.base is None and not self.result.near

    def part(self, number: int) -> Slice:
        """The bytes of an argument, inside of its value."""
        return self.arguments[number].view.slice

    def typed(self, number: int, shape: Shape) -> Operand:
        """An argument as an array of a shape of XLA's."""
        return Operand(self.arguments[number].value, view_of(shape, self.part(number)))

    def dense(self, number: int, element_type: ElementType, shape: Sequence[int]) -> Operand:
        """An argument as a row-major array."""
        view = View.dense(self.part(number), element_type, shape)
        return Operand(self.arguments[number].value, view)

    def replaced(self, op: AnyOp, inputs: Mapping[str, Operand], view: View) -> Node:
        """A node that writes the bytes of the result, as a view of them, instead of the kernel."""
        node = self.graph.merged(op, [self.node])
        node.inputs = dict(inputs)
        # One that writes all of it has nothing of what XLA's kernel may have changed in its place.
        base = None if self.is_whole else self.result.base
        node.outputs = {op.OUTPUTS[0].name: Result(self.result.value, view, base)}
        return node
