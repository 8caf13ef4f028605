"""Scalar expressions in C++."""

from __future__ import annotations

import pytest

from modelwheel.codegen.scalars import LANES, SCALARS, TYPED_LANES, write_expression
from modelwheel.dtypes import ElementType
from modelwheel.program.expr import OPERANDS, Expression, Opcode, Operation

READS = tuple(Operation(opcode="read", input=number) for number in range(3))


@pytest.mark.parametrize("opcode", [opcode for opcode, count in OPERANDS.items() if count])
def test_every_operation_is_in_a_vocabulary(opcode: Opcode) -> None:
    vocabularies = LANES, TYPED_LANES, SCALARS
    assert any(opcode in one.operations for one in vocabularies)


def test_operands_are_the_results_of_operations_before() -> None:
    expression = Expression(
        operations=(*READS, Operation(opcode="select", operands=(2, 0, 1))), results=(3, 0)
    )
    code = write_expression(expression, SCALARS, lambda read: f"in{read.input}")
    assert code.lines == (
        "const float v0 = in0;",
        "const float v1 = in1;",
        "const float v2 = in2;",
        "const float v3 = v2 ? v0 : v1;",
    )
    assert code.results == ("v3", "v0")


def test_conditions_of_lanes_are_repeated_where_they_are_operands() -> None:
    condition = Operation(opcode="read", input=1, element_type=ElementType.BOOL)
    operations = (
        condition,
        Operation(opcode="read", input=0),
        Operation(opcode="constant"),
        Operation(opcode="select", operands=(0, 1, 2)),
    )
    code = write_expression(
        Expression(operations=operations, results=(3,)),
        LANES,
        lambda leaf: f"{leaf.opcode}{leaf.input}",
    )
    values = [line.rpartition(" = ")[2] for line in code.lines]
    assert values == ["read0;", "constant0;", "chosen<Lanes>(read1, v0[k], v1[k]);"]
    assert code.results == ("v2[k]",)
