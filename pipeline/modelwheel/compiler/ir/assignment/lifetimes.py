"""When the values of a graph are in use, byte by byte.

Time is the number of a node in the order of `Graph.walk`. What comes from before a loop and is read in it is in use until
the loop ends; what branches that run at the same time read is in use until all end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from ....program.ops import Branches
from ..graph import Graph, Node, Piece, Region, Value, is_choice
from .blocks import Path, Use


@dataclass
class _Life:
    first: int
    path: Path
    reads: list[tuple[int, int, int]] = field(default_factory=list)
    """Where the bytes begin and end that are read, and the last time."""


class Lifetimes:
    """Finds the uses of all values that the nodes of a graph compute or read."""

    def __init__(self, graph: Graph) -> None:
        self._lives: dict[Value, _Life] = {}
        self._times: dict[Node, tuple[int, int]] = {}
        self._time = 0
        self._number(graph.body)
        self.end = self._time
        self._visit(graph.body, ())
        for piece, _ in graph.results:
            self._read(piece, self.end)

    def of(self, value: Value) -> list[Use]:
        """The uses of a value: parts of it, apart from each other."""
        return list(_uses(self._lives[value], value.size))

    def ends(self, piece: Piece, node: Node) -> bool:
        """Whether nothing reads some bytes of a value after a node that does."""
        start, stop, time = piece.offset, piece.offset + piece.size, self._times[node][0]
        reads = self._lives[piece.value].reads
        return all(t <= time for a, b, t in reads if a < stop and start < b)

    @property
    def values(self) -> Iterator[Value]:
        """All values."""
        yield from self._lives

    def _number(self, region: Region) -> None:
        for node in region.nodes:
            first = self._time
            self._time += 1
            for inner in node.regions:
                self._number(inner)
            if node.regions:
                self._time += 1
            self._times[node] = (first, self._time - 1)

    def _visit(self, region: Region, path: Path) -> None:
        for node in region.nodes:
            first, last = self._times[node]
            for operand in node.inputs.values():
                part = operand.view.slice.whole
                in_region = bool(node.regions) and self._is_inside(operand.value, node)
                piece = Piece(operand.value, part.offset, part.size)
                self._read(piece, last if in_region else first, node)
            for result in node.outputs.values():
                self._lives[result.value] = _Life(first, path)
            for result in node.outputs.values():
                if result.base is not None:
                    self._read(result.base, first, node)
            self._carry(node, path)
            for number, inner in enumerate(node.regions):
                is_branch = is_choice(node) or isinstance(node.op, Branches)
                own = ((first, number, is_choice(node)),) if is_branch else ()
                self._visit(inner, (*path, *own))
            for left in (left for carried in node.carried for left in carried.results):
                if left is not None:
                    self._read(left, last, node)

    def _carry(self, node: Node, path: Path) -> None:
        """State is in use all the time that a loop runs, and what branches write from the end on."""
        first, last = self._times[node]
        for carried in node.carried:
            if carried.initial is not None:
                self._read(carried.initial, first, node)
            for argument in carried.arguments:
                if argument is not None:
                    self._lives[argument] = _Life(first, path, [(0, argument.size, last)])
            self._lives[carried.value] = _Life(last, path)

    def _is_inside(self, value: Value, node: Node) -> bool:
        producer = value.producer
        return producer is not None and (producer is node or producer.inside(node))

    def _read(self, piece: Piece, time: int, reader: Node | None = None) -> None:
        """Notes that a node reads some bytes."""
        value = piece.value
        life = self._lives.setdefault(value, _Life(-1, ()))
        if value.source == "undefined" and life.first < 0:
            life.first = time
        node = reader
        while node is not None and node.region is not None:
            owner = node.region.owner
            if owner is None:
                break
            if owner is value.producer or self._is_inside(value, owner):
                break
            # It is from before: other iterations and branches read it too.
            if not is_choice(owner):
                time = max(time, self._times[owner][1])
            node = owner
        life.reads.append((piece.offset, piece.offset + piece.size, time))


def _uses(life: _Life, size: int) -> Iterator[Use]:
    bounds = sorted({0, size, *(edge for a, b, _ in life.reads for edge in (a, b))})
    for start, stop in pairwise(bounds):
        last = max((t for a, b, t in life.reads if a <= start and stop <= b), default=life.first)
        yield Use(start, stop - start, life.first, last, life.path)
