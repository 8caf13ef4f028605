"""What is wrong with a program, in one sentence."""

from __future__ import annotations

import pytest

from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.program import Program
from modelwheel.program.steps import Step
from modelwheel.program.verify import InvalidProgramError, verify
from modelwheel.program.view import View
from tests.support.programs import (
    branches,
    conditional,
    copy,
    dense,
    dot,
    kernel,
    loop,
    matmul_program,
    part,
)

A, X, W = range(3)


def _program(*steps: Step, results: tuple[Slice, ...] = ()) -> Program:
    return Program(
        triple="",
        cpu="",
        allocations=(
            Allocation(index=A, size=1024, kind="temporary"),
            Allocation(index=X, size=1024, kind="parameter", parameter=0),
            Allocation(index=W, size=1024, kind="constant", sha256="ab" * 32),
        ),
        parameters=(View.of_bytes(part(X, 0, 1024)),),
        results=tuple(map(View.of_bytes, results)),
        steps=steps,
    )


def test_a_program_that_is_right() -> None:
    verify(matmul_program())
    window = Slice(allocation=A, offset=256, size=64, step=64, iterations=3)
    verify(
        _program(
            kernel(part(X), part(A)),
            kernel((part(A), part(X)), part(A)),
            loop(copy(part(A), window), trip_count=3),
            results=(part(A, 256, 192),),
        )
    )


_X, _W, _Y = dense((4, 4), X), dense((4, 4), W), dense((4, 4), A)


@pytest.mark.parametrize(
    ("steps", "mistake"),
    [
        ([kernel(part(A), part(A, 64))], "'argument0' that nothing has written before"),
        ([kernel(part(X), part(A, 1000))], "'result0' at bytes 1000 to 1064 of allocation 0, which has 1024"),
        ([kernel(part(X), part(9))], "'result0' in allocation 9 of 3"),
        ([copy(part(X), part(X, 32))], "writes 'destination' to memory that it reads as 'source'"),
        ([dot(_X, _W, _X)], "writes 'out' to memory that it reads as 'lhs'"),
        ([dot(_X, dense((3, 4), W), _Y)], "multiplies [4, 4] by [3, 4], whose axes do not fit"),
        ([dot(_X, _W, dense((4, 3), A))], "has a result of shape [4, 3] instead of [4, 4]"),
        (
            [kernel(part(X), (part(A), part(A, 32)))],
            "writes its outputs 'result0' and 'result1' to the same memory",
        ),
        (
            [branches((copy(part(X), part(A)),), (copy(part(X), part(A, 32)),))],
            "has branches 0 and 1 that share memory that one writes",
        ),
        # In a choice, one branch is not enough.
        (
            [conditional(part(X, 0, 4), (copy(part(X), part(A)),), ()), kernel(part(A), part(A, 64))],
            "step 1 of the program: the kernel reads memory as 'argument0' that nothing has written before",
        ),
        # A loop with a condition may end before it begins.
        (
            [
                loop(copy(part(X), part(A)), trip_count=None, condition=(kernel(part(X), part(A, 64, 1)),),
                     value=part(A, 64, 1)),
                kernel(part(A), part(A, 128)),
            ],
            "'argument0' that nothing has written before",
        ),
    ],
)  # fmt: skip
def test_a_mistake_names_the_step_and_the_rule(steps: list[Step], mistake: str) -> None:
    with pytest.raises(InvalidProgramError, match=r"step [01] of the program: the ") as raised:
        verify(_program(*steps))
    assert mistake in str(raised.value)


def test_all_results_are_written() -> None:
    with pytest.raises(InvalidProgramError, match="no step of the program writes all of result 0"):
        verify(_program(kernel(part(X), part(A)), results=(part(A, 0, 128),)))


def test_a_product_may_replace_its_factors_if_its_sums_are_elsewhere() -> None:
    sums = dense((4, 4), A, 64)
    begin, last = kernel(part(X), part(A)), ops.Epilogue()
    verify(_program(begin, dot(_Y, _W, _Y, epilogue=last, accumulator=sums)))
    with pytest.raises(InvalidProgramError, match="'out' to memory that it reads as 'lhs'"):
        verify(_program(begin, dot(_Y, _W, _Y, epilogue=last, accumulator=_Y)))


def test_an_operation_in_place_is_in_place() -> None:
    def sort(source: View, target: View) -> Step:
        op = ops.Sort(comparator="less", axis=0)
        return Step(op=op, inputs={"operand0": source}, outputs={"operand0": target})

    begin = kernel(part(X), part(A))
    verify(_program(begin, sort(_Y, _Y)))
    with pytest.raises(InvalidProgramError, match="changes 'operand0' in place, but writes"):
        verify(_program(begin, sort(_Y, dense((4, 4), A, 64))))
