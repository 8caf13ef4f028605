"""Makes one step of kernels of a loop that follow each other element by element, as the gates of a recurrent layer do.

    %3 = kernel %0, %1 {symbol=sigmoid_of_sum}           %5 f32[3,8] = elementwise %0 f32[3,8], %1 f32[3,8], %2 f32[3,8]
    %4 = kernel %2 {symbol=tanh}                     =>      {code=(gated_tanh(add(read0, read1), read2))}
    %5 = kernel %3, %4 {symbol=multiply}

XLA's kernels for them are compiled for each batch size, write what only the next one reads, and take long for sigmoid and
tanh. The runtime compiles one copy of the code with vectors of the level for all batch sizes. Copies into the array of all
iterations become part of it too.

When: in loops, if there is an activation among them. A node that needs a value of the chain, or changes what the chain
reads, ends it. Bits: the operations of the kernels in their order; activations have the errors that `activation.h` states.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from ...dtypes import ElementType
from ...program.expr import ACTIVATIONS
from ...program.ops import Copy, Elementwise, Kernel, While
from ...program.view import View
from ..ir.erasing import erase_dead
from ..ir.graph import Graph, Node, Operand, Region, Result, Value
from ..ir.hlo import Instruction
from ..ir.loops.counters import Counters, counters_of
from ..ir.ordering import common, may_pass, piece_of, tied
from .match.elementwise_code import Code, Reader, Source

_FLOAT = ElementType.FLOAT32


class ChainElementwise:
    """See above."""

    name = "chain-elementwise"

    def run(self, graph: Graph) -> int:
        """Makes chains; returns how many."""
        made = 0
        for loop in [node for node in graph.walk() if isinstance(node.op, While)]:
            made += _chain(graph, loop.regions[-1], counters_of(graph, loop))
            inner = [
                node for node in graph.walk(loop.regions[-1]) if not isinstance(node.op, While)
            ]
            regions = [r for node in inner for r in node.regions]
            made += sum(_chain(graph, region, None) for region in regions)
        # Masks are read where they are: perhaps nothing else needs the counters.
        if made:
            erase_dead(graph)
        return made


@dataclass
class _Chain:
    """Nodes that become one, which takes the place of the last."""

    rows: int
    columns: int
    candidates: Collection[Node]
    """Nodes that may become part of chains: where XLA has their results does not matter."""
    code: Code = field(default_factory=Code)
    members: list[Node] = field(default_factory=list)
    reads: list[Operand] = field(default_factory=list)
    stores: dict[Value, tuple[int, Result]] = field(default_factory=dict)
    """What it computes, with its number."""
    unwritten: list[Node] = field(default_factory=list)
    """Nodes whose values the chain cannot write: only its other nodes may read them."""

    def known(self) -> dict[Value, int | None]:
        """The numbers of the values that it computes, those of which it writes only a part without one."""
        return {
            value: number if result.view.slice.size == value.size else None
            for value, (number, result) in self.stores.items()
        }

    def takes(self, node: Node, source: Source, number: int, *, written: bool) -> bool:
        """Adds a node.

        Args:
            node: The node, with one result.
            source: What it reads.
            number: What it computes.
            written: Whether it may only join if its value can be written.
        """
        (result,) = node.outputs.values()
        if result.view.slice.size != self.rows * self.columns * _FLOAT.item_bytes:
            return False
        result = _written(node, result, self.columns)
        if result.base is not None and result.base.value in self.stores:
            return False
        # Rows would be written before others that are in the same memory are read.
        spoils = any(self._spoils(result, read) for read in (*self.reads, *source.reads))
        if spoils and written:
            return False
        if spoils:
            self.unwritten.append(node)
        self.reads += source.reads
        self.members.append(node)
        self.stores[result.value] = (number, result)
        return True

    def hides(self, graph: Graph, value: Value) -> bool:
        """Whether nobody else reads a value."""
        is_result = any(piece.value is value for piece, _ in graph.results)
        return not is_result and set(value.users) <= set(self.members)

    def conflicts(self, graph: Graph, node: Node) -> bool:
        """Whether the chain cannot run after a node that comes after some of it."""
        inner = [child for region in node.regions for child in graph.walk(region)]
        if any(value in self.stores for member in (node, *inner) for value in member.used):
            return True
        return not may_pass(graph, [node], reads=list(map(piece_of, self.reads)))

    def _spoils(self, result: Result, read: Operand) -> bool:
        """Whether a result is in the memory that the chain reads, and not element by element."""
        places = tied(read.value, self.candidates)
        distance = places.get(result.value)
        if distance is None:
            return False
        written = Operand(result.value, result.view)
        if written.moved(read.value, distance) == read:
            return False
        return common(piece_of(read), piece_of(written), places) is not None


def _chain(graph: Graph, region: Region, counters: Counters | None) -> int:
    """Makes the nodes of chains in a region one each; returns how many chains it has made."""
    candidates = {node for node in region.nodes if _extent(graph, node) is not None}
    if not candidates:
        return 0
    chains = _Chains(graph, region.nodes, counters, candidates)
    return sum(_finish(graph, chain) for chain in chains.all())


def _extent(graph: Graph, node: Node) -> tuple[int, int] | None:
    """The rows and columns of what a kernel computes."""
    instructions = graph.instructions(node)
    if not isinstance(node.op, Kernel) or len(instructions) != 1 or len(node.outputs) != 1:
        return None
    shape = instructions[0].shape
    if shape.element_type != _FLOAT or not shape.dimensions:
        return None
    return math.prod(shape.dimensions[:-1]), shape.dimensions[-1]


def _written(node: Node, result: Result, columns: int) -> Result:
    """The result of a node as rows of a matrix, alone in its memory if it is all of a value."""
    part = result.view.slice
    size = _FLOAT.item_bytes
    view = View.dense(part, _FLOAT, (part.size // (columns * size), columns))
    base = None if isinstance(node.op, Kernel) and part.size == result.value.size else result.base
    return Result(result.value, view, base)


@dataclass
class _Chains:
    """Finds chains in a sequence of nodes."""

    graph: Graph
    nodes: Sequence[Node]
    counters: Counters | None
    candidates: Collection[Node]
    written: list[Node] = field(default_factory=list)
    """Nodes whose values others read, so that they are written."""

    def all(self) -> list[_Chain]:
        """All chains, in order."""
        while True:
            chains = list(self._found())
            # What others read too must be written, and then be computed where that is possible.
            more = [
                node
                for chain in chains
                for node in chain.unwritten
                if not all(chain.hides(self.graph, value) for value in node.values)
            ]
            if not more:
                return chains
            self.written += more

    def _found(self) -> Iterator[_Chain]:
        chain: _Chain | None = None
        for node in self.nodes:
            if chain is not None and self._is_added(chain, node):
                continue
            extent = _extent(self.graph, node)
            other = None if extent is None else _Chain(*extent, self.candidates)
            begins = other is not None and self._is_added(other, node)
            if chain is not None and (begins or chain.conflicts(self.graph, node)):
                yield chain
                chain = None
            if begins:
                chain = other
        if chain is not None:
            yield chain

    def _is_added(self, chain: _Chain, node: Node) -> bool:
        """Whether a node has become part of a chain."""
        source = Source(chain.rows, chain.columns, chain.known())
        if isinstance(node.op, Copy):
            operand = node.inputs["source"]
            if operand.view.element_type != ElementType.UINT8:
                return False
            number = source.read(chain.code, operand, 0, chain.columns)
            return number is not None and chain.takes(node, source, number, written=True)
        if _extent(self.graph, node) != (chain.rows, chain.columns):
            return False
        (instruction,) = self.graph.instructions(node)
        number = self._reader(chain, node, instruction, source).result()
        is_written = node in self.written
        return number is not None and chain.takes(node, source, number, written=is_written)

    def _reader(
        self, chain: _Chain, node: Node, instruction: Instruction, source: Source
    ) -> Reader:
        return Reader(self.counters, instruction, node, chain.code, source)


def _finish(graph: Graph, chain: _Chain) -> bool:
    """Puts a node in the place of those of a chain, if that is worth it."""
    stores = [
        (number, result)
        for value, (number, result) in chain.stores.items()
        if not chain.hides(graph, value)
    ]
    reads, code = chain.code.finished([number for number, _ in stores])
    if not any(operation.opcode in ACTIVATIONS for operation in code.operations):
        return False
    node = graph.merged(Elementwise(code=code), chain.members)
    node.inputs = {f"read{number}": read for number, read in enumerate(reads)}
    node.outputs = {f"write{number}": result for number, (_, result) in enumerate(stores)}
    graph.replace(chain.members, node)
    return True
