"""Changes of a graph, and the memory that it gets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.assignment.proof import UnprovenError, prove
from modelwheel.compiler.ir.erasing import erase_dead
from modelwheel.compiler.ir.graph import Graph, Node, Operand, Result
from modelwheel.compiler.ir.graph_check import InvalidGraphError, check
from modelwheel.compiler.ir.lift import lift
from modelwheel.compiler.ir.loops.loop_bodies import set_trip_count
from modelwheel.compiler.passes import optimise
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.steps import Step
from modelwheel.program.text import lines_of
from modelwheel.program.walk import walk, writes
from tests.support.programs import branches, copy, dense, dot, kernel, loop, part

A, X, Y = range(3)
ALLOCATIONS = (
    Allocation(index=A, size=4096, kind="temporary"),
    Allocation(index=X, size=1024, kind="parameter", parameter=0),
    Allocation(index=Y, size=1024, kind="output"),
)


def _graph(*steps: Step, results: Sequence[Slice] = (part(Y),)) -> Graph:
    graph = lift(steps, ALLOCATIONS, results)
    check(graph)
    return graph


def _symbols(graph: Graph) -> list[str]:
    return [node.op.symbol for node in graph.walk() if isinstance(node.op, ops.Kernel)]


def _named(symbol: str, reads: Slice, target: Slice) -> Step:
    return kernel(reads, target, symbol=symbol)


def test_what_nobody_reads_is_erased_in_loops_and_branches_too() -> None:
    body = (
        _named("counts", part(A), part(A)),
        _named("works", part(A, 64), part(A, 64)),
        _named("lost", part(A, 64), part(A, 128)),
    )
    graph = _graph(
        _named("first", part(X), part(A)),
        _named("second", part(X), part(A, 64)),
        loop(*body, trip_count=3),
        branches((_named("left", part(X), part(A, 192)),), (_named("last", part(A, 64), part(Y)),)),
    )
    assert erase_dead(graph) == 4
    check(graph)
    assert _symbols(graph) == ["second", "works", "last"]


def test_random_states_stay() -> None:
    draw = Step(op=ops.RandomState(delta=1), outputs={"state": dense((4,), A)})
    graph = _graph(draw, loop(draw, trip_count=2), results=())
    assert erase_dead(graph) == 0


def test_one_node_takes_the_place_of_several() -> None:
    graph = _graph(_named("f", part(X), part(A)), _named("g", part(A), part(Y)))
    first, last = graph.body.nodes
    both = Node(ops.Kernel(symbol="both"), dict(first.inputs), dict(last.outputs))
    graph.replace([first, last], both)
    check(graph)
    assert _symbols(graph) == ["both"]
    steps, _ = assign(graph)
    assert list(lines_of(steps)) == ["a2 u8[64] = kernel a1 u8[64] {symbol=both}"]


def test_a_value_that_is_still_used_is_not_replaced_away() -> None:
    graph = _graph(
        _named("f", part(X), part(A)), _named("g", part(A), part(Y)), results=[part(Y), part(A)]
    )
    first, last = graph.body.nodes
    with pytest.raises(ValueError, match="while others use their values"):
        graph.replace([first, last], Node(ops.Kernel(symbol="k"), {}, dict(last.outputs)))


def test_what_does_not_depend_on_a_loop_moves_out_of_it() -> None:
    body = (_named("same", part(X), part(A, 64)), kernel((part(A), part(A, 64)), part(A)))
    graph = _graph(_named("f", part(X), part(A)), loop(*body, trip_count=2), results=[part(A)])
    same, changes = graph.body.nodes[1].regions[-1].nodes
    with pytest.raises(ValueError, match="reads what its loop computes"):
        graph.hoist(changes)
    graph.hoist(same)
    check(graph)
    assert [node.op.kind for node in graph.body.nodes] == ["kernel", "kernel", "while"]
    # It has to last for all iterations now.
    steps, _ = assign(graph)
    assert [len(list(walk([step]))) for step in steps] == [1, 1, 2]


def test_a_reader_may_read_another_value() -> None:
    graph = _graph(
        _named("f", part(X), part(A)), copy(part(A), part(A, 64)), _named("g", part(A, 64), part(Y))
    )
    first, middle, _ = graph.body.nodes
    (old,), (new,) = middle.values, first.values
    graph.replace_uses(old, new)
    assert erase_dead(graph) == 1
    check(graph)
    assert _symbols(graph) == ["f", "g"]


def test_a_loop_may_be_counted_if_its_body_uses_nothing_that_the_condition_changes() -> None:
    flag = part(A, 256, 1)
    body = kernel(part(A, 64), part(A), symbol="body")
    changes = kernel(part(A), part(A, 64), symbol="changes")
    for condition, known in (([changes], False), ([], True)):
        test = kernel(part(A), flag, symbol="test")
        graph = _graph(
            _named("f", part(X), part(A)),
            _named("g", part(X), part(A, 64)),
            loop(body, trip_count=None, condition=(*condition, test), value=flag),
            results=[part(A)],
        )
        node = graph.body.nodes[-1]
        assert set_trip_count(graph, node, 3) is known
        check(graph)
        assert len(node.regions[0].nodes) == (0 if known else 2)
        assert node.op == ops.While(trip_count=3 if known else None)
        assign(graph)


def test_temporaries_of_different_times_share_memory() -> None:
    """XLA had planned each behind the one before."""
    steps = [
        _named(f"k{n}", part(A, 64 * n) if n else part(X), part(A, 64 * n + 64)) for n in range(9)
    ]
    steps.append(_named("end", part(A, 64 * 9), part(Y)))
    after, allocations = optimise(steps, ALLOCATIONS, [part(Y)])
    assert allocations[A].size == 128
    assert len(after) == len(steps)


def test_temporaries_of_a_loop_share_memory_too() -> None:
    body = [
        _named(f"k{n}", part(A, 64 * n) if n else part(X), part(A, 64 * n + 64)) for n in range(9)
    ]
    _, allocations = optimise(
        [loop(*body, copy(part(A, 64 * 9), part(Y)), trip_count=2)], ALLOCATIONS, [part(Y)]
    )
    assert allocations[A].size == 128


def test_other_temporaries_join_the_largest_one() -> None:
    own = Allocation(index=3, size=64, kind="temporary")
    steps = [_named("f", part(X), part(3)), _named("g", part(3), part(Y))]
    after, allocations = optimise(steps, (*ALLOCATIONS, own), [part(Y)])
    assert [a.size for a in allocations] == [64, 1024, 1024]
    assert [one.allocation for step in after for one in writes(step)] == [A, Y]


def test_an_addend_that_is_read_later_is_not_replaced() -> None:
    """A pass may read a value again that XLA has no longer needed then: results are elsewhere."""
    x, y = dense((4, 4), X), dense((4, 4), A)
    product = dot(x, x, y, epilogue=ops.Epilogue(), accumulator=y, addend=y)
    steps = (_named("f", part(X), part(A)), product, kernel((part(A), part(X, 64)), part(Y)))
    graph = _graph(*steps)
    first, _, last = graph.body.nodes
    assert assign(graph)[0] == steps
    (added,) = first.values
    again = last.inputs["argument1"]
    last.inputs["argument1"] = Operand(added, again.view.model_copy(update={"slice": part(-1)}))
    again.value.users.remove(last)
    added.users.append(last)
    graph.changed = True
    check(graph)
    (_, changed, reader), _ = assign(graph)
    assert changed.outputs["out"].slice != changed.inputs["addend"].slice
    assert reader.inputs["argument1"] == changed.inputs["addend"].model_copy(
        update={"element_type": again.view.element_type, "shape": (64,), "strides": (1,)}
    )


def test_memory_that_holds_something_else_is_found() -> None:
    graph = _graph(
        _named("f", part(X), part(A)),
        _named("g", part(X), part(A, 64)),
        kernel((part(A), part(A, 64)), part(Y)),
    )
    places = {value: value.home for node in graph.walk() for value in (*node.values, *node.used)}
    right = {value: home for value, home in places.items() if home is not None}
    prove(graph, right)
    (first,), (second,) = (node.values for node in graph.body.nodes[:2])
    with pytest.raises(
        UnprovenError, match="a kernel step would read memory that holds something else"
    ):
        prove(graph, {**right, second: right[first]})


def test_a_graph_that_is_none_is_found() -> None:
    graph = _graph(_named("f", part(X), part(A)), _named("g", part(A), part(Y)))
    graph.body.reset(reversed(graph.body.nodes))
    with pytest.raises(InvalidGraphError, match="reads a value that is not computed before"):
        check(graph)
    graph.body.reset(reversed(graph.body.nodes))
    first, _ = graph.body.nodes
    (result,) = first.outputs.values()
    first.outputs["result1"] = Result(
        result.value, result.view.model_copy(update={"slice": part(-1, 32)})
    )
    with pytest.raises(InvalidGraphError, match="writes outside of its result"):
        check(graph)


def test_two_nodes_do_not_cover_one_instruction() -> None:
    graph = _graph(_named("f", part(X), part(A)), _named("g", part(A), part(Y)))
    for node in graph.body.nodes:
        node.covers = frozenset({"fusion.1"})
    with pytest.raises(InvalidGraphError, match=r"2 nodes compute the HLO instruction 'fusion\.1'"):
        check(graph)


class _Spoil:
    """A pass with a mistake: what a node reads is computed after it."""

    name = "spoil"

    def run(self, graph: Graph) -> int:
        """Puts the nodes in the opposite order."""
        graph.body.reset(reversed(graph.body.nodes))
        graph.changed = True
        return 1


def test_a_mistake_in_a_pass_refuses_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (_named("f", part(X), part(A)), _named("g", part(A), part(Y)))
    monkeypatch.delenv("MODELWHEEL_VERIFY", raising=False)
    assert optimise(steps, ALLOCATIONS, [part(Y)], [_Spoil()]) == (steps, ALLOCATIONS)
    monkeypatch.setenv("MODELWHEEL_VERIFY", "1")
    with pytest.raises((UnprovenError, InvalidGraphError)):
        optimise(steps, ALLOCATIONS, [part(Y)], [_Spoil()])
