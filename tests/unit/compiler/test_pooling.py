"""Kernels that pool images or reduce rows: only windows that the runtime's kernels slide in the same way."""

from __future__ import annotations

import pytest

from modelwheel.compiler.passes.recognise.pooling import mean_of_images, pooling, row_reduction
from tests.support.modules import Emission

_REDUCERS = """
maximum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT larger = f32[] maximum(a, b)
}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
"""
IMAGES = f"""{_REDUCERS}
f {{
  x = f32[2,5,6,8] parameter(0)
  start = f32[] parameter(1)
  ROOT pool = f32[2,2,3,8] reduce-window(x, start), window={{size=1x3x2x1 stride=1x2x2x1 pad=0_0x0_0x1_0x0_0}}, to_apply=maximum
}}

ENTRY main {{
  x = f32[2,5,6,8] parameter(0)
  start = f32[] constant(-inf)
  ROOT f = f32[2,2,3,8] fusion(x, start), kind=kLoop, calls=f
}}
"""
WINDOWS_OF_ROWS = f"""{_REDUCERS}
f {{
  x = f32[3,100] parameter(0)
  start = f32[] parameter(1)
  ROOT sums = f32[3,4] reduce-window(x, start), window={{size=1x32 stride=1x32 pad=0_0x14_14}}, to_apply=add
}}

ENTRY main {{
  x = f32[3,100] parameter(0)
  start = f32[] constant(0)
  ROOT f = f32[3,4] fusion(x, start), kind=kLoop, calls=f
}}
"""
ROWS = f"""{_REDUCERS}
f {{
  x = f32[2,3,4,10] parameter(0)
  start = f32[] parameter(1)
  ROOT largest = f32[2,3] reduce(x, start), dimensions={{2,3}}, to_apply=maximum
}}

ENTRY main {{
  x = f32[2,3,4,10] parameter(0)
  start = f32[] constant(-inf)
  ROOT f = f32[2,3] fusion(x, start), kind=kLoop, calls=f
}}
"""
MEAN = f"""{_REDUCERS}
f {{
  x = f32[2,5,6,8] parameter(0)
  zero = f32[] constant(0)
  sums = f32[2,8] reduce(x, zero), dimensions={{1,2}}, to_apply=add
  factor = f32[] constant(0.25)
  factors = f32[2,8] broadcast(factor), dimensions={{}}
  means = f32[2,8] multiply(sums, factors)
  ROOT result = f32[2,1,1,8] bitcast(means)
}}

ENTRY main {{
  x = f32[2,5,6,8] parameter(0)
  ROOT f = f32[2,1,1,8] fusion(x), kind=kLoop, calls=f
}}
"""
_SUM = (("to_apply=maximum", "to_apply=add"), ("constant(-inf)", "constant(0)"))


def test_the_windows_of_a_pooling() -> None:
    """reduce-window => pooling"""
    instruction, kernel = Emission(IMAGES).kernel()
    found = pooling(instruction, kernel)
    assert found is not None
    assert (found.reducer, found.initial) == ("maximum", None)
    assert found.operations == kernel.operations == 2 * 2 * 3 * 8 * 6
    assert (found.batch, found.features) == (2, 8)
    assert (found.in_size, found.out_size) == ((5, 6), (2, 3))
    assert (found.window, found.stride, found.pad_low) == ((3, 2), (2, 2), (0, 1))


def test_a_sequence_is_an_image_with_one_column() -> None:
    """reduce-window of [2,60,8] => pooling of [2,60,1,8]"""
    windows = "size=1x32x1 stride=1x32x1 pad=0_0x3_1x0_0"
    sequence = Emission(
        IMAGES, ("f32[2,5,6,8]", "f32[2,60,8]"), ("f32[2,2,3,8]", "f32[2,2,8]"),
        ("size=1x3x2x1 stride=1x2x2x1 pad=0_0x0_0x1_0x0_0", windows), *_SUM,
    )  # fmt: skip
    found = pooling(*sequence.kernel())
    assert found is not None
    assert (found.batch, found.features) == (2, 8)
    assert (found.in_size, found.out_size) == ((60, 1), (2, 1))
    assert (found.window, found.stride, found.pad_low) == ((32, 1), (32, 1), (3, 0))


def test_sums_begin_with_a_number() -> None:
    found = pooling(*Emission(IMAGES, *_SUM).kernel())
    assert found is not None
    assert (found.reducer, found.initial) == ("sum", 0.0)
    assert pooling(*Emission(IMAGES, _SUM[0]).kernel()) is None


