"""The text of a program."""

from __future__ import annotations

import pytest

from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.arrays import Slice
from modelwheel.program.expr import Expression, Operation
from modelwheel.program.steps import Step
from modelwheel.program.text import expression_text, lines_of, short_name, text_of
from modelwheel.program.view import View
from tests.support.programs import (
    FLOAT,
    branches,
    conditional,
    dense,
    dot,
    kernel,
    loop,
    matmul_program,
    part,
)


def test_a_whole_program() -> None:
    assert text_of(matmul_program()) == (
        "program for x86-64-v3 on x86_64-unknown-linux-gnu\n"
        "\n"
        "a0 parameter 0, 32 bytes\n"
        "a1 constant abababababab, 48 bytes\n"
        "a2 output, 24 bytes\n"
        "\n"
        "a2 f32[2,3] = dot a0 f32[2,4], a1 f32[4,3] {lhs_contracting=[1], rhs_contracting=[0]}\n"
        "\n"
        "result 0 = a2 f32[2,3]\n"
    )


def _lines(*steps: Step) -> list[str]:
    return list(lines_of(steps))


def test_operands_that_a_step_need_not_have_are_named() -> None:
    x, y = dense((4, 4), 0), dense((4, 4), 2, 64)
    step = dot(
        x, dense((4, 4), 1), y, epilogue=ops.Epilogue(low=0.0), accumulator=y, bias=dense((4,), 3)
    )
    named = step.model_copy(update={"origin": "dense/MatMul"})
    (line,) = _lines(named)
    assert line == (
        "a2+64 f32[4,4], accumulator=a2+64 f32[4,4] = dot a0 f32[4,4], a1 f32[4,4], bias=a3 f32[4] "
        "{lhs_contracting=[1], rhs_contracting=[0], epilogue={low=0.0}}  # dense/MatMul"
    )


def test_regions_are_indented() -> None:
    window = Slice(allocation=0, offset=128, size=64, step=-64, iterations=3)
    body = (kernel(window, part(1)),)
    assert _lines(loop(*body, trip_count=3)) == [
        "while {trip_count=3}",
        "  body:",
        "    a1 u8[64] = kernel a0+128-64i u8[64] {symbol=k}",
    ]
    assert _lines(conditional(part(2, 0, 1), body, ())) == [
        "conditional a2 pred[]",
        "  branch 0:",
        "    a1 u8[64] = kernel a0+128-64i u8[64] {symbol=k}",
    ]
    assert _lines(branches((), body))[:2] == ["branches", "  branch 1:"]


def test_strides_are_shown_where_they_are_not_those_of_rows() -> None:
    view = View(slice=part(0), element_type=FLOAT, shape=(2, 3), strides=(1, 4), start=2)
    assert _lines(Step(op=ops.Copy(), inputs={"source": view}, outputs={"destination": view})) == [
        "a0 f32[2,3]{1,4}@2 = copy a0 f32[2,3]{1,4}@2"
    ]


def test_code_is_nested_calls() -> None:
    code = Expression(
        operations=(
            Operation(opcode="read", input=0),
            Operation(opcode="constant", value=None),
            Operation(opcode="add", operands=(0, 1)),
            Operation(opcode="multiply", operands=(2, 2)),
            Operation(opcode="convert", operands=(3,), element_type=ElementType.INT32),
        ),
        results=(4, 0),
    )
    assert expression_text(code) == ("v2 = add(read0, -inf); convert_s32(multiply(v2, v2)), read0")


@pytest.mark.parametrize("element", list(ElementType))
def test_every_element_type_has_a_short_name(element: ElementType) -> None:
    assert short_name(element) != element.dtype
