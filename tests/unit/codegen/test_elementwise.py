"""Elementwise steps as C++."""

from __future__ import annotations

from modelwheel.codegen.thunks import ThunkWriter
from modelwheel.program import program as p
from modelwheel.program.arrays import Slice
from modelwheel.program.elementwise import Operation, Plane
from tests.support.programs import dense


def _gates(rows: int) -> p.Elementwise:
    states, sums = dense((rows, 8), 0).slice, dense((rows, 16), 1).slice
    moving = Slice(allocation=2, offset=rows * 96, size=rows * 32, step=-rows * 32, turns=4)
    return p.Elementwise(
        operations=1,
        rows=rows,
        columns=8,
        reads=(
            Plane(slice=states, start=0, row_step=8),
            Plane(slice=sums, start=8, row_step=16),
        ),
        masks=(Plane(slice=Slice(allocation=3, offset=0, size=rows), start=0, row_step=1),),
        code=(
            Operation(opcode="constant", value=1.0),
            Operation(opcode="subtract", operands=(2, 1)),
            Operation(opcode="gated_tanh", operands=(1, 3)),
            Operation(opcode="select", operands=(4, 0), mask=0),
            Operation(opcode="negate", operands=(5,)),
        ),
        writes=(
            Plane(slice=states, start=0, row_step=8),
            Plane(slice=moving, start=0, row_step=8),
        ),
        stored=(6, 6),
    )


def test_an_elementwise_step_is_a_type_and_a_call() -> None:
    writer = ThunkWriter(prefix="b2")
    loop = p.While(
        operations=1, trip_count=4, condition=(), condition_value=None, body=(_gates(2),)
    )
    head, *lines, end = [line.strip() for line in writer.write((loop,))]
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
        "v2[k] = splat<float, Lanes>(1.0F);",
        "v3[k] = v2[k] - v1[k];",
        "v4[k] = gated_tanh_of<Lanes>(v1[k], v3[k]);",
        "v5[k] = chosen<Lanes>(mask[0], v4[k], v0[k]);",
        "v6[k] = -v5[k];",
        "store<float, Lanes>(out[1] + j + k * Lanes, v6[k]);",
    ):
        assert value in text


def test_batch_sizes_share_the_code_of_elementwise_steps() -> None:
    few, many = ThunkWriter(prefix="b2"), ThunkWriter(prefix="b64")
    few.write((_gates(2),))
    many.write((_gates(64),))
    assert few.types == many.types
