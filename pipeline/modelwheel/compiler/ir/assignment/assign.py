"""Gives the values of a graph memory, and makes it a program again.

Values that are tied (see `graph`) are one block: they keep their distances. So do an output and an input that it may
replace, where XLA has both in one place or it pays (see `in_place`). Parameters, constants and results stay where they are; all other blocks get
places in one allocation, those that XLA planned among them: the plan that takes the fewest bytes is chosen, and of equal
ones XLA's.

What steps read is proven afterwards to be what the graph says: see `proof`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ....program.aliases import alias_of
from ....program.arrays import Allocation, Slice, overlap
from ....program.steps import Step
from ..graph import Graph, Join, Node, Piece, Region, Value
from .blocks import Block, Place, Use, plan
from .in_place import in_place, over_addend, placed
from .lifetimes import Lifetimes
from .proof import UnprovenError, named, prove


def assign(graph: Graph) -> tuple[tuple[Step, ...], tuple[Allocation, ...]]:
    """The steps of a graph, with memory, and their allocations.

    Raises:
        UnprovenError: Memory cannot be what the graph says; an error in a pass.
    """
    shared = _shared(graph.allocations)
    places, size = _places(graph, shared)
    prove(graph, places)
    return tuple(_steps(graph.body, places)), tuple(_allocations(graph, places, shared, size))


def _places(graph: Graph, shared: int) -> tuple[dict[Value, Slice], int]:
    """Where each value is, and the bytes of the shared allocation."""
    memory = _Memory(graph)
    places, size = memory.places(shared)
    if memory.replace_addends():
        others, other_size = memory.places(shared)
        if other_size <= size:
            return others, other_size
    return places, size


def _allocations(
    graph: Graph, places: Mapping[Value, Slice], shared: int, size: int
) -> Iterator[Allocation]:
    """The allocations of the graph, without the last ones that are no longer in use: all that was there has moved."""
    used = {shared} if size else set()
    used |= {place.allocation for place in places.values()}
    used |= {a.index for a in graph.allocations if a.kind != "temporary"}
    for allocation in graph.allocations[: max(used, default=-1) + 1]:
        is_shared = allocation.index == shared
        yield allocation.model_copy(update={"size": size}) if is_shared else allocation
    if shared == len(graph.allocations) and size:
        yield Allocation(index=shared, size=size, kind="temporary")


def _shared(allocations: Sequence[Allocation]) -> int:
    """The index of the allocation of all that moves; a new one if nothing moves yet."""
    temporary = (a for a in allocations if a.kind == "temporary")
    largest = max(temporary, key=lambda a: a.size, default=None)
    return len(allocations) if largest is None else largest.index


# --- blocks -------------------------------------------------------------------------------------------


class _Memory:
    """The blocks of a graph: each value has a distance from the first of its block, in bytes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._lifetimes = Lifetimes(graph)
        self._parents: dict[Value, tuple[Value, int]] = {}
        self._apart = list(_apart(graph))
        self._trusted = not graph.changed
        for node in graph.walk():
            self._tie_what_must_be(node)
        self._blocks: dict[Value, list[Value]] = {}
        """The values of each, by the first."""
        for value in self._lifetimes.values:
            self._blocks.setdefault(self._first(value)[0], []).append(value)
        for node in graph.walk():
            for value, piece in in_place(node):
                if self._lifetimes.ends(piece, node):
                    self._replace(node, value, piece)

    def places(self, shared: int) -> tuple[dict[Value, Slice], int]:
        """Where each value is, and the bytes of the shared allocation."""
        uses: dict[Value, list[Use]] = {}
        homes: dict[Value, Place] = {}
        pinned: set[Value] = set()
        members = []
        for value in self._lifetimes.values:
            first, way = self._first(value)
            members.append((value, first, way))
            own = uses.setdefault(first, [])
            own += (_moved(use, way) for use in self._lifetimes.of(value))
            if value.home is not None:
                homes[first] = Place(value.home.allocation, value.home.offset - way)
            if value.source in ("parameter", "constant"):
                pinned.add(first)
        for piece, part in self._graph.results:
            first, way = self._first(piece.value)
            homes[first] = Place(part.allocation, part.offset - way - piece.offset)
            pinned.add(first)
        blocks = {
            first: Block(own, homes.get(first), first in pinned) for first, own in uses.items()
        }
        temporary = {a.index for a in self._graph.allocations if a.kind == "temporary"}
        offsets, size = plan(
            list(blocks.values()),
            shared,
            frozenset({*temporary, shared}),
            trusted=self._trusted,
        )
        origins = dict(zip(blocks, offsets, strict=True))
        return {
            value: Slice(
                allocation=origins[first].allocation,
                offset=origins[first].offset + way,
                size=value.size,
            )
            for value, first, way in members
        }, size

    def replace_addends(self) -> int:
        """Puts results over the addends of their products where that pays and nobody needs what was there."""
        fixed = {piece.value for piece, _ in self._graph.results}
        temporary = {a.index for a in self._graph.allocations if a.kind == "temporary"}
        for value in self._lifetimes.values:
            if value.home is not None and value.home.allocation not in temporary:
                fixed.add(value)
        replaced = 0
        for node in self._graph.walk():
            if (match := over_addend(node)) is None:
                continue
            value, piece = match
            blocks = {self._first(member)[0] for member in (value, piece.value)}
            if all(fixed.isdisjoint(self._blocks[block]) for block in blocks):
                replaced += self._replace(node, value, piece)
        self._trusted &= not replaced
        return replaced

    def _replace(self, node: Node, value: Value, piece: Piece) -> bool:
        """Puts a result where an operand ends, if it is not there already and nothing else is; returns whether it has."""
        first, second = self._first(value)[0], self._first(piece.value)[0]
        if first is second or not self._may_meet(value, piece.value):
            return False
        if not self._may_replace(value, piece, self._blocks[first], self._blocks[second]):
            return False
        self._tie(node, value, piece)
        self._blocks[first] += self._blocks.pop(second)
        return True

    def _may_replace(
        self, value: Value, piece: Piece, ours: Sequence[Value], theirs: Sequence[Value]
    ) -> bool:
        """Whether two blocks can be one, in which a value is where some bytes of another one end."""
        distance = self._first(value)[1] + piece.at - piece.offset - self._first(piece.value)[1]
        for mine in ours:
            for other in theirs:
                way = distance + self._first(other)[1] - self._first(mine)[1]
                is_end = mine is value and other is piece.value
                for use in self._lifetimes.of(mine):
                    for before in self._lifetimes.of(other):
                        moved = _moved(before, way)
                        ends = is_end and before.last == use.first
                        if moved.overlaps(use) and moved.meets(use) and not ends:
                            return False
        return True

    def _tie_what_must_be(self, node: Node) -> None:
        """Ties what must be in one place."""
        if isinstance(node.op, Join):
            (whole,) = (result.value for result in node.outputs.values())
            for operand, at in zip(node.inputs.values(), node.op.places, strict=True):
                part = operand.view.slice
                self._tie(node, whole, Piece(operand.value, part.offset, part.size, at))
            return
        for result in node.outputs.values():
            for piece in (result.base, *result.near):
                self._tie(node, result.value, piece)
        for carried in node.carried:
            for piece in (carried.initial, *carried.results):
                self._tie(node, carried.value, piece)
            for argument in carried.arguments:
                if argument is not None:
                    self._tie(node, carried.value, Piece.whole(argument))

    def _may_meet(self, value: Value, other: Value) -> bool:
        """Whether the blocks of two values may be one."""
        both = {self._first(value)[0], self._first(other)[0]}
        return len(both) == 1 or not any(
            {self._first(value)[0] for value in pair} == both for pair in self._apart
        )

    def _tie(self, node: Node, value: Value, piece: Piece | None) -> None:
        """Puts bytes of one value where another one has them."""
        if piece is None:
            return
        (first, way), (second, other) = self._first(value), self._first(piece.value)
        distance = way + piece.at - piece.offset - other
        if first is not second:
            self._parents[second] = (first, distance)
        elif distance:
            raise UnprovenError(f"{named(node)} needs a value in two places")

    def _first(self, value: Value) -> tuple[Value, int]:
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


