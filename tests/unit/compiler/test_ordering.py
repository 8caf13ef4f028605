"""What may run before or after what: values that share memory whatever `assign` does are in the way of each other."""

from __future__ import annotations

from collections.abc import Sequence

from modelwheel.compiler.ir.graph import Graph, Node, Piece, Value
from modelwheel.compiler.ir.ordering import between, common, may_pass, position, tied
from tests.support.modules import Emission

STEPS = """
ENTRY main {
  x = f32[4,4] parameter(0)
  state = f32[4,4] parameter(1)
  read = f32[4,4] negate(state)
  other = f32[4,4] negate(x)
  next = f32[4,4] add(read, other)
  ROOT results = (f32[4,4]) tuple(next)
}
"""


def _graph() -> tuple[Graph, Sequence[Node]]:
    """A loop whose state is read first and written last."""
    emission = Emission(STEPS, at={"next": "state"})
    graph = emission.graph(["state"], loops=True, state="temporary")
    (loop,) = graph.body.nodes
    return graph, loop.regions[1].nodes


def _whole(value: Value) -> Piece:
    return Piece(value, 0, value.size)


def _result(node: Node) -> Value:
    (value,) = node.values
    return value


def test_the_state_of_a_loop_is_in_one_place() -> None:
    graph, (read, _, last) = _graph()
    (loop,) = graph.body.nodes
    (carried,) = loop.carried
    places = tied(_result(last))
    assert set(places.values()) == {0}
    assert {carried.value, *filter(None, carried.arguments)} <= set(places)
    assert _result(read) not in places
    # Without what ties it, as if it were about to be replaced.
    assert set(tied(_result(last), without=[loop])) == {_result(last)}


def test_what_writes_a_state_does_not_pass_what_reads_it() -> None:
    graph, (read, other, last) = _graph()
    writes = [_whole(_result(last))]
    assert may_pass(graph, [other], writes=writes)
    assert not may_pass(graph, [read, other], writes=writes)


def test_what_reads_a_state_does_not_pass_what_writes_it() -> None:
    graph, (read, other, last) = _graph()
    (operand,) = read.inputs.values()
    reads = [_whole(operand.value)]
    assert may_pass(graph, [other], reads=reads)
    assert not may_pass(graph, [other, last], reads=reads)
    # Both may read it.
    assert may_pass(graph, [read], reads=reads)


def test_only_bytes_that_both_have_are_in_the_way() -> None:
    one, other = Value(64), Value(32)
    places = {one: 0, other: 48}
    assert common(Piece(one, 0, 48), _whole(other), places) is None
    found = common(Piece(one, 40, 24), _whole(other), places)
    assert found == Piece(other, 0, 16, 48)
    assert common(_whole(one), _whole(Value(64)), places) is None


def test_a_position_is_that_after_the_last_change() -> None:
    graph, (read, other, last) = _graph()
    assert [position(node) for node in (read, other, last)] == [0, 1, 2]
    assert list(between(read, last)) == [other]
    new = Node(other.op, dict(other.inputs))
    graph.insert(new, other)
    assert [position(node) for node in (read, new, other, last)] == [0, 1, 2, 3]
    graph.detach(read)
    assert [position(node) for node in (read, new, other, last)] == [-1, 0, 1, 2]
