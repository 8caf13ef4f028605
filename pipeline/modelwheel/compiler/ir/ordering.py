"""Which values are in one place whatever `assign` does, and what may therefore run before or after what.

    %3 into %1 = kernel %1, %2         %1 and %3 are in one place: who reads %1 runs before this kernel
    %4 = while (%3)                    so are what a loop begins with, its state and its result, and pieces and their whole

`assign` gives all other values places that are apart while both are in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from .graph import Graph, Join, Node, Operand, Piece, Result, Value

_Tie: TypeAlias = tuple[Value, Piece]
"""A value, and bytes of another one that are in it."""


def tied(value: Value, without: Collection[Node] = ()) -> dict[Value, int]:
    """The values that share the place of one, itself among them, and how many bytes behind its start each begins.

    Args:
        value: The value.
        without: Nodes that tie nothing, as they are about to be replaced.
    """
    offsets = {value: 0}
    left = [value]
    while left:
        current = left.pop()
        nodes = {*current.users, *([current.producer] if current.producer else [])}
        for whole, piece in (tie for node in nodes if node not in without for tie in _ties(node)):
            distance = piece.at - piece.offset
            for here, there, way in (
                (whole, piece.value, distance),
                (piece.value, whole, -distance),
            ):
                if here is current and there not in offsets:
                    offsets[there] = offsets[current] + way
                    left.append(there)
    return offsets


def piece_of(operand: Operand) -> Piece:
    """All bytes that a node reads for an operand; in a loop, in all iterations."""
    part = operand.view.slice.whole
    return Piece(operand.value, part.offset, part.size)


def common(piece: Piece, other: Piece, places: Mapping[Value, int]) -> Piece | None:
    """The bytes of another value that are the same memory as some bytes of one.

    Args:
        piece: The bytes of the one.
        other: Those of the other.
        places: What `tied` says of `piece.value`.
    """
    way = places.get(other.value)
    if way is None:
        return None
    start = max(piece.offset, way + other.offset)
    stop = min(piece.offset + piece.size, way + other.offset + other.size)
    return Piece(other.value, start - way, stop - start, start) if start < stop else None


def may_pass(
    graph: Graph,
    nodes: Iterable[Node],
    reads: Sequence[Piece] = (),
    writes: Sequence[Piece] = (),
    without: Collection[Node] = (),
) -> bool:
    """Whether a node may run before or after some others alike: neither writes where the other reads or writes.

    That it computes what they read, or the other way round, is not looked at.

    Args:
        graph: The graph.
        nodes: The others.
        reads: What the node reads.
        writes: What it writes.
        without: Nodes that tie nothing, as they are about to be replaced.
    """
    inner = [member for node in nodes for member in (node, *_inside(graph, node))]
    if not inner:
        return True
    barred = [(piece, tied(piece.value, without)) for piece in writes]
    kept = barred + [(piece, tied(piece.value, without)) for piece in reads]
    for node in inner:
        if any(common(piece, other, places) for other in _written(node) for piece, places in kept):
            return False
        if any(common(piece, other, places) for other in _read(node) for piece, places in barred):
            return False
    return True


def places(
    graph: Graph,
    new: Node,
    old: Node,
    kernel: Node,
    writes: Sequence[Piece] = (),
    without: Collection[Node] = (),
) -> Iterator[Node]:
    """Which of a node and a later one of its region a node that does the work of both may come before; the best comes first.

    Args:
        graph: The graph.
        new: A node that is in no region yet; it reads what `old` does, and more.
        old: Its value is read by `kernel` alone.
        kernel: The later one.
        writes: What of `kernel` the new node writes.
        without: Nodes that tie nothing, as they are about to be replaced.
    """
    inside = between(old, kernel)
    added = [operand for role, operand in new.inputs.items() if role not in old.inputs]
    if all(is_before(operand.value, old) for operand in added) and may_pass(
        graph, inside, writes=writes, without=without
    ):
        yield old
    if may_pass(graph, inside, reads=[*map(piece_of, old.inputs.values())], without=without):
        yield kernel


def position(node: Node) -> int:
    """Where a node is in its region; -1 if it is in none any more."""
    return -1 if node.region is None else node.region.position(node)


def between(first: Node, last: Node) -> Sequence[Node]:
    """The nodes between two of one region."""
    assert first.region is not None
    return first.region.nodes[position(first) + 1 : position(last)]


def is_before(value: Value, node: Node) -> bool:
    """Whether a value is there when a node runs, which is in the same region or inside of it."""
    producer = value.producer
    if value.source != "node" or producer is None or producer.region is not node.region:
        return True
    return 0 <= position(producer) < position(node)


def _inside(graph: Graph, node: Node) -> Iterator[Node]:
    for region in node.regions:
        yield from graph.walk(region)


def _written(node: Node) -> Iterator[Piece]:
    """All of what it computes: what is there otherwise is another value afterwards, even where the bytes stay."""
    return (Piece.whole(value) for value in node.values)


def _read(node: Node) -> Iterator[Piece]:
    yield from map(piece_of, node.inputs.values())
    for result in node.outputs.values():
        if result.base is not None:
            yield result.base
    for carried in node.carried:
        yield from (piece for piece in (carried.initial, *carried.results) if piece is not None)


def over_operands(node: Node, result: Result, without: Collection[Node]) -> dict[str, Piece]:
    """The operands of a new node, by role, that its result is written over wherever it is, each with the common bytes.

    Args:
        node: A node that is in no region yet.
        result: One of its results.
        without: Nodes that tie nothing, as the new one takes their place.
    """
    places = tied(result.value, without)
    if (base := result.base) is not None:
        way = base.at - base.offset
        places |= {value: at + way for value, at in tied(base.value, without).items()}
    part = result.view.slice.whole
    own = Piece(result.value, part.offset, part.size)
    pieces = {role: common(own, piece_of(operand), places) for role, operand in node.inputs.items()}
    return {role: piece for role, piece in pieces.items() if piece is not None}


def _ties(node: Node) -> Iterator[_Tie]:
    """The ties of a node: what it needs in one place."""
    if isinstance(node.op, Join):
        (whole,) = node.outputs.values()
        for operand, at in zip(node.inputs.values(), node.op.places, strict=True):
            part = operand.view.slice
            yield whole.value, Piece(operand.value, part.offset, part.size, at)
        return
    for result in node.outputs.values():
        yield from ((result.value, piece) for piece in (result.base, *result.near) if piece)
    for carried in node.carried:
        pieces = [piece for piece in (carried.initial, *carried.results) if piece is not None]
        pieces += [Piece.whole(value) for value in carried.arguments if value is not None]
        yield from ((carried.value, piece) for piece in pieces)
