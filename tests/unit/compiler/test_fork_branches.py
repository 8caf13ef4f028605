"""Loops that may run at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

import pytest

from modelwheel.compiler.ir.graph_check import check
from modelwheel.compiler.ir.graph_text import graph_text
from modelwheel.compiler.ir.lift import lift
from modelwheel.compiler.passes import optimise
from modelwheel.compiler.passes.fork_branches import ForkBranches
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.program import Program
from modelwheel.program.steps import Step
from modelwheel.program.traffic import bytes_of_step
from modelwheel.program.verify import verify
from modelwheel.program.view import View
from modelwheel.program.walk import leaves, total
from tests.support.programs import branches, conditional, dense, dot, kernel, loop, part

A, X, W, Y = range(4)
ALLOCATIONS = (
    Allocation(index=A, size=1 << 21, kind="temporary"),
    Allocation(index=X, size=1024, kind="parameter", parameter=0),
    Allocation(index=W, size=1024, kind="constant", constant_offset=0, sha256="ab" * 32),
    Allocation(index=Y, size=1024, kind="output"),
)
FIRST, SECOND, THIRD, SHARED = part(A), part(A, 64), part(A, 128), part(A, 1024)


def _direction(
    state: Slice, temporary: Slice, source: Slice | None = None, trip_count: int = 5
) -> Step:
    """An iteration makes a temporary of what it reads, and the state of the temporary."""
    body = (kernel(source or part(X), temporary), kernel(temporary, state))
    return loop(*body, trip_count=trip_count)


def _last(*reads: Slice) -> Step:
    return kernel(reads, part(Y), symbol="last")


def _kinds(steps: Sequence[Step], *results: Slice) -> list[str]:
    """The kinds of outer steps afterwards."""
    return [step.op.kind for step in _optimised(steps, *results)]


def _optimised(steps: Sequence[Step], *results: Slice) -> tuple[Step, ...]:
    places = results or (part(Y),)
    after, allocations = optimise(steps, ALLOCATIONS, places)
    verify(
        Program(
            triple="",
            cpu="",
            allocations=allocations,
            parameters=(),
            results=tuple(map(View.of_bytes, places)),
            steps=after,
        )
    )
    return after


def test_independent_loops_are_branches() -> None:
    """XLA gives the second the memory that the first no longer needs."""
    steps = (_direction(FIRST, SHARED), _direction(SECOND, SHARED), _last(FIRST, SECOND))
    graph = lift(steps, ALLOCATIONS, [part(Y)])
    assert ForkBranches().run(graph) == 1
    check(graph)
    lines = [line for line in graph_text(graph).splitlines() if "= parameter" not in line]
    assert (
        "\n".join(line for line in lines if "= constant" not in line)
        == dedent("""
        %1, %2 = branches
          branch 0:
            %3 = while (undefined) {trip_count=5}
              body(%4):
                %5 u8[64] = kernel %0 u8[64] {symbol=k}
                %6 u8[64] = kernel %5 u8[64] {symbol=k}
                yield %6
            yield %3
          branch 1:
            %7 = while (undefined) {trip_count=5}
              body(%8):
                %9 u8[64] = kernel %0 u8[64] {symbol=k}
                %10 u8[64] = kernel %9 u8[64] {symbol=k}
                yield %10
            yield %7
        %11 u8[64] = kernel %1 u8[64], %2 u8[64] {symbol=last}
        return %11
        """).strip()
    )


def test_any_number_of_loops() -> None:
    states = (FIRST, SECOND, THIRD)
    steps = _optimised([*(_direction(one, SHARED) for one in states), _last(*states)])
    assert [len(step.regions) for step in steps] == [3, 0]


def test_a_product_of_the_input_is_part_of_the_branch() -> None:
    products = [dense((4, 4), A, offset) for offset in (2048, 2112)]
    steps: list[Step] = []
    for state, product in zip((FIRST, SECOND), products, strict=True):
        steps.append(dot(dense((4, 4), X), dense((4, 4), W), product, operations=2))
        steps.append(_direction(state, SHARED, product.slice))
    fork, _ = _optimised([*steps, _last(FIRST, SECOND)])
    assert [[one.op.kind for one in region] for region in fork.regions] == [["dot", "while"]] * 2
    # One that others read too is not.
    shared, _, third, _ = steps
    second = _direction(SECOND, SHARED, products[0].slice)
    after = _optimised([shared, steps[1], third, second, _last(FIRST, SECOND, products[1].slice)])
    assert [step.op.kind for step in after] == ["dot", "dot", "branches", "kernel"]


def test_a_step_between_them_comes_first_if_it_is_independent() -> None:
    first, second = _direction(FIRST, SHARED), _direction(SECOND, SHARED)
    between = kernel(part(X), THIRD)
    steps = [first, between, second, _last(FIRST, SECOND, THIRD)]
    assert _kinds(steps) == ["kernel", "branches", "kernel"]
    steps[1] = kernel(FIRST, THIRD)
    assert _kinds(steps) == ["while", "kernel", "while", "kernel"]


def test_loops_in_loops_and_choices_are_branches_too() -> None:
    inner = (_direction(FIRST, SHARED), _direction(SECOND, SHARED), kernel((FIRST, SECOND), THIRD))
    (outer, _) = _optimised([loop(*inner, trip_count=3), _last(THIRD)])
    assert [step.op.kind for step in outer.regions[1]] == ["branches", "kernel"]
    choice = conditional(part(X, size=4), inner, (kernel(part(X), THIRD),))
    (outer, _) = _optimised([choice, _last(THIRD)])
    assert [step.op.kind for step in outer.regions[0]] == ["branches", "kernel"]


def test_branches_have_no_branches_in_them() -> None:
    def nested(state: Slice) -> Step:
        return loop(
            _direction(FIRST, SHARED), _direction(SECOND, SHARED), kernel((FIRST, SECOND), state)
        )

    states = (THIRD, part(A, 192))
    fork, _ = _optimised([*map(nested, states), _last(*states)])
    assert isinstance(fork.op, ops.Branches)
    for region in fork.regions:
        assert [one.op.kind for one in region[0].regions[1]] == ["while", "while", "kernel"]


def test_a_product_whose_memory_moves_with_an_outer_loop_stays_there() -> None:
    """The code of a branch has no iteration but those of its own loops."""
    moving = Slice(allocation=X, offset=0, size=64, step=64, iterations=3)
    row = dense((4, 4), X).model_copy(update={"slice": moving})
    product = dense((4, 4), A, 2048)
    body = (
        dot(row, dense((4, 4), W), product),
        _direction(FIRST, SHARED, product.slice),
        _direction(SECOND, SHARED),
        kernel((FIRST, SECOND), THIRD),
    )
    outer, _ = _optimised([loop(*body, trip_count=3), _last(THIRD)])
    assert [step.op.kind for step in outer.regions[1]] == ["dot", "branches", "kernel"]


_RANDOM = Step(op=ops.RandomState(delta=1), outputs={"state": View.of_bytes(part(A, 4096, 16))})
_LARGE = part(A, 1 << 19, 1 << 20)


@pytest.mark.parametrize(
    "steps",
    [
        (_direction(FIRST, SHARED), _direction(SECOND, SHARED, FIRST)),
        (
            _direction(FIRST, SHARED),
            loop(kernel(part(X), SECOND), trip_count=None, condition=(kernel((), THIRD),), value=part(A, 128, 1)),
        ),
        (loop(_RANDOM, kernel(part(X), FIRST)), loop(_RANDOM, kernel(part(X), SECOND))),
        (
            kernel(part(X), FIRST),
            loop(kernel(FIRST, SECOND)),
            loop(kernel((FIRST, part(X)), FIRST, symbol="update")),
        ),
        (_direction(FIRST, _LARGE), _direction(SECOND, _LARGE)),
    ],
    ids=[
        "the second reads what the first leaves",
        "the second ends when it says so",
        "both draw random numbers",
        "the second changes what the first reads",
        "more memory than it is worth",
    ],
)  # fmt: skip
def test_other_loops_run_one_after_the_other(steps: tuple[Step, ...]) -> None:
    after = _optimised([*steps, _last(FIRST, SECOND)])
    assert [step.op.kind for step in after] == [*(step.op.kind for step in steps), "kernel"]


def test_a_loop_that_does_not_fit_leaves_those_before_it_together() -> None:
    steps = (
        kernel(part(X), THIRD),
        loop(kernel(THIRD, FIRST)),
        _direction(SECOND, SHARED),
        loop(kernel((THIRD, part(X)), THIRD, symbol="update")),
        _last(FIRST, SECOND, THIRD),
    )
    assert _kinds(steps) == ["kernel", "branches", "while", "kernel"]


def test_results_of_the_program_are_where_callers_read_them() -> None:
    steps = (_direction(part(Y), SHARED), _direction(part(Y, 64), SHARED))
    assert _kinds(steps, part(Y), part(Y, 64)) == ["branches"]


def test_branches_are_counted_with_what_is_in_them() -> None:
    first, second = _direction(FIRST, SHARED), _direction(SECOND, THIRD)
    step = branches((first,), (second,))
    assert [runs for _, runs in leaves((step,))] == [5] * 4
    assert total((step,), bytes_of_step) == total((first, second), bytes_of_step) > 0
