"""Which values of a graph must be in one place: each block of them keeps its distances."""

from __future__ import annotations

from collections.abc import Container

from ....program.arrays import Slice
from ..graph import Graph, Join, Node, Piece, Value
from .proof import UnprovenError, named


class Ties:
    """The blocks of a graph: each value has a distance from the first of its block, in bytes.

    Args:
        graph: The graph.
        without: Nodes whose results may be anywhere.

    Raises:
        UnprovenError: A value would have to be in two places.
    """

    def __init__(self, graph: Graph, without: Container[Node] = ()) -> None:
        self._parents: dict[Value, tuple[Value, int]] = {}
        for node in graph.walk():
            if node not in without:
                self._tie_what_must_be(node)

    def tie(self, node: Node, value: Value, piece: Piece | None) -> None:
        """Puts bytes of one value where another one has them.

        Raises:
            UnprovenError: It is in another place already.
        """
        if piece is None:
            return
        (first, way), (second, other) = self.first(value), self.first(piece.value)
        distance = way + piece.at - piece.offset - other
        if first is not second:
            self._parents[second] = (first, distance)
        elif distance:
            raise UnprovenError(f"{named(node)} needs a value in two places")

    def first(self, value: Value) -> tuple[Value, int]:
        """The first value of a block, and how far behind it a value of the block is."""
        path: list[Value] = []
        way = 0
        while value in self._parents:
            path.append(value)
            value, step = self._parents[value]
            way += step
        left = way
        for other in path:
            _, step = self._parents[other]
            self._parents[other] = (value, left)
            left -= step
        return value, way

    def distance(self, value: Value, other: Value) -> int | None:
        """How far behind one value another one begins; None if they are not tied."""
        (first, way), (second, other_way) = self.first(value), self.first(other)
        return other_way - way if first is second else None

    def overlap(self, value: Value, part: Slice, other: Value, other_part: Slice) -> bool:
        """Whether parts of two values, as slices inside of them, surely have bytes in common."""
        distance = self.distance(value, other)
        if distance is None:
            return False
        one, two = part.whole, other_part.whole
        start = two.offset + distance
        return one.offset < start + two.size and start < one.offset + one.size

    def _tie_what_must_be(self, node: Node) -> None:
        """Ties what must be in one place."""
        if isinstance(node.op, Join):
            (whole,) = (result.value for result in node.outputs.values())
            for operand, at in zip(node.inputs.values(), node.op.places, strict=True):
                part = operand.view.slice
                self.tie(node, whole, Piece(operand.value, part.offset, part.size, at))
            return
        for result in node.outputs.values():
            for piece in (result.base, *result.near):
                self.tie(node, result.value, piece)
        for carried in node.carried:
            for piece in (carried.initial, *carried.results):
                self.tie(node, carried.value, piece)
            for argument in carried.arguments:
                if argument is not None:
                    self.tie(node, carried.value, Piece(argument, 0, argument.size))
