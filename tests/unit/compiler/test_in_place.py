"""Results that are written over the residuals that are added to them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.memory import Memory
from modelwheel.compiler.ir.emitted.thunk_walk import read, written
from modelwheel.compiler.passes.in_place import sum_in_results, write_over_addends
from modelwheel.program.arrays import Allocation, AllocationKind, Slice
from tests.support.thunks import dense

_ROWS, _COLUMNS = 64, 256
_SIZE = _ROWS * _COLUMNS * 4
X, WEIGHTS, SUMS, FIRST, SECOND, LAST = range(6)
"""Allocations: two results, of which the second has the first as its addend."""


def _place(allocation: int, size: int = _SIZE) -> Slice:
    return Slice(allocation=allocation, offset=0, size=size)


def _dot(
    result: int,
    addend: int | None = None,
    *,
    lhs: int = X,
    columns: int = _COLUMNS,
    rows: int = _ROWS,
) -> p.Dot:
    size = rows * columns * 4
    return p.Dot(
        operations=1,
        lhs=dense((rows, _COLUMNS), lhs),
        rhs=dense((_COLUMNS, columns), WEIGHTS),
        out=dense((rows, columns), SUMS),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(1,),
        rhs_contracting=(0,),
        epilogue=p.Epilogue(
            result=_place(result, size),
            addend=None if addend is None else _place(addend, size),
        ),
    )


def _kernel(*arguments: int, result: int = LAST) -> p.Kernel:
    return p.Kernel(
        operations=1,
        symbol="k",
        workgroups=(1, 1, 1),
        arguments=tuple(map(_place, arguments)),
        results=(_place(result),),
    )


def _memory(kinds: dict[int, AllocationKind], results: Sequence[Slice] = ()) -> Memory:
    allocations = [
        Allocation(index=index, size=_SIZE, kind=kinds.get(index, "temporary"))
        for index in range(LAST + 1)
    ]
    return Memory(allocations, results)


def _places(thunk: p.Thunk) -> tuple[Slice | None, Slice]:
    """The addend and the result of a product."""
    assert isinstance(thunk, p.Dot)
    assert thunk.epilogue is not None
    return thunk.epilogue.addend, thunk.epilogue.result


def test_a_result_is_where_its_addend_was() -> None:
    thunks = (_dot(FIRST), _kernel(FIRST), _dot(SECOND, FIRST), _kernel(SECOND))
    first, _, second, last = write_over_addends(thunks, _memory({}))
    assert first == thunks[0]
    assert _places(second) == (_place(FIRST), _place(FIRST))
    assert isinstance(last, p.Kernel)
    assert last.arguments == (_place(FIRST),)


def test_one_after_the_other() -> None:
    thunks = (_dot(FIRST), _dot(SECOND, FIRST), _dot(LAST, SECOND), _kernel(LAST, result=X))
    *_, second, third, last = write_over_addends(thunks, _memory({}))
    assert _places(second) == _places(third) == (_place(FIRST), _place(FIRST))
    assert isinstance(last, p.Kernel)
    assert last.arguments == (_place(FIRST),)


def test_an_addend_moves_if_its_memory_is_used_again() -> None:
    again = _kernel(X, result=FIRST)
    thunks = (_dot(FIRST), _kernel(FIRST), _dot(SECOND, FIRST), again, _kernel(SECOND))
    memory = _memory({})
    first, reader, second, between, last = write_over_addends(thunks, memory)
    own = _places(first)[1]
    assert memory.is_own(own)
    assert _places(second) == (own, own)
    assert between == again
    for kernel in (reader, last):
        assert isinstance(kernel, p.Kernel)
        assert kernel.arguments == (own,)


def test_what_an_addend_has_replaced_moves_with_it() -> None:
    # `again` writes where the first is while the third is read: all three move.
    again = _kernel(X, result=FIRST)
    thunks = (_dot(FIRST), _dot(SECOND, FIRST), _dot(LAST, SECOND), again, _kernel(LAST, result=X))
    memory = _memory({})
    first, second, third, between, last = write_over_addends(thunks, memory)
    own = _places(first)[1]
    assert memory.is_own(own)
    assert _places(second) == _places(third) == (own, own)
    assert between == again
    assert isinstance(last, p.Kernel)
    assert last.arguments == (own,)


def test_what_an_addend_has_replaced_stays_with_it_if_no_product_has_written_it() -> None:
    again = _kernel(X, result=FIRST)
    before = (_kernel(X, result=FIRST), _dot(SECOND, FIRST))
    thunks = (*before, _dot(LAST, SECOND), again, _kernel(LAST, result=X))
    _, second, third, *_ = write_over_addends(thunks, _memory({}))
    assert _places(second) == (_place(FIRST), _place(FIRST))
    assert _places(third) == (_place(FIRST), _place(LAST))


def test_what_is_written_when_nobody_reads_the_result_any_more_spoils_nothing() -> None:
    thunks = (_dot(FIRST), _dot(SECOND, FIRST), _kernel(SECOND), _kernel(X, result=FIRST))
    _, second, *_ = write_over_addends(thunks, _memory({}))
    assert _places(second) == (_place(FIRST), _place(FIRST))


@pytest.mark.parametrize(
    ("thunks", "memory"),
    [
        ((_dot(FIRST), _dot(SECOND, FIRST), _kernel(SECOND, FIRST)), _memory({})),
        ((_dot(FIRST), _dot(SECOND, FIRST), _kernel(FIRST)), _memory({})),
        ((_dot(SECOND, FIRST), _kernel(SECOND)), _memory({FIRST: "parameter"})),
        ((_dot(FIRST), _dot(SECOND, FIRST)), _memory({}, [_place(SECOND)])),
        ((_dot(FIRST), _dot(SECOND, FIRST)), _memory({}, [_place(FIRST)])),
        ((_dot(FIRST), _dot(SECOND, FIRST, lhs=FIRST), _kernel(SECOND)), _memory({})),
        (
            (
                _dot(FIRST),
                _dot(SECOND, FIRST),
                p.Sort(
                    operations=1,
                    comparator="c",
                    axis=0,
                    operands=(dense((_ROWS, _COLUMNS), SECOND),),
                ),
            ),
            _memory({}),
        ),
        ((_kernel(X, result=FIRST), _dot(SECOND, FIRST), _kernel(X, result=FIRST), _kernel(SECOND)), _memory({})),
    ],
    ids=[
        "read with the result",
        "read later",
        "an input",
        "a result of the program",
        "the addend a result of the program",
        "read as an operand",
        "changed in place",
        "not by a product, and used again",
    ],
)  # fmt: skip
def test_the_result_stays_where_it_is(thunks: tuple[p.Thunk, ...], memory: Memory) -> None:
    assert write_over_addends(thunks, memory) == thunks


@pytest.mark.parametrize(("rows", "columns"), [(64, 257), (64, 264), (3, 256)])
def test_parts_of_vectors_and_small_results_stay(rows: int, columns: int) -> None:
    second = _dot(SECOND, FIRST, rows=rows, columns=columns)
    thunks = (_dot(FIRST, rows=rows, columns=columns), second)
    assert write_over_addends(thunks, _memory({})) == thunks


def test_sums_are_where_the_result_is() -> None:
    apart, added = _dot(FIRST), _dot(FIRST, SECOND)
    over = _dot(FIRST, FIRST)
    for thunk, summed in zip(
        (apart, added, over), sum_in_results((apart, added, over)), strict=True
    ):
        assert isinstance(summed, p.Dot)
        assert summed.out.slice == _place(FIRST)
        assert summed.model_copy(update={"out": thunk.out}) == thunk


@pytest.mark.parametrize(
    "thunk",
    [
        _dot(X),
        _dot(FIRST, lhs=FIRST),
        _dot(FIRST, FIRST, lhs=FIRST),
        _dot(SUMS),
        _dot(FIRST).model_copy(update={"epilogue": None}),
        _kernel(X),
    ],
    ids=[
        "over an operand",
        "over another one",
        "over an operand that is added too",
        "the same already",
        "nothing follows",
        "no product",
    ],
)
def test_sums_stay_where_they_are(thunk: p.Thunk) -> None:
    assert sum_in_results((thunk,)) == (thunk,)


# --- any program ----------------------------------------------------------------------------------


@st.composite
def _programs(draw: st.DrawFn) -> tuple[p.Thunk, ...]:
    """Products, with and without something that is added, and kernels; nothing is read before it is written."""
    full, thunks = {X}, list[p.Thunk]()
    places = [FIRST, SECOND, SUMS, LAST, LAST + 1]
    for _ in range(draw(st.integers(2, 9))):
        lhs, result = draw(st.sampled_from(sorted(full))), draw(st.sampled_from(places))
        addend = draw(st.none() | st.sampled_from(sorted(full)))
        sums = draw(st.sampled_from([place for place in places if place not in (lhs, addend)]))
        if draw(st.integers(0, 3)) == 0:
            thunks.append(_kernel(lhs, result=result))
        else:
            dot = _dot(result, addend, lhs=lhs)
            thunks.append(dot.model_copy(update={"out": dense((_ROWS, _COLUMNS), sums)}))
            full.discard(sums)
        full.add(result)
    return (*thunks, _kernel(*sorted(full), result=LAST + 1))


def _seen(thunks: Sequence[p.Thunk], results: Sequence[Slice]) -> list[list[int]]:
    """What each thunk reads, and callers in the end: the numbers of the thunks that wrote it."""
    content: dict[Slice, int] = {}
    seen = []
    for number, thunk in enumerate(thunks):
        sums = thunk.out.slice if isinstance(thunk, p.Dot) else None
        # In any order: `read` has none.
        seen.append(sorted(content.get(part, -1) for part in read(thunk)))
        for part in written(thunk):
            content[part] = -2 if part == sums else number
        content[written(thunk)[-1]] = number
    return [*seen, [content.get(part, -1) for part in results]]


@given(_programs())
def test_every_thunk_reads_what_it_read_before(thunks: tuple[p.Thunk, ...]) -> None:
    allocations = [
        Allocation(index=index, size=_SIZE, kind="parameter" if index == X else "temporary")
        for index in range(LAST + 2)
    ]
    results = [_place(LAST + 1)]
    memory = Memory(allocations, results)
    changed = sum_in_results(write_over_addends(thunks, memory))
    assert _seen(changed, results) == _seen(thunks, results)
