"""Questions about kernels of a graph: who reads a value alone, and where one is that a kernel computes again."""

from __future__ import annotations

from functools import cached_property

from ....program import ops
from ....program.arrays import Slice
from ....program.view import View
from ...ir.graph import INSIDE, Graph, Node, Operand, Value
from ...ir.hlo import Instruction
from ...ir.numbering import Numbering
from ...ir.ordering import is_before, position
from ..recognise.kernel_calls import KernelCall


def fusion_of(graph: Graph, node: Node) -> KernelCall | None:
    """The call of a kernel that XLA has made of a fusion with one result; None of any other node."""
    call = KernelCall.of(graph, node)
    if call is None or call.instruction.name in graph.repeated:
        return None
    return call if call.instruction.opcode == "fusion" else None


def whole(value: Value) -> Operand:
    """All bytes of a value as an operand."""
    return Operand(value, View.of_bytes(Slice(allocation=INSIDE, offset=0, size=value.size)))


class KernelValues:
    """The values of a graph, whose kernels become parts of other nodes meanwhile."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._results = frozenset(piece.value for piece, _ in graph.results)

    def is_only_read_by(self, value: Value, node: Node) -> bool:
        """Whether one operand of a node of the same region is all that reads a value, over which it may write."""
        producer = value.producer
        return (
            set(value.users) == {node}
            and sum(operand.value is value for operand in node.inputs.values()) == 1
            and value not in self._results
            and producer is not None
            and producer.region is node.region
        )

    def only_reader(self, call: KernelCall) -> Node | None:
        """The node that alone reads all of the value of a kernel, as one operand."""
        value = call.result.value
        readers = set(value.users)
        if not call.is_whole or len(readers) != 1:
            return None
        (reader,) = readers
        if not self.is_only_read_by(value, reader):
            return None
        (read,) = (operand for operand in reader.inputs.values() if operand.value is value)
        return reader if read.view.slice == call.place else None

    def products(self, kernel: Node) -> list[tuple[Node, int]]:
        """The products that only a kernel reads, each with the number of the argument; the last comes first."""
        products = []
        for number, operand in enumerate(kernel.inputs.values()):
            product = operand.value.producer
            if product is None or not isinstance(product.op, ops.Dot | ops.Convolution):
                continue
            is_result = product.outputs["out"].value is operand.value
            if is_result and self.is_only_read_by(operand.value, kernel):
                products.append((product, number))
        return sorted(products, key=lambda pair: position(pair[0]), reverse=True)

    def find(self, node: Instruction, fusion: Instruction, before: Node) -> Value | None:
        """The value, computed before a node in the same region, that an instruction in a fusion computes again."""
        if self._numbering is None:
            return None
        for value in self._written.get(self._numbering.inside(node, fusion), ()):
            producer = value.producer
            if (
                producer is not None
                and producer.region is before.region
                and is_before(value, before)
            ):
                return value
        return None

    @cached_property
    def _numbering(self) -> Numbering | None:
        return None if self._graph.module is None else Numbering(self._graph.module)

    @cached_property
    def _written(self) -> dict[int, list[Value]]:
        """The values that kernels have written, by their numbers."""
        values: dict[int, list[Value]] = {}
        assert self._numbering is not None
        for node in self._graph.walk():
            call = KernelCall.of(self._graph, node)
            if call is None or not call.is_whole or call.instruction.name in self._graph.repeated:
                continue
            number = self._numbering.of(call.instruction)
            values.setdefault(number, []).append(call.result.value)
        return values
