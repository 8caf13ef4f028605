"""Changes what loops of a graph carry.

    %1 = while (%0) {trip_count=null}               %1 = while (%0) {trip_count=4}
      condition(%2):                                  body(%5):
        %3 = kernel %2                      =>          %6 = kernel %5
        yield %2                                        yield %6
      body(%5):
        %6 = kernel %5
        yield %6

A loop whose trip count is known has no condition. Where all its iterations together write all of an array, and nobody reads
it before, it needs none to begin with.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....program.aliases import has_all_bytes
from ....program.arrays import ALIGNMENT
from ....program.ops import Convolution, Dot, Elementwise, While
from ..graph import Carried, Graph, Join, Node, Operand, Value


def body_of(loop: Node) -> Sequence[Node]:
    """The nodes of the body of a loop."""
    return loop.regions[-1].nodes


def is_inside(value: Value, loop: Node) -> bool:
    """Whether a value is computed by a loop, so that iterations may find different ones."""
    producer = value.producer
    return producer is not None and (producer is loop or producer.inside(loop))


def may_be_elsewhere(loop: Node, value: Value, place: Operand) -> bool:
    """Whether all that reads a value of the body can read it in another place in each iteration.

    Args:
        loop: The loop.
        value: What a node of its body computes.
        place: The other place.
    """
    reads = 0
    for node in dict.fromkeys(value.users):
        if node.region is not loop.regions[-1] or node.regions or isinstance(node.op, Join):
            return False
        reads += sum(operand.value is value for operand in node.inputs.values())
    # Others leave bytes of it as they are, or have it as their state.
    return reads == len(value.users) and (
        _is_aligned(place)
        or all(isinstance(node.op, Dot | Convolution | Elementwise) for node in value.users)
    )


def _is_aligned(place: Operand) -> bool:
    """Whether XLA's kernels may read it."""
    part, home = place.view.slice, place.value.home
    offset = part.offset + (home.offset if home else 0)
    return not (offset % ALIGNMENT or part.step % ALIGNMENT)


def set_trip_count(graph: Graph, loop: Node, trip_count: int) -> bool:
    """Lets a loop run its body so many times, whatever its condition says.

    Returns:
        Whether it can: the body uses nothing that the condition changes.
    """
    changed = [
        body
        for carried in loop.carried
        for first, body in (carried.arguments,)
        if first is not None and body is not None and body.users
        if (left := carried.results[0]) is not None and left.value is not first
    ]
    if changed:
        return False
    condition = loop.inputs.pop("condition", None)
    if condition is not None:
        condition.value.users.remove(loop)
    for carried in loop.carried:
        if (left := carried.results[0]) is not None:
            left.value.users.remove(loop)
        carried.arguments = (None, *carried.arguments[1:])
        carried.results = (None, *carried.results[1:])
    for node in list(loop.regions[0].nodes):
        graph.detach(node)
    loop.op = While(trip_count=trip_count)
    graph.changed = True
    return True


def forget_overwritten(loop: Node) -> None:
    """Lets a loop begin with any memory where its iterations write all of it before anybody reads it."""
    assert isinstance(loop.op, While)
    for carried in loop.carried:
        if carried.initial is not None and is_overwritten(loop.op, carried):
            carried.initial.value.users.remove(loop)
            carried.initial = None


def is_overwritten(op: While, carried: Carried) -> bool:
    """Whether each iteration writes another part of the memory, all write all of it, and nobody reads it before."""
    argument, left = carried.arguments[-1], carried.results[-1]
    if any(carried.arguments[:-1]) or argument is None or left is None:
        return False
    if not argument.has_one_use or left.value.producer is not argument.users[0]:
        return False
    (writer,) = argument.users
    results = [r for r in writer.outputs.values() if r.base and r.base.value is argument]
    if len(results) != 1 or results[0].value is not left.value:
        return False
    part = results[0].view.slice
    return (
        has_all_bytes(results[0].view)
        and part.iterations == op.trip_count
        and abs(part.step) <= part.size
        and part.whole.size == carried.value.size == left.value.size
        and all(
            operand.view.slice == part
            for reader in left.value.users
            for operand in reader.inputs.values()
            if operand.value is left.value
        )
    )
