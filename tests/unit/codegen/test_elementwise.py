"""Elementwise steps as C++."""

from __future__ import annotations

from modelwheel.codegen.calls import CALLS
from modelwheel.codegen.writer import StepWriter
from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.arrays import Slice
from modelwheel.program.expr import Expression, Operation
from modelwheel.program.steps import Step, numbered
from modelwheel.program.view import View
from tests.support.programs import dense, loop, part


def _gates(rows: int) -> Step:
    """The new state of a recurrent layer: of rows where a condition is true."""
    states, sums = dense((rows, 8), 0), dense((rows, 16), 1)
    gates = sums.model_copy(update={"shape": (rows, 8), "start": 8})
    moving = Slice(allocation=2, offset=rows * 96, size=rows * 32, step=-rows * 32, iterations=4)
    condition = View(
        slice=part(3, size=rows), element_type=ElementType.BOOL, shape=(rows, 8), strides=(1, 0)
    )
    code = Expression(
        operations=(
            Operation(opcode="read", input=0),
            Operation(opcode="read", input=1),
            Operation(opcode="read", input=2, element_type=ElementType.BOOL),
            Operation(opcode="constant", value=1.0),
            Operation(opcode="subtract", operands=(3, 1)),
            Operation(opcode="gated_tanh", operands=(1, 4)),
            Operation(opcode="select", operands=(2, 5, 0)),
            Operation(opcode="negate", operands=(6,)),
        ),
        results=(7, 7),
    )
    return Step(
        op=ops.Elementwise(code=code),
        inputs=numbered("read", [states, gates, condition]),
        outputs=numbered("write", [states, states.model_copy(update={"slice": moving})]),
        operations=1,
    )


def test_an_elementwise_step_is_a_type_and_a_call() -> None:
    writer = StepWriter(CALLS, prefix="b2")
    head, *lines, end = [line.strip() for line in writer.write([loop(_gates(2), trip_count=4)])]
    assert (head, end) == ("for (std::int64_t trip = 0; trip < 4; ++trip) {", "}")
    ((name, text),) = writer.types.items()
    assert lines == [
        "{",
        "const Plane<const float> reads[] = {{as<const float>(a0) + 0, 8}, {as<const float>(a1) + 8, 16}};",
        "const Plane<const char> masks[] = {{as<const char>(a3) + 0, 1}};",
        "const Plane<float> writes[] = {{as<float>(a0) + 0, 8}, {as<float>(a2 + 192 + trip * -64) + 0, 8}};",
        f"elementwise<{name}>(2, reads, masks, writes);",
        "}",
    ]
    assert "kReads = 2, kMasks = 1, kWrites = 2, kColumns = 8;" in text
    for value in (
        "v0[k] = load<float, Lanes>(in[0] + j + k * Lanes);",
        "v1[k] = load<float, Lanes>(in[1] + j + k * Lanes);",
        "v2[k] = splat<float, Lanes>(1.0F);",
        "v3[k] = v2[k] - v1[k];",
        "v4[k] = gated_tanh_of<Lanes>(v1[k], v3[k]);",
        "v5[k] = chosen<Lanes>(mask[0], v4[k], v0[k]);",
        "v6[k] = -v5[k];",
        "store<float, Lanes>(out[1] + j + k * Lanes, v6[k]);",
    ):
        assert value in text


def test_batch_sizes_share_the_code_of_elementwise_steps() -> None:
    few, many = StepWriter(CALLS, prefix="b2"), StepWriter(CALLS, prefix="b64")
    few.write([_gates(2)])
    many.write([_gates(64)])
    assert few.types == many.types
