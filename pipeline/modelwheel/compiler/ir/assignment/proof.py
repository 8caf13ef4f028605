"""Proves that the memory of values gives every node what the graph says that it reads.

Nodes are followed in order with a record of which value each byte holds, as `lift` does with steps. So an error in a pass,
in a lifetime or in a plan is found here, before a wheel computes something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ....program.arrays import Slice, overlap
from ....program.contents import Contents, merged
from ....program.ops import Branches, While
from ..graph import Graph, Join, Node, Operand, Piece, Region, Value


class UnprovenError(RuntimeError):
    """Memory was planned so that a step would not read what it should: an error of modelwheel."""


def prove(graph: Graph, places: Mapping[Value, Slice]) -> None:
    """Follows a graph.

    Args:
        graph: The graph.
        places: Where each value is, all of it.

    Raises:
        UnprovenError: A node or a caller reads something else.
    """
    prover = _Prover(places)
    for value, place in places.items():
        if value.source in ("parameter", "constant"):
            prover.contents.write(place, value)
    prover.sequence(graph.body)
    for piece, part in graph.results:
        if prover.place(piece) != part:
            raise UnprovenError("a result of the program is not where its callers read it")
        prover.holds(piece, "the end of the program")


@dataclass
class _Prover:
    places: Mapping[Value, Slice]
    contents: Contents[Value] = field(default_factory=Contents)

    def place(self, piece: Piece) -> Slice:
        """Where some bytes of a value are."""
        whole = self.places[piece.value]
        offset = whole.offset + piece.offset
        return Slice(allocation=whole.allocation, offset=offset, size=piece.size)

    def holds(self, piece: Piece, reader: str) -> None:
        """Requires that bytes of a value are there."""
        if piece.value.source == "undefined":
            return
        for held in self.contents.read(self.place(piece)):
            if held.what is not piece.value and held.start != held.stop:
                raise UnprovenError(
                    f"{reader} would read memory that holds something else than what it needs"
                )

    def sequence(self, region: Region) -> None:
        """Follows the nodes of a region."""
        for node in region.nodes:
            self._inputs(node)
            if node.regions:
                self._regions(node)
            self._outputs(node)

    def _inputs(self, node: Node) -> None:
        for role, operand in node.inputs.items():
            if not (isinstance(node.op, While) and role == "condition"):
                self.holds(_piece_of(operand), named(node))
        for result in node.outputs.values():
            for piece in result.near:
                self._tied(node, result.value, piece)
            if result.base is not None:
                self._tied(node, result.value, result.base)
                self.holds(result.base, named(node))
        if isinstance(node.op, Join):
            (result,) = node.outputs.values()
            for operand, at in zip(node.inputs.values(), node.op.places, strict=True):
                part = operand.view.slice
                self._tied(node, result.value, Piece(operand.value, part.offset, part.size, at))

    def _outputs(self, node: Node) -> None:
        for result in node.outputs.values():
            self.contents.write(self.places[result.value], result.value)

    def _tied(self, node: Node, value: Value, piece: Piece) -> None:
        """Requires that bytes of another value are where a value has them."""
        place, there = self.places[value], self.place(piece)
        if (place.allocation, place.offset + piece.at) != (there.allocation, there.offset):
            raise UnprovenError(f"{named(node)} would not find what it changes in its place")

    def _regions(self, node: Node) -> None:
        all_run = isinstance(node.op, Branches)
        written = [merged(self._written(region)) for region in node.regions]
        if all_run:
            _require_apart(node, written)
        for carried in node.carried:
            pieces = [carried.initial, *carried.results]
            for piece in pieces:
                if piece is not None:
                    self._tied(node, carried.value, piece)
            if carried.initial is not None:
                self.holds(carried.initial, named(node))
        before = self.contents.copy()
        loops = isinstance(node.op, While)
        for number, region in enumerate(node.regions):
            self.contents = before.copy()
            others = [p for n, parts in enumerate(written) if n != number for p in parts]
            spoiled = [*others, *written[number]] if loops else others if all_run else []
            self._forget(spoiled)
            self._branch(node, number, region)
        self.contents = before
        self._forget(part for parts in written for part in parts)
        for carried in node.carried:
            self.contents.write(self.places[carried.value], carried.value)

    def _branch(self, node: Node, number: int, region: Region) -> None:
        """Follows one region."""
        for carried in node.carried:
            if carried.arguments and (argument := carried.arguments[number]) is not None:
                if self.places[argument] != self.places[carried.value]:
                    raise UnprovenError(f"{named(node)} would not find its state in its place")
                self.contents.write(self.places[argument], argument)
        self.sequence(region)
        if isinstance(node.op, While) and number == 0 and "condition" in node.inputs:
            self.holds(_piece_of(node.inputs["condition"]), named(node))
        for carried in node.carried:
            piece = carried.results[number]
            if piece is not None:
                self.holds(piece, named(node))

    def _forget(self, parts: Iterable[Slice]) -> None:
        for part in parts:
            self.contents.write(part, None)

    def _written(self, region: Region) -> Iterable[Slice]:
        for node in region.nodes:
            if not isinstance(node.op, Join):
                yield from (self.places[result.value] for result in node.outputs.values())
            for inner in node.regions:
                yield from self._written(inner)


def _require_apart(node: Node, written: list[list[Slice]]) -> None:
    for number, parts in enumerate(written):
        for others in written[number + 1 :]:
            if any(overlap(part, other) for part in parts for other in others):
                raise UnprovenError(f"two branches of {named(node)} would write the same memory")


def _piece_of(operand: Operand) -> Piece:
    part = operand.view.slice.whole
    return Piece(operand.value, part.offset, part.size)


def named(node: Node) -> str:
    """A node in a message."""
    return f"the {node.op.kind} step {node.origin!r}" if node.origin else f"a {node.op.kind} step"
