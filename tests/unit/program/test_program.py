"""Programs as values: strides, layouts, work, and what a JSON round trip keeps."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from modelwheel.codegen.strides import Axis, dot_axes, merge, sort_extents
from modelwheel.dtypes import ElementType
from modelwheel.errors import UnsupportedProgramError
from modelwheel.program import ops
from modelwheel.program.program import Program
from modelwheel.program.steps import Step
from modelwheel.program.traffic import bytes_moved
from modelwheel.program.view import View
from modelwheel.program.walk import leaves, walk
from tests.support.programs import (
    array,
    branches,
    conditional,
    dense,
    dot,
    kernel,
    loop,
    matmul_program,
    part,
    program,
)


def test_strides_follow_the_layout() -> None:
    assert array((2, 3, 4), order=(2, 1, 0)).strides == (12, 4, 1)
    assert array((2, 3, 4), order=(0, 1, 2)).strides == (1, 2, 6)


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 4), (2, 1, 4), (2, 3, 1)])
def test_a_layout_follows_from_the_strides(shape: tuple[int, ...]) -> None:
    for order in itertools.permutations(range(3)):
        found = array(shape, order)
        assert found.order == order
        assert dense(shape).ordered(order) == found
        assert found.is_row_major(ignoring_unit_axes=False) == (order == (2, 1, 0))


def test_axes_of_one_element_may_be_anywhere_in_a_row_major_array() -> None:
    moved = array((2, 1, 4), order=(2, 0, 1))
    assert moved.is_row_major()
    assert not moved.is_row_major(ignoring_unit_axes=False)
    column = dense((2, 4)).model_copy(update={"shape": (2, 1)})
    assert not column.is_row_major()


def test_a_program_survives_json(tmp_path: Path) -> None:
    program = matmul_program()
    program.save(tmp_path / "program.json")
    assert Program.load(tmp_path / "program.json") == program
    first = (tmp_path / "program.json").read_bytes()
    Program.load(tmp_path / "program.json").save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == first


def test_json_leaves_out_what_most_operands_have() -> None:
    """A kernel's operands are bytes, and there are thousands of them."""
    view = View.of_bytes(part(7, 64, 16))
    written = json.loads(view.to_json())
    assert written == {"slice": {"allocation": 7, "offset": 64, "size": 16}, "shape": [16]}
    assert View.model_validate(written) == view
    # What is left out can be nothing else.
    changed = view.model_copy(update={"start": 3, "element_type": ElementType.INT8})
    assert View.model_validate_json(changed.to_json()) == changed


def test_loops_count_by_their_trips() -> None:
    (product,) = matmul_program().steps
    repeated = loop(product, trip_count=5)
    program = matmul_program().model_copy(update={"steps": (repeated,)})
    assert program.operations == 5 * matmul_program().operations
    assert bytes_moved(program) == 5 * bytes_moved(matmul_program())
    assert list(walk(program.steps)) == [repeated, product]


def test_of_alternatives_the_largest_counts_and_of_branches_all() -> None:
    small, large = kernel(operations=3), kernel(operations=5)
    choice = conditional(part(0, size=1), (small,), (large, small))
    assert program(choice).operations == 8
    assert program(branches((small,), (large,))).operations == 8
    unknown = loop(small, choice, trip_count=None, condition=(large,), value=part(0, size=1))
    assert program(loop(unknown, trip_count=2)).operations == 2 * (5 + 3 + 8)
    found = [(step.operations, runs) for step, runs in leaves((loop(unknown, trip_count=4),))]
    assert found == [(5, 4), (3, 4), (3, 4), (5, 4), (3, 4)]


def test_what_is_changed_in_place_is_touched_once() -> None:
    keys = dense((4, 8))
    sort = Step(
        op=ops.Sort(comparator="c", axis=0), inputs={"operand0": keys}, outputs={"operand0": keys}
    )
    assert bytes_moved(program(sort)) == keys.slice.size


def test_of_a_table_only_the_rows_that_are_looked_up_are_touched() -> None:
    def lookup(count: int) -> Step:
        table, output = (
            View.dense(part(number, size=16 * rows), ElementType.UINT8, (rows, 16))
            for number, rows in enumerate((100, count))
        )
        indices = View.dense(part(2, size=4 * count), ElementType.INT32, (count,))
        inputs = {"table": table, "indices": indices}
        return Step(op=ops.Lookup(wrap=0), inputs=inputs, outputs={"output": output})

    assert bytes_moved(program(lookup(3))) == 3 * (16 + 4 + 16)
    assert bytes_moved(program(lookup(200))) == 100 * 16 + 200 * (4 + 16)