@pytest.mark.parametrize(
    "change",
    [
        (" maximum(", " minimum("),
        ("constant(-inf)", "constant(nan)"),
        ("f32[2,5,6,8]", "f32[2,5,6,8]{0,3,2,1}"),
        ("pad=0_0x0_0x1_0x0_0", "pad=0_0x0_0x1_0x0_0 rhs_dilate=1x1x2x1"),
        ("pad=0_0x0_0x1_0x0_0", "pad=0_0x0_0x1_0x0_0 lhs_dilate=1x1x2x1"),
        ("pad=0_0x0_0x1_0x0_0", "pad=0_0x0_0x1_0x0_0 rhs_reversal=0x0x1x0"),
    ],
)
def test_anything_else_stays_a_kernel(change: tuple[str, str]) -> None:
    assert pooling(*Emission(IMAGES, change).kernel()) is None


def test_the_windows_of_rows() -> None:
    """reduce-window along rows => row_reduction"""
    instruction, kernel = Emission(WINDOWS_OF_ROWS).kernel()
    found = row_reduction(instruction, kernel)
    assert found is not None
    assert (found.reducer, found.initial, found.operations) == ("sum", 0.0, kernel.operations)
    assert (found.rows, found.size) == (3, 100)
    assert (found.windows, found.window, found.pad_low) == (4, 32, 14)


def test_the_axes_of_a_reduction_may_be_several() -> None:
    """reduce of the fastest axes => row_reduction"""
    found = row_reduction(*Emission(ROWS).kernel())
    assert found is not None
    assert (found.reducer, found.initial) == ("maximum", None)
    assert (found.rows, found.size) == (6, 40)
    assert (found.windows, found.window, found.pad_low) == (1, 40, 0)


_LAST_AXIS = (("f32[2,3]", "f32[2,3,4]"), ("dimensions={2,3}", "dimensions={3}"))
_SWAPPED = ("f32[2,3,4,10]", "f32[2,3,4,10]{3,1,2,0}")


def test_the_result_of_a_reduction_has_the_order_of_the_rows() -> None:
    assert row_reduction(*Emission(ROWS, *_LAST_AXIS, _SWAPPED).kernel()) is None
    ordered = ("f32[2,3,4]", "f32[2,3,4]{1,2,0}")
    assert row_reduction(*Emission(ROWS, *_LAST_AXIS, _SWAPPED, ordered).kernel()) is not None


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (ROWS, (("f32[2,3]", "f32[2,3,10]"), ("dimensions={2,3}", "dimensions={2}"))),
        (ROWS, (*_LAST_AXIS, ("4,10]", "4,7]"))),
        (WINDOWS_OF_ROWS, (("f32[3,100]", "f32[3,100]{0,1}"),)),
        (WINDOWS_OF_ROWS, (("f32[3,4]", "f32[3,4]{0,1}"),)),
        (WINDOWS_OF_ROWS, (("stride=1x32", "stride=1x16"),)),
        (WINDOWS_OF_ROWS, (("pad=0_0x14_14", "pad=0_0x14_14 rhs_reversal=0x1"),)),
    ],
)
def test_reductions_of_anything_but_long_rows_stay_kernels(
    text: str, changes: tuple[tuple[str, str], ...]
) -> None:
    assert row_reduction(*Emission(text, *changes).kernel()) is None


def test_a_mean_of_images_is_a_pooling_with_a_factor() -> None:
    """reduce of places * factor => pooling {factor}"""
    found = mean_of_images(*Emission(MEAN).kernel())
    assert found is not None
    assert (found.batch, found.features, found.reducer) == (2, 8, "sum")
    assert found.in_size == found.window == (5, 6)
    assert found.out_size == (1, 1)
    assert (found.in_factor, found.factor) == (1.0, 0.25)


@pytest.mark.parametrize(
    "change",
    [
        ("dimensions={1,2}", "dimensions={2,3}"),
        ("dimensions={1,2}", "dimensions={1}"),
        ("to_apply=add", "to_apply=maximum"),
        ("constant(0)", "constant(1)"),
        ("constant(0.25)", "constant(inf)"),
    ],
)
def test_other_reductions_stay_kernels(change: tuple[str, str]) -> None:
    assert mean_of_images(*Emission(MEAN, change).kernel()) is None
