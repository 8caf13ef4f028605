"""Programs as values: strides, work, and what a JSON round trip keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.codegen.strides import Axis, dot_axes, merge, sort_extents
from modelwheel.errors import UnsupportedProgramError
from modelwheel.program import program as p
from modelwheel.program.traffic import bytes_moved
from modelwheel.program.walk import walk
from tests.support.programs import array, dense, matmul_program


def test_strides_follow_the_layout() -> None:
    assert array((2, 3, 4), minor_to_major=(2, 1, 0)).strides == (12, 4, 1)
    assert array((2, 3, 4), minor_to_major=(0, 1, 2)).strides == (1, 2, 6)


def test_a_program_survives_json(tmp_path: Path) -> None:
    program = matmul_program()
    program.save(tmp_path / "program.json")
    assert p.Program.load(tmp_path / "program.json") == program
    first = (tmp_path / "program.json").read_bytes()
    p.Program.load(tmp_path / "program.json").save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == first


def test_loops_count_by_their_trips() -> None:
    (dot,) = matmul_program().thunks
    loop = p.While(
        operations=dot.operations * 5,
        trip_count=5,
        condition=(),
        condition_value=None,
        body=(dot,),
    )
    program = matmul_program().model_copy(update={"thunks": (loop,)})
    assert program.operations == 5 * matmul_program().operations
    assert bytes_moved(program) == 5 * bytes_moved(matmul_program())
    assert list(walk(program.thunks)) == [loop, dot]


@pytest.mark.parametrize(
    ("shape", "minor_to_major", "axes", "expected"),
    [
        ((2, 3, 4), (2, 1, 0), (0, 1), Axis(6, 4)),
        ((2, 3, 4), (2, 1, 0), (1, 2), Axis(12, 1)),
        ((2, 3, 4), (2, 1, 0), (), Axis(1, 1)),
        ((2, 1, 4), (2, 1, 0), (0, 1), Axis(2, 4)),
        ((2, 1, 4), (0, 2, 1), (2,), Axis(4, 2)),
    ],
)
def test_axes_merge_where_memory_allows(
    shape: tuple[int, ...],
    minor_to_major: tuple[int, ...],
    axes: tuple[int, ...],
    expected: Axis,
) -> None:
    assert merge(array(shape, minor_to_major), axes) == expected


def test_axes_that_do_not_lie_like_one_are_refused() -> None:
    with pytest.raises(UnsupportedProgramError, match="cannot be merged"):
        merge(array((2, 3, 4), (2, 1, 0)), (0, 2))


def test_a_column_major_weight_is_told_by_its_layout_alone() -> None:
    rows, columns = dense((8, 4)), array((4, 6), minor_to_major=(0, 1))
    dot = p.Dot(
        operations=0,
        lhs=rows,
        rhs=columns,
        out=dense((8, 6)),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(1,),
        rhs_contracting=(0,),
    )
    axes = dot_axes(dot)
    assert axes.lhs == (Axis(1, 1), Axis(8, 4), Axis(4, 1))
    assert axes.rhs == (Axis(1, 1), Axis(4, 1), Axis(6, 4))
    assert axes.out == (Axis(1, 1), Axis(8, 6), Axis(6, 1))


def test_a_sort_is_seen_in_order_of_memory() -> None:
    operand = array((2, 3, 4), minor_to_major=(0, 2, 1))
    sort = p.Sort(operations=0, comparator="c", axis=2, operands=(operand,))
    assert sort_extents(sort) == (3, 4, 2)
