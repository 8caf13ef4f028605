"""Sums that are where results will be, and results that are written over the residuals that are added to them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelwheel.compiler.passes import optimise
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from tests.support.programs import array, dense, dot, kernel, loop, pointwise

_ROWS, _COLUMNS = 64, 256
_SIZE = _ROWS * _COLUMNS * 4
X, W, Y, SUMS, FIRST, SECOND, THIRD = range(7)
"""Allocations: an input, weights, a result, memory for sums, and what products compute."""
ALLOCATIONS = (
    Allocation(index=X, size=_SIZE, kind="parameter", parameter=0),
    Allocation(index=W, size=1 << 18, kind="constant", constant_offset=0, sha256="ab" * 32),
    Allocation(index=Y, size=_SIZE, kind="output"),
    *(Allocation(index=index, size=_SIZE, kind="temporary") for index in range(SUMS, THIRD + 1)),
)


def _whole(allocation: int) -> Slice:
    return Slice(allocation=allocation, offset=0, size=_SIZE)


def _dot(
    result: int,
    addend: int | None = None,
    *,
    lhs: int = X,
    columns: int = _COLUMNS,
    rows: int = _ROWS,
) -> Step:
    operands = {} if addend is None else {"addend": dense((rows, columns), addend)}
    step = dot(
        dense((rows, _COLUMNS), lhs),
        dense((_COLUMNS, columns), W),
        dense((rows, columns), result),
        epilogue=ops.Epilogue(),
        accumulator=dense((rows, columns), SUMS),
    )
    return step.model_copy(update={"inputs": {**step.inputs, **operands}})


def _kernel(*sources: int, result: int = Y) -> Step:
    return kernel(tuple(map(_whole, sources)), _whole(result))


def _optimised(steps: Sequence[Step], result: int = Y) -> tuple[tuple[Step, ...], int]:
    """The steps, and the bytes of their temporaries."""
    after, allocations = optimise(steps, ALLOCATIONS, [_whole(result)])
    return after, sum(a.size for a in allocations if a.kind == "temporary")


def _is_over(step: Step) -> bool:
    """Whether the result of a product is where its addend was."""
    assert "addend" in step.inputs
    return step.inputs["addend"].slice == step.outputs["out"].slice


# --- results over addends -----------------------------------------------------------------------------


def test_a_result_is_where_its_addend_was() -> None:
    steps = (_dot(FIRST), _dot(SECOND, FIRST), _dot(THIRD, SECOND), _kernel(THIRD))
    (_, second, third, last), size = _optimised(steps)
    assert _is_over(second)
    assert _is_over(third)
    assert last.inputs["argument0"].slice == third.outputs["out"].slice
    assert size == _SIZE


def test_what_xla_writes_where_the_addend_was_is_elsewhere() -> None:
    again = _kernel(X, result=FIRST)
    steps = (_dot(FIRST), _dot(SECOND, FIRST), again, _kernel(SECOND, FIRST))
    (_, second, between, last), size = _optimised(steps)
    assert _is_over(second)
    assert last.inputs["argument0"].slice == second.outputs["out"].slice
    assert last.inputs["argument1"].slice == between.outputs["result0"].slice
    assert size == 2 * _SIZE


def test_in_an_iteration_too() -> None:
    body = (_dot(FIRST), _dot(SECOND, FIRST), _kernel(SECOND))
    ((step,), _) = _optimised((loop(*body),))
    assert _is_over(step.regions[1][1])


@pytest.mark.parametrize(
    ("steps", "result"),
    [
        ((_dot(FIRST), _dot(SECOND, FIRST), _kernel(SECOND, FIRST)), Y),
        ((_dot(SECOND, X), _kernel(SECOND)), Y),
        ((_dot(FIRST), _dot(Y, FIRST)), Y),
        ((_dot(Y), _dot(SECOND, Y), _kernel(SECOND, result=THIRD)), Y),
        ((_dot(FIRST), _dot(SECOND, FIRST, lhs=FIRST), _kernel(SECOND)), Y),
        ((_dot(FIRST), loop(_dot(SECOND, FIRST), _kernel(SECOND))), Y),
    ],
    ids=[
        "read later",
        "an input",
        "a result of the program",
        "the addend a result of the program",
        "read as an operand",
        "read in other iterations",
    ],
)
def test_the_result_stays_elsewhere(steps: tuple[Step, ...], result: int) -> None:
    after, _ = _optimised(steps, result)
    inner = [one for step in after for one in (step, *(s for r in step.regions for s in r))]
    assert [_is_over(step) for step in inner if "addend" in step.inputs] in ([False], [])


@pytest.mark.parametrize(("rows", "columns"), [(64, 257), (64, 264), (3, 256)])
def test_parts_of_vectors_and_small_results_stay(rows: int, columns: int) -> None:
    sizes = [a.model_copy(update={"size": 1 << 18}) for a in ALLOCATIONS]
    part = Slice(allocation=SECOND, offset=0, size=rows * columns * 4)
    first, second = (
        _dot(FIRST, rows=rows, columns=columns),
        _dot(SECOND, FIRST, rows=rows, columns=columns),
    )
    target = part.model_copy(update={"allocation": Y})
    (_, after, _), _ = optimise((first, second, kernel(part, target)), sizes, [target])
    assert not _is_over(after)


# --- sums in results ----------------------------------------------------------------------------------


def _sums(step: Step) -> tuple[Slice, Slice]:
    return step.outputs["accumulator"].slice, step.outputs["out"].slice


@pytest.mark.parametrize("addend", [None, THIRD, FIRST])
def test_sums_are_where_the_result_is(addend: int | None) -> None:
    steps = (
        _kernel(X, result=THIRD),
        _kernel(X, result=FIRST),
        _dot(FIRST, addend),
        _kernel(FIRST),
    )
    after, size = _optimised(steps)
    sums, result = _sums(next(step for step in after if isinstance(step.op, ops.Dot)))
    assert sums == result
    assert size <= 2 * _SIZE


def test_sums_of_a_loop_too() -> None:
    ((step,), size) = _optimised((loop(_dot(FIRST), _kernel(FIRST)),))
    sums, result = _sums(step.regions[1][0])
    assert sums == result
    assert size == _SIZE


@pytest.mark.parametrize(
    "step",
    [_dot(FIRST, lhs=FIRST), _dot(FIRST, FIRST, lhs=FIRST)],
    ids=["over an operand", "over one that is added too"],
)
def test_sums_stay_where_they_are(step: Step) -> None:
    (_, after, _), _ = _optimised((_kernel(X, result=FIRST), step, _kernel(FIRST)))
    sums, result = _sums(after)
    assert sums != result


def test_sums_of_a_convolution_over_its_addend_stay() -> None:
    """Its kernel reads all addends after the first sums are written."""
    out, sums = (array((2, 5, 8), (2, 1, 0), where) for where in (FIRST, SUMS))
    step = pointwise(X, W, FIRST, ops.Epilogue())
    for over in (True, False):
        added = out if over else array((2, 5, 8), (2, 1, 0), THIRD)
        changed = step.model_copy(
            update={
                "inputs": {**step.inputs, "addend": added},
                "outputs": {"out": out, "accumulator": sums},
            }
        )
        before = kernel(_whole(X), added.slice)
        target = Slice(allocation=Y, offset=0, size=out.slice.size)
        steps = (before, changed, kernel(out.slice, target))
        (_, after, _), _ = optimise(steps, ALLOCATIONS, [target])
        found, result = _sums(after)
        assert (found == result) is not over
        assert _is_over(after) is over


def test_a_step_without_an_epilogue_has_no_other_memory() -> None:
    views: dict[str, View] = {"lhs": dense((4, 4), X), "rhs": dense((4, 4), W)}
    step = dot(views["lhs"], views["rhs"], dense((4, 4), Y))
    result = step.outputs["out"].slice
    assert optimise((step,), ALLOCATIONS, [result])[0] == (step,)
