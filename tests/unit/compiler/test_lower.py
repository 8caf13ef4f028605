"""Thunks as steps: the same memory, with shapes and distances where thunks have fields."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from modelwheel.compiler.ir.emitted import lower as lowering
from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.elementwise import Operation, Plane
from modelwheel.compiler.ir.emitted.lower import lower
from modelwheel.compiler.ir.emitted.masks import MaskCode, MaskOperation, MaskRead
from modelwheel.compiler.ir.emitted.thunk_walk import slices, written
from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.arrays import Slice
from modelwheel.program.steps import Step
from modelwheel.program.walk import reads, writes
from modelwheel.program.walk import slices as slices_of
from tests.support.thunks import dense, pointwise, pooling


def _part(allocation: int, size: int = 64) -> Slice:
    return Slice(allocation=allocation, offset=0, size=size)


def _step(thunk: p.Thunk) -> Step:
    (step,) = lower((thunk,))
    return step


def _dot(**changes: Any) -> p.Dot:
    fields: dict[str, Any] = {
        "operations": 7, "origin": "dense", "lhs": dense((2, 4), 0), "rhs": dense((4, 3), 1),
        "out": dense((2, 3), 2), "lhs_batch": (), "rhs_batch": (), "lhs_contracting": (1,),
        "rhs_contracting": (0,),
    }  # fmt: skip
    return p.Dot(**(fields | changes))


_EPILOGUE = p.Epilogue(
    result=_part(3, 24), bias=_part(4, 12), addend=_part(5, 24), low=0.0, activation="tanh"
)
_LOOKUP = p.Lookup(
    operations=1,
    table=_part(0, 800),
    indices=_part(1, 16),
    output=_part(2),
    count=4,
    index_type=ElementType.INT32,
    wrap=50,
    rows=50,
    row_bytes=16,
)
_POOLING = pooling(_part(2), _part(3), padding=0.5)


def test_every_thunk_has_a_step() -> None:
    union, _ = get_args(p.Thunk)
    assert set(get_args(union)) == set(lowering._LOWER)


@pytest.mark.parametrize(
    "thunk",
    [
        _dot(),
        _dot(epilogue=_EPILOGUE),
        pointwise(0, 1, 2).model_copy(update={"epilogue": _EPILOGUE}),
        _POOLING,
        _LOOKUP,
        p.Copy(operations=0, source=_part(0), destination=_part(1)),
    ],
    ids=lambda thunk: thunk.kind,
)
def test_a_step_reads_and_writes_the_same_memory(thunk: p.Thunk) -> None:
    step = _step(thunk)
    order = Slice.model_dump_json
    assert sorted(slices_of(step), key=order) == sorted(slices(thunk), key=order)
    assert sorted(writes(step), key=order) == sorted(written(thunk), key=order)
    assert (step.operations, step.origin) == (thunk.operations, thunk.origin)


def test_an_epilogue_has_its_sums_apart_from_the_result() -> None:
    step = _step(_dot(epilogue=_EPILOGUE))
    assert isinstance(step.op, ops.Dot)
    assert step.op.epilogue == ops.Epilogue(low=0.0, activation="tanh")
    assert step.outputs["out"].slice == _EPILOGUE.result
    assert step.outputs["accumulator"].slice == _part(2, 24)
    assert step.inputs["bias"].shape == (3,)
    assert step.inputs["addend"].shape == step.outputs["out"].shape == (2, 3)


def test_parts_of_wider_rows_have_their_distance() -> None:
    wide = dense((2, 3), 2).model_copy(update={"row_step": 5})
    assert _step(_dot(out=wide)).outputs["out"].strides == (5, 1)
    assert _step(_POOLING).inputs["input"].strides == (16, 8, 4, 1)
    assert _step(pooling(_part(2), _part(3), in_step=6)).inputs["input"].strides == (24, 12, 6, 1)
    rows = p.CopyRows(
        operations=0, source=_part(0, 32), destination=_part(1, 96), rows=2, columns=4, step=12
    )
    step = _step(rows)
    assert step.inputs["source"].is_row_major()
    assert (step.outputs["destination"].shape, step.outputs["destination"].strides) == (
        (2, 4),
        (12, 1),
    )


def test_loops_have_the_operations_of_their_steps() -> None:
    loop = p.While(
        operations=15,
        trip_count=None,
        condition=(_dot(operations=1),),
        condition_value=_part(9, 1),
        body=(_dot(operations=5), _dot(operations=9)),
    )
    step = _step(loop)
    assert step.operations == 0
    assert [[inner.operations for inner in region] for region in step.regions] == [[1], [5, 9]]
    assert reads(step) == (_part(9, 1),)
    assert step.inputs["condition"].element_type == ElementType.BOOL
    choice = p.Conditional(operations=7, index=_part(9, 4), branches=((_dot(),), ()))
    assert _step(choice).inputs["index"].element_type == ElementType.INT32


def test_code_of_rows_reads_numbers_and_then_conditions() -> None:
    planes = [Plane(slice=_part(n, 32), start=n, row_step=4) for n in range(2)]
    code = (
        Operation(opcode="constant", value=0.5),
        Operation(opcode="multiply", operands=(1, 2)),
        Operation(opcode="select", operands=(0, 3), mask=0),
    )
    step = _step(
        p.Elementwise(
            operations=3,
            rows=2,
            columns=4,
            reads=tuple(planes),
            masks=(Plane(slice=_part(7, 2), start=0, row_step=1),),
            code=code,
            writes=(Plane(slice=_part(8, 32), start=0, row_step=4),),
            stored=(4,),
        )
    )
    assert isinstance(step.op, ops.Elementwise)
    operations = step.op.code.operations
    assert [one.opcode for one in operations[:3]] == ["read"] * 3
    assert [view.strides for view in step.inputs_of("read")] == [(4, 1), (4, 1), (1, 0)]
    assert [view.start for view in step.inputs_of("read")] == [0, 1, 0]
    assert [one.operands for one in operations[3:]] == [(), (1, 3), (2, 0, 4)]
    assert [one.value for one in operations[3:]] == [0.5, None, None]
    assert step.op.code.results == (5,)


def test_each_way_of_reading_a_mask_is_an_operand() -> None:
    read = {"opcode": "read", "element_type": ElementType.INT32, "number": 0}
    operations = (
        MaskOperation.model_validate({**read, "steps": (0, 0, 1, 0)}),
        MaskOperation.model_validate({**read, "start": 2, "steps": (0, 0, 0, 1)}),
        MaskOperation(opcode="ge", element_type=ElementType.BOOL, operands=(0, 1)),
    )
    tokens = MaskRead(slice=_part(0, 80), element_type=ElementType.INT32)
    step = _step(
        p.Mask(
            operations=3,
            extents=(1, 2, 20, 20),
            step=32,
            code=MaskCode(reads=(tokens,), operations=operations),
            output=_part(1, 5120),
        )
    )
    first, second = step.inputs_of("read")
    assert (first.strides, first.start) == ((0, 0, 1, 0), 0)
    assert (second.strides, second.start) == ((0, 0, 0, 1), 2)
    output = step.outputs["output"]
    assert output.element_type == ElementType.INT32  # a condition
    assert (output.shape, output.strides) == ((1, 2, 20, 20), (1280, 640, 32, 1))
