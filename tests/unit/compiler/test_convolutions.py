"""Convolutions that XLA has kernels of its own for: those that the runtime's kernels compute."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.passes.recognise.convolutions import convolution_kernel
from modelwheel.program import ops
from tests.support.modules import Emission

PLAIN = """
ENTRY main {
  x = f32[3,5,4] parameter(0)
  w = f32[8,2,6] constant({...})
  ROOT y = f32[3,4,6] convolution(x, w), window={size=8 stride=2 pad=4_5 rhs_reversal=1}, dim_labels=b0f_0io->b0f, feature_group_count=2
}
"""
"""The convolution of 3 x 5 x 4 by a window of 8 in two groups."""
ONE_GROUP = ((", feature_group_count=2", ""), ("f32[3,5,4]", "f32[3,5,2]"))
EXCHANGED = (
    ("f32[3,5,4] parameter(0)", "f32[3,5,2] constant({...})"),
    ("f32[8,2,6] constant({...})", "f32[8,2,6] parameter(0)"),
    (", feature_group_count=2", ""),
)
"""XLA has made the window the input."""


def _found(*changes: tuple[str, str]) -> p.Convolution | None:
    return convolution_kernel(*Emission(PLAIN, *changes).kernel())


def test_a_kernel_that_is_a_convolution() -> None:
    """convolution => convolution"""
    found = _found()
    assert found is not None
    assert [a.slice.allocation for a in found.arrays] == [0, 1, 2]
    assert [a.shape for a in found.arrays] == [(3, 5, 4), (8, 2, 6), (3, 4, 6)]
    assert found.operations == 2 * (3 * 4 * 6) * (8 * 2)
    assert found.feature_groups == 2
    assert found.kernel_axes == ops.Axes(batch=1, feature=2, spatial=(0,))
    window = ops.Window(
        size=8, stride=2, pad_low=4, pad_high=5, kernel_dilation=1, base_dilation=1, reversed=True
    )
    assert found.windows == (window,)


def test_the_operands_that_xla_exchanged_are_exchanged_back() -> None:
    """convolution of a constant by values => convolution of the values by the constant"""
    found = _found(*EXCHANGED)
    assert found is not None
    assert [a.slice.allocation for a in found.arrays] == [1, 0, 2]
    assert found.input_axes == ops.Axes(batch=2, feature=1, spatial=(0,))
    assert found.kernel_axes == ops.Axes(batch=2, feature=0, spatial=(1,))
    assert found.output_axes == ops.Axes(batch=2, feature=0, spatial=(1,))
    window = ops.Window(
        size=5, stride=2, pad_low=1, pad_high=2, kernel_dilation=1, base_dilation=1, reversed=True
    )
    assert found.windows == (window,)
    as_it_is = _found(*ONE_GROUP)
    assert as_it_is is not None
    assert _elements(found) == _elements(as_it_is)


def test_windows_that_are_not_reversed_stay() -> None:
    found = _found(*EXCHANGED, (" rhs_reversal=1", ""))
    assert found is not None
    assert [a.slice.allocation for a in found.arrays] == [0, 1, 2]
    single = _found(*EXCHANGED, (" rhs_reversal=1", ""), ("size=8", "size=1"), ("[8,", "[1,"))
    assert single is not None
    assert [a.slice.allocation for a in single.arrays] == [1, 0, 2]


def _elements(c: p.Convolution) -> set[tuple[int, int, int]]:
    """Which elements meet along the axis: the place in the result, in what XLA has as the input, and in the other."""
    (window,) = c.windows
    (axis,) = c.input_axes.spatial
    first = c.arrays[0].slice.allocation == 0
    met = set()
    for out in range(4):
        for tap in range(window.size):
            at = out * window.stride + (window.size - 1 - tap) - window.pad_low
            if 0 <= at < c.input.shape[axis]:
                met.add((out, at, tap) if first else (out, tap, at))
    return met


@pytest.mark.parametrize(
    "change",
    [
        ("convolution(", "fusion("),
        ("feature_group_count=2", "batch_group_count=3"),
        ("f32[3,5,4]", "s32[3,5,4]"),
        ("f32[3,5,4]", "f32[3,0,4]"),
    ],
)
def test_any_other_kernel_stays(change: tuple[str, str]) -> None:
    assert _found(change) is None


def test_a_kernel_whose_operands_are_one_stays() -> None:
    instruction, kernel = Emission(PLAIN).kernel()
    single = kernel.model_copy(update={"arguments": kernel.arguments[:1]})
    assert convolution_kernel(instruction, single) is None
