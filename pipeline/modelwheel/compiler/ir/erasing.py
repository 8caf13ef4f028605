"""Removes what nobody reads from a graph, in loops and branches too.

    %2 = while (%1)          %2 is not read: the loop goes, though each iteration reads
      body(%3):              what the one before left
        %4 = kernel %3
        yield %4

What is read is followed from the results of the program back to what it is computed from.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import RandomState, While
from .graph import Carried, Graph, Join, Node, Piece, Region, Value


def erase_dead(graph: Graph) -> int:
    """Removes nodes without effects whose values nobody reads, and state that no iteration needs.

    Returns:
        How many nodes it has removed; those in a loop count, joins do not.
    """
    return _erase(graph, joins_only=False)


def tidy(graph: Graph) -> None:
    """Removes joins that nobody reads, and state that is only memory in which a loop works."""
    _erase(graph, joins_only=True)


def _erase(graph: Graph, *, joins_only: bool) -> int:
    live = _Live()
    for piece, _ in graph.results:
        live.value(piece.value)
    for node in graph.walk():
        # A random state is advanced even if nothing reads it.
        is_root = isinstance(node.op, RandomState)
        if joins_only and not node.regions and not isinstance(node.op, Join):
            is_root = True
        if is_root:
            live.node(node)
    live.run()
    return _sweep(graph, graph.body, live, joins_only=joins_only)


class _Live:
    """The nodes and values that are needed."""

    def __init__(self) -> None:
        self.nodes = set[Node]()
        self.values = set[Value]()
        self._left: list[Value] = []

    def node(self, node: Node) -> None:
        """Notes that a node is needed, and the loops and branches that it is in."""
        if node in self.nodes:
            return
        self.nodes.add(node)
        for operand in node.inputs.values():
            self.value(operand.value)
        for result in node.outputs.values():
            if result.base is not None:
                self.value(result.base.value)
        if node.region is not None and node.region.owner is not None:
            self.node(node.region.owner)

    def value(self, value: Value) -> None:
        """Notes that a value is needed."""
        if value not in self.values:
            self.values.add(value)
            self._left.append(value)

    def run(self) -> None:
        """Follows values to what they are computed from."""
        while self._left:
            value = self._left.pop()
            if value.producer is None:
                continue
            self.node(value.producer)
            for carried in value.producer.carried:
                if value is carried.value or value in carried.arguments:
                    for piece in sources(value.producer, carried, value):
                        self.value(piece.value)


def sources(node: Node, carried: Carried, value: Value) -> Iterator[Piece]:
    """The values that become one value of some state: that after a node, or one that a region of a loop finds."""
    pieces: list[Piece | None]
    if not isinstance(node.op, While):
        pieces = list(carried.results)
    else:
        (condition, body), first = carried.results, carried.arguments[0]
        # The condition runs first, on what was before or what the body left; then the body, or what is after the loop.
        if first is not None and value is not first:
            pieces = [condition]
        elif value is carried.value and node.op.trip_count:
            pieces = [body]
        else:
            pieces = [carried.initial, body]
    yield from (piece for piece in pieces if piece is not None)


def _sweep(graph: Graph, region: Region, live: _Live, *, joins_only: bool) -> int:
    erased = 0
    for node in reversed(list(region.nodes)):
        for carried in list(node.carried):
            _drop(node, carried, live)
        for inner in node.regions:
            erased += _sweep(graph, inner, live, joins_only=joins_only)
        if node not in live.nodes:
            erased += not isinstance(node.op, Join)
            graph.detach(node)
            graph.changed |= not joins_only
    return erased


def _drop(node: Node, carried: Carried, live: _Live) -> None:
    """Removes state that is not needed, or what some regions leave of it."""
    needed = [v for v in (carried.value, *carried.arguments) if v is not None and v in live.values]
    kept = {piece for value in needed for piece in sources(node, carried, value)}
    pieces = (carried.initial, *carried.results)
    for piece in pieces:
        if piece is not None and piece not in kept:
            piece.value.users.remove(node)
    if not needed:
        node.carried.remove(carried)
    carried.initial = carried.initial if carried.initial in kept else None
    carried.results = tuple(piece if piece in kept else None for piece in carried.results)
