"""Stores that nobody reads: what XLA fills an array with before a loop replaces all of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelwheel.compiler.passes import optimise
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.expr import Expression, Operation
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from modelwheel.program.walk import walk
from tests.support.programs import (
    FLOAT,
    branches,
    conditional,
    copy,
    dense,
    dot,
    kernel,
    loop,
)

TURNS = 4
INPUT = Slice(allocation=1, offset=0, size=64)


def _part(offset: int, size: int = 64, step: int = 0) -> Slice:
    iterations = TURNS if step else 1
    return Slice(allocation=0, offset=offset, size=size, step=step, iterations=iterations)


def _kernel(result: Slice, argument: Slice = INPUT) -> Step:
    return kernel(argument, result)


def _loop(*body: Step, turns: int | None = TURNS) -> Step:
    flag = _part(4096, 1)
    condition = () if turns else (_kernel(flag),)
    return loop(*body, trip_count=turns, condition=condition, value=None if turns else flag)


def _rows(where: Slice, *, row_step: int) -> Step:
    """Two rows of eight floats."""
    read, write = (
        View(slice=one, element_type=FLOAT, shape=(2, 8), strides=(row_step, 1))
        for one in (INPUT, where)
    )
    code = Expression(operations=(Operation(opcode="read"),), results=(0,))
    return Step(op=ops.Elementwise(code=code), inputs={"read0": read}, outputs={"write0": write})


INDEX = Slice(allocation=1, offset=0, size=4)
ZEROS, WHOLE, RESULT = _part(0, 256), _part(512, 256), _part(1024)
LAST = _kernel(RESULT, WHOLE)


def _kept(*steps: Step, results: Sequence[Slice] = (RESULT,)) -> list[int]:
    """The numbers of the steps that are left. Each has a name that its copy keeps."""
    named = [one.model_copy(update={"origin": str(number)}) for number, one in enumerate(steps)]
    allocations = (
        Allocation(index=0, size=8192, kind="temporary"),
        Allocation(index=1, size=64, kind="parameter", parameter=0),
        Allocation(index=2, size=256, kind="parameter", parameter=1),
    )
    left, _ = optimise(named, allocations, results)
    return [int(one.origin) for one in left]


@pytest.mark.parametrize("step", [64, -64])
def test_what_all_turns_of_a_loop_replace_is_not_filled_before(step: int) -> None:
    start = WHOLE.offset if step > 0 else WHOLE.offset + 192
    for turn in (
        _kernel(_part(start, step=step)),
        copy(_part(2048), _part(start, step=step)),
        _rows(_part(start, step=step), row_step=8),
    ):
        assert _kept(_kernel(ZEROS), copy(ZEROS, WHOLE), _loop(turn), LAST) == [2, 3]
        # A part moves with the iterations of the innermost loop.
        assert _kept(_kernel(ZEROS), copy(ZEROS, WHOLE), _loop(_loop(turn)), LAST) == [2, 3]


@pytest.mark.parametrize(
    "loop",
    [
        _loop(_kernel(_part(512, 32, step=64))),  # with gaps
        _loop(_kernel(_part(512, step=64)), turns=None),  # perhaps in no turn
        _loop(_kernel(_part(512, step=64)), turns=TURNS + 1),  # as another loop turns
        _loop(_kernel(_part(512, step=32))),  # not to the end
        _loop(_rows(_part(512, step=64), row_step=4)),
        _loop(_rows(_part(512, 96, step=64), row_step=16)),  # not whole rows
        _loop(_kernel(_part(512, step=64), _part(704))),  # and reads what is there
        conditional(INDEX, (_kernel(WHOLE),), ()),
    ],
)
def test_what_a_loop_may_leave_stays(loop: Step) -> None:
    assert _kept(_kernel(ZEROS), copy(ZEROS, WHOLE), loop, LAST) == [0, 1, 2, 3]


def test_what_a_turn_writes_itself_it_does_not_read_from_before() -> None:
    own, collected = _part(2048), _part(512, step=64)
    fill = _kernel(own)
    writes, reads = _kernel(own), _kernel(collected, own)
    assert _kept(fill, _loop(writes, reads), LAST) == [1, 2]
    assert _kept(fill, _loop(reads, writes), LAST) == [0, 1, 2]
    # Of a part for each turn, it is not known what is there before.
    stepping = _kernel(_part(2048, step=16))
    assert _kept(fill, _loop(stepping, reads), LAST) == [0, 1, 2]
    assert _kept(fill, _loop(_loop(stepping), reads), LAST) == [1, 2]
    # A turn reads what the one before has left, or what was there before the loop.
    half = _kernel(own.model_copy(update={"size": 32}))
    assert _kept(fill, _loop(half, reads), LAST) == [0, 1, 2]


def test_what_anybody_reads_is_written() -> None:
    fill = _kernel(WHOLE)
    assert _kept(fill, _kernel(RESULT, _part(760, 8))) == [0, 1]
    assert _kept(fill, results=[_part(760, 8)]) == [0]
    assert _kept(fill, _kernel(WHOLE), results=[WHOLE]) == [1]
    # One that updates a value reads it.
    assert _kept(fill, _kernel(WHOLE, WHOLE), LAST) == [0, 1, 2]


def test_several_steps_may_replace_a_value_together() -> None:
    first, second = _kernel(_part(512, 128)), _kernel(_part(640, 128))
    both = branches((first,), (second,))
    assert _kept(_kernel(WHOLE), first, second, LAST) == [1, 2, 3]
    assert _kept(_kernel(WHOLE), both, LAST) == [1, 2]
    assert _kept(_kernel(WHOLE), first, LAST) == [0, 1, 2]


def test_products_replace_their_results_unless_these_are_parts_of_rows() -> None:
    out = dense((8, 8), 0, offset=512)
    product = dot(dense((8, 2), 1), dense((2, 8), 2), out)
    assert _kept(_kernel(WHOLE), product, LAST) == [1, 2]
    rows = out.model_copy(update={"strides": (16, 1), "slice": _part(512, 480)})
    in_part = product.model_copy(update={"outputs": {"out": rows}})
    assert _kept(_kernel(WHOLE), in_part, LAST) == [0, 1, 2]
    elsewhere = dense((8, 8), 0, offset=2048)
    moved = dot(
        dense((8, 2), 1), dense((2, 8), 2), elsewhere, epilogue=ops.Epilogue(), accumulator=out
    )
    assert _kept(_kernel(WHOLE), moved, _kernel(RESULT, _part(2048, 256))) == [1, 2]


def test_loops_and_products_that_nobody_reads_go_too() -> None:
    assert _kept(_loop(_kernel(ZEROS)), LAST) == [1]


def test_inside_of_loops_and_branches() -> None:
    store, body = _kernel(ZEROS), _kernel(WHOLE)
    inner = (loop(store, body, trip_count=2), branches((store,), (body,)))
    allocations = (
        Allocation(index=0, size=8192, kind="temporary"),
        Allocation(index=1, size=64, kind="parameter", parameter=0),
    )
    for one in inner:
        steps, _ = optimise([one], allocations, [WHOLE])
        kinds = [step.op.kind for step in walk(steps)]
        assert kinds == [one.op.kind, "kernel"]
