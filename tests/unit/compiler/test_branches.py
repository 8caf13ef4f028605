"""Loops that threads may run beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.lower import lower
from modelwheel.compiler.ir.emitted.memory import Memory
from modelwheel.compiler.ir.emitted.thunk_walk import all_written, slices, walk
from modelwheel.compiler.passes import optimise
from modelwheel.compiler.passes.branches import join_branches
from modelwheel.program.arrays import Allocation, AllocationKind, Slice, overlap
from modelwheel.program.traffic import bytes_of_step
from modelwheel.program.walk import leaves, total
from tests.support.thunks import dense

X, WEIGHTS, SHARED, FIRST, SECOND, BOTH, RESULT = range(7)
"""Allocations: what both loops read, their memory, and what is made of both."""
_SIZE = 4096


def _part(allocation: int, offset: int = 0, size: int = 64) -> Slice:
    return Slice(allocation=allocation, offset=offset, size=size)


def _kernel(arguments: Sequence[Slice], result: Slice) -> p.Kernel:
    return p.Kernel(
        operations=3,
        symbol="k",
        workgroups=(1, 1, 1),
        arguments=tuple(arguments),
        results=(result,),
    )


def _loop(*body: p.Thunk, turns: int | None = 5) -> p.While:
    return p.While(
        operations=15,
        trip_count=turns,
        condition=(),
        condition_value=None if turns else _part(BOTH),
        body=body,
    )


def _product(out: int, offset: int = 0) -> p.Dot:
    """Of the input, for all turns."""
    return p.Dot(
        operations=2,
        lhs=dense((4, 4), X),
        rhs=dense((4, 4), WEIGHTS),
        out=dense((4, 4), out, offset),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(1,),
        rhs_contracting=(0,),
    )


def _direction(own: int, temporary: Slice) -> p.While:
    """A turn makes a temporary of the state, and the state of the temporary."""
    return _loop(
        _kernel([_part(X), _part(own)], temporary), _kernel([temporary, _part(own)], _part(own))
    )


def _last(*more: Slice) -> p.Kernel:
    return _kernel([_part(FIRST), _part(SECOND), *more], _part(RESULT))


def _memory(
    kinds: Mapping[int, AllocationKind] | None = None, results: Sequence[Slice] = (_part(RESULT),)
) -> Memory:
    known: dict[int, AllocationKind] = {X: "parameter", WEIGHTS: "constant", RESULT: "output"}
    allocations = [
        Allocation(index=index, size=_SIZE, kind={**known, **(kinds or {})}.get(index, "temporary"))
        for index in range(RESULT + 1)
    ]
    return Memory(allocations, results)


def _branches(thunks: Sequence[p.Thunk]) -> list[p.Branches]:
    found = [thunk for thunk in thunks if isinstance(thunk, p.Branches)]
    for step in found:
        _require_apart(step)
    return found


def _require_apart(step: p.Branches) -> None:
    for first in step.branches:
        for second in step.branches:
            used = [part for one in walk(second) for part in slices(one)]
            changed = [part for one in first for part in all_written(one)]
            assert first is second or not any(overlap(a, b) for a in changed for b in used)


def test_independent_loops_are_branches() -> None:
    first, second = _direction(FIRST, _part(FIRST, 64)), _direction(SECOND, _part(SECOND, 64))
    before = _kernel([_part(X)], _part(FIRST))
    step, *rest = join_branches((before, first, second, _last()), _memory())[1:]
    assert isinstance(step, p.Branches)
    assert (step.branches, step.operations, rest) == (((first,), (second,)), 30, [_last()])
    _require_apart(step)


def test_any_number_of_loops() -> None:
    loops = [_direction(own, _part(own, 64)) for own in (FIRST, SECOND, BOTH)]
    (step,) = join_branches(loops, _memory())
    assert isinstance(step, p.Branches)
    assert step.branches == tuple((loop,) for loop in loops)


def test_a_product_of_the_input_is_part_of_the_branch() -> None:
    loops = [
        _loop(_kernel([_part(SHARED, offset)], _part(own)))
        for own, offset in ((FIRST, 0), (SECOND, 64))
    ]
    first, second = _product(SHARED), _product(SHARED, 64)
    (step,) = join_branches((first, loops[0], second, loops[1]), _memory())
    assert isinstance(step, p.Branches)
    assert step.branches == ((first, loops[0]), (second, loops[1]))


def test_a_step_between_them_comes_first_if_it_is_independent() -> None:
    first, second = _direction(FIRST, _part(FIRST, 64)), _direction(SECOND, _part(SECOND, 64))
    between = _kernel([_part(X)], _part(BOTH))
    moved, step = join_branches((first, between, second), _memory())
    assert moved == between
    assert isinstance(step, p.Branches)
    dependent = _kernel([_part(FIRST)], _part(BOTH))
    assert join_branches((first, dependent, second), _memory()) == (first, dependent, second)


@pytest.mark.parametrize("allocation", [SHARED, RESULT])
def test_a_temporary_in_the_same_memory_moves(allocation: int) -> None:
    """XLA also uses the memory of a result before that is written."""
    place = _part(allocation, 128)
    first, second = _direction(FIRST, place), _direction(SECOND, place)
    memory = _memory()
    last = _last()
    if allocation == RESULT:
        last = _kernel([_part(FIRST), _part(SECOND)], _part(RESULT, 0, _SIZE))
    (step,) = _branches(join_branches((first, second, last), memory))
    ((same,), (other,)) = step.branches
    assert same == first
    moved = [part for part in all_written(other) if memory.is_own(part)]
    assert [part.size for part in moved] == [64]
    assert other != second
    steps, allocations = optimise(
        lower((step, last)), memory.all_allocations, [_part(RESULT, 0, _SIZE)]
    )
    assert [one.op.kind for one in steps] == ["branches", "kernel"]
    assert len(allocations) == RESULT + 1


def test_where_the_second_cannot_move_the_first_may() -> None:
    """What the second leaves is a result."""
    place = _part(SHARED)
    first = _loop(_kernel([_part(X)], place), _kernel([place], _part(FIRST)))
    second = _loop(_kernel([_part(X)], place), _kernel([place], _part(SECOND)))
    memory = _memory(results=[place])
    (step,) = _branches(join_branches((first, second, _last()), memory))
    assert step.branches[1] == (second,)
    assert any(memory.is_own(part) for part in all_written(step.branches[0][0]))


def test_what_is_around_a_temporary_moves_with_it() -> None:
    def direction(own: int) -> p.While:
        whole = _part(SHARED, 0, 256)
        return _loop(_kernel([_part(X)], whole), _kernel([_part(SHARED, 64)], _part(own)))

    memory = _memory()
    (step,) = _branches(join_branches((direction(FIRST), direction(SECOND)), memory))
    loop = step.branches[1][0]
    assert isinstance(loop, p.While)
    second = loop.body[1]
    assert isinstance(second, p.Kernel)
    (argument,) = second.arguments
    assert (argument.offset, argument.size) == (64, 64)
    assert memory.is_own(argument)


_TEMPORARY = _part(SHARED)
_FIRST, _SECOND = _direction(FIRST, _TEMPORARY), _direction(SECOND, _part(SECOND, 64))


@pytest.mark.parametrize(
    ("thunks", "memory"),
    [
        # The second reads what the first has written, at once or in the end.
        ((_FIRST, _loop(_kernel([_part(FIRST)], _part(SECOND)))), _memory()),
        ((_loop(_kernel([_part(X)], _part(FIRST))), _direction(FIRST, _part(SECOND))), _memory()),
        # An input is not for temporaries.
        ((_FIRST, _direction(SECOND, _TEMPORARY)), _memory({SHARED: "parameter"})),
        # A loop that ends when it says so.
        ((_FIRST, _loop(_kernel([], _part(SECOND)), turns=None)), _memory()),
        ((_FIRST,), _memory()),
        # More memory than it is worth.
        (
            (
                _loop(_kernel([], _part(SHARED, 0, 1 << 20)), _kernel([], _part(FIRST))),
                _loop(_kernel([], _part(SHARED, 0, 1 << 20)), _kernel([], _part(SECOND))),
            ),
            _memory(),
        ),
    ],
)
def test_other_loops_run_one_after_the_other(thunks: Sequence[p.Thunk], memory: Memory) -> None:
    assert join_branches(thunks, memory) == thunks


def test_parts_of_what_is_read_later_do_not_move() -> None:
    """A kernel overwrites a part of a temporary, and the rest is a result."""
    rows = _part(SHARED, 0, 128)
    first = _loop(_kernel([_part(X)], rows), _kernel([rows], _part(FIRST)))
    second = _loop(_kernel([_part(X)], rows), _kernel([rows], _part(SECOND)))
    thunks = (first, second, _kernel([_part(SECOND)], _part(SHARED)))
    memory = _memory(results=[rows])
    (step,) = _branches(join_branches(thunks, memory))
    assert step.branches[1] == (second,)


def test_windows_that_move_are_apart_in_all_turns() -> None:
    def direction(own: int, offset: int, step: int) -> p.While:
        row = Slice(allocation=BOTH, offset=offset, size=64, step=step, iterations=5)
        return _loop(_kernel([_part(own)], row), _kernel([_part(own)], _part(own)))

    apart = (direction(FIRST, 0, 64), direction(SECOND, 640, -64))
    assert _branches(join_branches(apart, _memory()))
    meeting = (direction(FIRST, 0, 64), direction(SECOND, 512, -64))
    results = _memory(results=[_part(BOTH, 0, 1024)])
    assert join_branches(meeting, results) == meeting


def test_branches_are_counted_with_what_is_in_them() -> None:
    first, second = _direction(FIRST, _part(FIRST, 64)), _direction(SECOND, _part(SECOND, 64))
    step = p.Branches(operations=30, branches=((first,), (second,)))
    assert [runs for _, runs in leaves(lower((step,)))] == [5] * 4
    assert slices(step) == ()
    together, apart = lower((step,)), lower((first, second))
    assert total(together, bytes_of_step) == total(apart, bytes_of_step) > 0
