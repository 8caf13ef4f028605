"""Steps that write what nobody reads are left out, and only these."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.elementwise import Plane
from modelwheel.compiler.passes.dead_stores import without_dead_stores
from modelwheel.program.arrays import Slice
from tests.support.thunks import dense

TURNS = 4


def _part(offset: int, size: int = 64, *, step: int = 0) -> Slice:
    return Slice(
        allocation=0, offset=offset, size=size, step=step, iterations=TURNS if step else 1
    )  # fmt: skip


INPUT = Slice(allocation=1, offset=0, size=64)


def _kernel(writes: Slice, reads: Slice = INPUT) -> p.Kernel:
    return p.Kernel(
        operations=0, symbol="k", workgroups=(1, 1, 1), arguments=(reads,), results=(writes,)
    )


def _copy(source: Slice, destination: Slice) -> p.Copy:
    return p.Copy(operations=0, source=source, destination=destination)


def _loop(*body: p.Thunk, turns: int | None = TURNS) -> p.While:
    return p.While(operations=0, trip_count=turns, condition=(), condition_value=None, body=body)


def _rows(where: Slice, *, row_step: int) -> p.Elementwise:
    """Two rows of eight floats."""
    read, write = (Plane(slice=one, start=0, row_step=row_step) for one in (INPUT, where))
    return p.Elementwise(
        operations=0,
        rows=2,
        columns=8,
        reads=(read,),
        masks=(),
        code=(),
        writes=(write,),
        stored=(0,),
    )


ZEROS, WHOLE, RESULT = _part(0, 256), _part(512, 256), _part(1024)
LAST = _kernel(RESULT, WHOLE)


def _kept(*thunks: p.Thunk, results: Sequence[Slice] = (RESULT,)) -> list[int]:
    left = without_dead_stores(thunks, results)
    return [number for number, one in enumerate(thunks) if any(one is other for other in left)]


@pytest.mark.parametrize("step", [64, -64])
def test_what_all_turns_of_a_loop_replace_is_not_filled_before(step: int) -> None:
    start = WHOLE.offset if step > 0 else WHOLE.offset + 192
    for turn in (
        _kernel(_part(start, step=step)),
        _copy(_part(2048), _part(start, step=step)),
        _rows(_part(start, step=step), row_step=8),
    ):
        assert _kept(_kernel(ZEROS), _copy(ZEROS, WHOLE), _loop(turn), LAST) == [2, 3]


@pytest.mark.parametrize(
    "loop",
    [
        _loop(_kernel(_part(512, 32, step=64))),  # with gaps
        _loop(_kernel(_part(512, step=64)), turns=None),  # perhaps in no turn
        _loop(_kernel(_part(512, step=64)), turns=TURNS + 1),  # as another loop turns
        _loop(_kernel(_part(512, step=32))),  # not to the end
        _loop(_loop(_kernel(_part(512, step=64)))),
        _loop(_rows(_part(512, step=64), row_step=4)),
        _loop(_rows(_part(512, 96, step=64), row_step=16)),  # not whole rows
        _loop(_kernel(_part(512, step=64), _part(704))),  # and reads what is there
        p.Conditional(operations=0, index=_part(4096, 4), branches=((_kernel(WHOLE),), ())),
    ],
)
def test_what_a_loop_may_leave_stays(loop: p.Thunk) -> None:
    assert _kept(_kernel(ZEROS), _copy(ZEROS, WHOLE), loop, LAST) == [0, 1, 2, 3]


def test_what_a_turn_writes_itself_it_does_not_read_from_before() -> None:
    own, collected = _part(2048), _part(512, step=64)
    fill = _kernel(own)
    writes, reads = _kernel(own), _kernel(collected, own)
    assert _kept(fill, _loop(writes, reads), LAST) == [1, 2]
    assert _kept(fill, _loop(reads, writes), LAST) == [0, 1, 2]
    # Of a part for each turn, it is not known what is there before.
    stepping = _kernel(_part(2048, step=16))
    assert _kept(fill, _loop(stepping, reads), LAST) == [0, 1, 2]
    assert _kept(fill, _loop(_loop(stepping), reads), LAST) == [0, 1, 2]
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
    branches = p.Branches(operations=0, branches=((first,), (second,)))
    assert _kept(_kernel(WHOLE), first, second, LAST) == [1, 2, 3]
    assert _kept(_kernel(WHOLE), branches, LAST) == [1, 2]
    assert _kept(_kernel(WHOLE), first, LAST) == [0, 1, 2]


def test_products_replace_their_results_unless_these_are_parts_of_rows() -> None:
    out = dense((8, 8), 0, offset=512)
    dot = p.Dot(
        operations=1,
        lhs=dense((8, 4), 1),
        rhs=dense((4, 8), 2),
        out=out,
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(1,),
        rhs_contracting=(0,),
    )
    assert _kept(_kernel(WHOLE), dot, LAST) == [1, 2]
    in_part = dot.model_copy(update={"out": out.model_copy(update={"row_step": 16})})
    assert _kept(_kernel(WHOLE), in_part, LAST) == [0, 1, 2]
    elsewhere = dot.model_copy(update={"epilogue": p.Epilogue(result=_part(2048, 256))})
    assert _kept(_kernel(WHOLE), elsewhere, LAST) == [0, 1, 2]


def test_other_steps_stay() -> None:
    assert _kept(_loop(_kernel(ZEROS)), LAST) == [0, 1]