def test_symbols_are_kernels_and_comparators() -> None:
    keys = {"operand0": dense((4,))}
    sort = Step(op=ops.Sort(comparator="less", axis=0), inputs=keys, outputs=keys)
    assert program(kernel(symbol="b"), loop(sort, kernel(symbol="a"))).symbols == ("a", "b", "less")


# --- operands -----------------------------------------------------------------------------------------


_X = dense((2, 2))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"op": ops.Scaling(), "inputs": {"input": _X, "scale": _X}}, "has no input 'scale'"),
        ({"op": ops.Scaling(), "inputs": {"input": _X}}, "needs the input 'factors'"),
        ({"op": ops.Copy(), "inputs": {"source": _X}}, "needs the output 'destination'"),
        ({"op": ops.Kernel(symbol="k"), "inputs": {"argument": _X}}, "has no input 'argument'"),
        ({"op": ops.Kernel(symbol="k"), "outputs": {"out0": _X}}, "has no output 'out0'"),
        ({"op": ops.While(trip_count=1), "regions": ((),)}, "has 1 regions instead of 2"),
        ({"op": ops.Branches()}, "has 0 regions instead of 1"),
        ({"op": ops.Kernel(symbol="k"), "regions": ((),)}, "has 1 regions instead of 0"),
    ],
)
def test_a_step_has_the_operands_of_its_operation(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=f"a step of '[a-z]+' {said}"):
        Step.model_validate(fields)


@pytest.mark.parametrize("op", ops.Op.__subclasses__(), ids=lambda op: op.__name__)
def test_the_roles_of_an_operation_fit_each_other(op: type[ops.Op]) -> None:
    for roles in (op.INPUTS, op.OUTPUTS):
        names = [role.name for role in roles]
        assert len(set(names)) == len(names)
        assert not any(name[-1].isdigit() for name in names)
    inputs, outputs = ({role.name for role in roles} for roles in (op.INPUTS, op.OUTPUTS))
    for alias in op.ALIASES:
        assert alias.input in inputs
        assert alias.output in outputs
    # A name on both sides is one operand, which the step changes.
    both = {alias.output for alias in op.ALIASES if alias.must}
    assert inputs & outputs == both


# --- what kernels see ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "order", "axes", "expected"),
    [
        ((2, 3, 4), (2, 1, 0), (0, 1), Axis(6, 4)),
        ((2, 3, 4), (2, 1, 0), (1, 2), Axis(12, 1)),
        ((2, 3, 4), (2, 1, 0), (), Axis(1, 1)),
        ((2, 1, 4), (2, 1, 0), (0, 1), Axis(2, 4)),
        ((2, 1, 4), (0, 2, 1), (2,), Axis(4, 2)),
    ],
)
def test_axes_merge_where_memory_allows(
    shape: tuple[int, ...], order: tuple[int, ...], axes: tuple[int, ...], expected: Axis
) -> None:
    assert merge(array(shape, order), axes) == expected


def test_axes_that_do_not_lie_like_one_are_refused() -> None:
    with pytest.raises(UnsupportedProgramError, match="cannot be merged"):
        merge(array((2, 3, 4), (2, 1, 0)), (0, 2))


def test_a_column_major_weight_is_told_by_its_layout_alone() -> None:
    step = dot(dense((8, 4)), array((4, 6), order=(0, 1)), dense((8, 6)))
    assert isinstance(step.op, ops.Dot)
    axes = dot_axes(step, step.op)
    assert axes.lhs == (Axis(1, 1), Axis(8, 4), Axis(4, 1))
    assert axes.rhs == (Axis(1, 1), Axis(4, 1), Axis(6, 4))
    assert axes.out == (Axis(1, 1), Axis(8, 6), Axis(6, 1))


def test_a_sort_is_seen_in_order_of_memory() -> None:
    operands = {"operand0": array((2, 3, 4), order=(0, 2, 1))}
    op = ops.Sort(comparator="c", axis=2)
    assert sort_extents(Step(op=op, inputs=operands, outputs=operands), op) == (3, 4, 2)