def _moved(use: Use, way: int) -> Use:
    return Use(use.start + way, use.size, use.first, use.last, use.path)


def _apart(graph: Graph) -> Iterator[tuple[Value, Value]]:
    """The results that XLA has where an operand is that they may not replace, which a pass lets their node read longer."""
    for node in graph.walk():
        if isinstance(node.op, Join):
            continue
        for output, result in node.outputs.items():
            for name, operand in node.inputs.items():
                homes = result.value.home, operand.value.home
                if homes[0] is None or homes[1] is None or alias_of(node.op, output, name):
                    continue
                here, there = placed(result.view, homes[0]), placed(operand.view, homes[1])
                if overlap(here.slice, there.slice):
                    yield result.value, operand.value


# --- steps --------------------------------------------------------------------------------------------


def _steps(region: Region, places: Mapping[Value, Slice]) -> Iterator[Step]:
    for node in region.nodes:
        if isinstance(node.op, Join):
            continue
        inputs = {role: placed(o.view, places[o.value]) for role, o in node.inputs.items()}
        outputs = {role: placed(r.view, places[r.value]) for role, r in node.outputs.items()}
        yield Step(
            op=node.op,
            inputs=inputs,
            outputs=outputs,
            regions=tuple(tuple(_steps(inner, places)) for inner in node.regions),
            operations=node.operations,
            origin=node.origin,
        )
