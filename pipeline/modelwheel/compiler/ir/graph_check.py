"""Checks that a graph is one: tests and `MODELWHEEL_VERIFY=1` do this after each pass.

What a value is in memory is proven later, by `proof`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...program.ops import While
from .graph import Graph, Join, Node, Piece, Region, Value


class InvalidGraphError(RuntimeError):
    """A graph breaks a rule; the message names the node and the rule."""


def check(graph: Graph) -> None:
    """Checks a graph.

    Raises:
        InvalidGraphError: A value is read before it is computed, is computed twice or does not know its producer and its
            users; a view is not inside of its value; a loop and its regions carry different things; or two nodes compute
            one HLO instruction.
    """
    known = _check_region(graph.body, set())
    for piece, part in graph.results:
        if piece.value not in known and piece.value.source == "node":
            raise InvalidGraphError("a result of the graph is a value that no node computes")
        if piece.size != part.size:
            raise InvalidGraphError("a result of the graph has another size than where it belongs")
    _check_users(graph)
    _check_covers(graph)


def _check_region(region: Region, known: set[Value]) -> set[Value]:
    """Checks the nodes of a region, which may read some values; returns what they compute."""
    inside = set[Value]()
    for node in region.nodes:
        if node.region is not region:
            raise _error(node, "does not know the region that it is in")
        _check_operands(node, known | inside)
        for number, inner in enumerate(node.regions):
            arguments = {a for c in node.carried if c.arguments and (a := c.arguments[number])}
            own = known | inside | arguments
            own |= _check_region(inner, own)
            _check_pieces(node, [c.results[number] for c in node.carried], own)
        for value in node.values:
            if value.producer is not node:
                raise _error(node, "computes a value that names another node")
        results = {result.value for result in node.outputs.values()}
        results |= {carried.value for carried in node.carried}
        if results & (known | inside):
            raise _error(node, "computes a value that is computed already")
        inside |= results
    return inside


def _check_operands(node: Node, known: set[Value]) -> None:
    for name, operand in node.inputs.items():
        part = operand.view.slice.whole
        if isinstance(node.op, While) and name == "condition":
            continue
        _check_pieces(node, [Piece(operand.value, part.offset, part.size)], known)
    own = known | set(node.values)
    for result in node.outputs.values():
        part = result.view.slice.whole
        if part.offset < 0 or part.offset + part.size > result.value.size:
            raise _error(node, "writes outside of its result")
        _check_pieces(node, [result.base, *result.near], own)
    for carried in node.carried:
        _check_pieces(node, [carried.initial], known)
        sides = (carried.arguments, carried.results) if carried.arguments else (carried.results,)
        if any(len(side) != len(node.regions) for side in sides):
            raise _error(node, "carries something that its regions do not agree about")
        sizes = {carried.value.size, *(argument.size for argument in carried.arguments if argument)}
        sizes |= {piece.size for piece in (carried.initial, *carried.results) if piece}
        if len(sizes) != 1:
            raise _error(node, "carries something whose size changes")
    if isinstance(node.op, Join) and len(node.op.places) != len(node.inputs):
        raise _error(node, "joins other pieces than it has places for")


def _check_pieces(node: Node, pieces: Sequence[Piece | None], known: set[Value]) -> None:
    for piece in pieces:
        if piece is None:
            continue
        if piece.value.source in ("node", "argument") and piece.value not in known:
            raise _error(node, "reads a value that is not computed before")
        if piece.offset < 0 or piece.offset + piece.size > piece.value.size:
            raise _error(node, "reads outside of a value")


def _check_users(graph: Graph) -> None:
    uses = Counter[tuple[Value, Node]]()
    values = set[Value]()
    for node in graph.walk():
        uses.update((value, node) for value in node.used)
        values.update(node.used, node.values)
    noted = Counter((value, node) for value in values for node in value.users)
    for _, node in (uses - noted) + (noted - uses):
        raise _error(node, "and one of its values do not agree about what it reads")


def _check_covers(graph: Graph) -> None:
    covered = Counter(name for node in graph.walk() for name in node.covers)
    for name, count in covered.items():
        if count > 1 and name not in graph.repeated:
            raise InvalidGraphError(f"{count} nodes compute the HLO instruction {name!r}")


def _error(node: Node, mistake: str) -> InvalidGraphError:
    origin = f" of {node.origin!r}" if node.origin else ""
    return InvalidGraphError(f"the {node.op.kind} node{origin} {mistake}")
