"""Arrays of any layout as the strides of the kernels, compared with NumPy's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from modelwheel.codegen.strides import Axis, dot_axes, merge, sort_extents
from modelwheel.errors import UnsupportedProgramError
from modelwheel.program import ops
from modelwheel.program.steps import Step, numbered
from modelwheel.program.view import View
from tests.support.programs import array, dense


@pytest.mark.parametrize("layout", list(itertools.permutations(range(3))))
def test_merged_axes_reach_the_same_elements(layout: tuple[int, ...]) -> None:
    """Every pair of axes, in every layout: merged, they visit the offsets that NumPy visits, or are refused."""
    shape = (2, 3, 4)
    values = np.empty(math.prod(shape), np.int64)
    memory = np.arange(values.size).reshape([shape[axis] for axis in reversed(layout)])
    seen = memory.transpose([list(reversed(layout)).index(axis) for axis in range(3)])
    for pair in itertools.permutations(range(3), 2):
        offsets = [int(seen[tuple(at)]) for at in indices(shape, pair)]
        try:
            merged = merge(array(shape, layout), pair)
        except UnsupportedProgramError:
            assert len(set(np.diff(offsets))) > 1
        else:
            assert offsets == [merged.stride * index for index in range(merged.size)]


def indices(shape: tuple[int, ...], pair: tuple[int, ...]) -> list[list[int]]:
    """Indices along two axes, the first one slower; zero elsewhere."""
    found = []
    for outer, inner in itertools.product(range(shape[pair[0]]), range(shape[pair[1]])):
        at = [0, 0, 0]
        at[pair[0]], at[pair[1]] = outer, inner
        found.append(at)
    return found


def test_axes_of_extent_one_do_not_matter() -> None:
    assert merge(dense((1, 5, 1)), (0, 1, 2)) == Axis(5, 1)
    assert merge(dense((1, 1)), (0, 1)) == merge(dense((3,)), ()) == Axis(1, 1)


def test_a_transposed_factor_has_its_strides() -> None:
    op = ops.Dot(lhs_contracting=(1,), rhs_contracting=(1,))
    inputs = {"lhs": dense((2, 4)), "rhs": dense((3, 4), 1)}
    axes = dot_axes(Step(op=op, inputs=inputs, outputs={"out": dense((2, 3), 2)}), op)
    assert axes.lhs == (Axis(1, 1), Axis(2, 4), Axis(4, 1))
    assert axes.rhs == (Axis(1, 1), Axis(4, 1), Axis(3, 4))
    assert axes.out == (Axis(1, 1), Axis(2, 3), Axis(3, 1))


@pytest.mark.parametrize(
    ("axis", "layout", "extents"),
    [(0, (2, 1, 0), (1, 2, 12)), (1, (2, 1, 0), (2, 3, 4)), (2, (2, 1, 0), (6, 4, 1)),
     (0, (0, 1, 2), (12, 2, 1))],
)  # fmt: skip
def test_extents_around_a_sorted_axis(
    axis: int, layout: tuple[int, ...], extents: tuple[int, int, int]
) -> None:
    def extents_of(*operands: View) -> tuple[int, int, int]:
        op, views = ops.Sort(comparator="less", axis=axis), numbered("operand", operands)
        return sort_extents(Step(op=op, inputs=views, outputs=views), op)

    operand = array((2, 3, 4), layout)
    assert extents_of(operand) == extents
    if axis == 1:
        with pytest.raises(UnsupportedProgramError, match="different layouts"):
            extents_of(operand, array((2, 3, 4), (0, 1, 2)))
