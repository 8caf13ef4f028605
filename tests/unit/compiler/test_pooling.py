"""Kernels that pool images or reduce rows: only windows that the runtime's kernels slide in the same way."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from tests.support.graphs import lines_after
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


def _graph(text: str, *changes: tuple[str, str], loops: bool = False) -> Graph:
    return Emission(text, *changes).graph(["f"], f="output", loops=loops)


def _line(text: str, *changes: tuple[str, str]) -> str:
    """The only node after a rewrite."""
    (line,) = lines_after(RecogniseKernels(), _graph(text, *changes), rewrites=1)
    return line


def _stays(text: str, *changes: tuple[str, str]) -> bool:
    """Whether nothing is rewritten."""
    (line,) = lines_after(RecogniseKernels(), _graph(text, *changes), rewrites=0)
    return " = kernel " in line


def test_the_windows_of_a_pooling() -> None:
    """reduce-window => pooling"""
    graph = _graph(IMAGES)
    assert lines_after(RecogniseKernels(), graph, rewrites=1) == [
        (
            "%1 f32[2,2,3,8] = pooling %0 f32[2,5,6,8] "
            "{reducer=maximum, initial=null, window=[3,2], stride=[2,2], pad_low=[0,1]}"
        ),
    ]
    assert graph.body.nodes[0].operations == 2 * 2 * 3 * 8 * 6


def test_loops_pool_too() -> None:
    assert lines_after(RecogniseKernels(), _graph(IMAGES, loops=True), rewrites=1) == [
        "%1 = while (undefined) {trip_count=2}",
        "  body(%2):",
        (
            "    %3 f32[2,2,3,8] = pooling %0 f32[2,5,6,8] "
            "{reducer=maximum, initial=null, window=[3,2], stride=[2,2], pad_low=[0,1]}"
        ),
        "    yield %3",
    ]


def test_a_sequence_is_an_image_with_one_column() -> None:
    """reduce-window of [2,60,8] => pooling of [2,60,1,8]"""
    windows = "size=1x32x1 stride=1x32x1 pad=0_0x3_1x0_0"
    sequence = _line(
        IMAGES, ("f32[2,5,6,8]", "f32[2,60,8]"), ("f32[2,2,3,8]", "f32[2,2,8]"),
        ("size=1x3x2x1 stride=1x2x2x1 pad=0_0x0_0x1_0x0_0", windows), *_SUM,
    )  # fmt: skip
    assert sequence == (
        "%1 f32[2,2,1,8] = pooling %0 f32[2,60,1,8] "
        "{reducer=sum, initial=0.0, window=[32,1], stride=[32,1], pad_low=[3,0]}"
    )


def test_the_windows_of_volumes() -> None:
    """reduce-window of [2,4,5,6,8] => volume_pooling"""
    windows = "size=1x2x3x2x1 stride=1x2x2x2x1 pad=0_0x1_0x0_0x1_0x0_0"
    volumes = _line(
        IMAGES, ("f32[2,5,6,8]", "f32[2,4,5,6,8]"), ("f32[2,2,3,8]", "f32[2,2,2,3,8]"),
        ("size=1x3x2x1 stride=1x2x2x1 pad=0_0x0_0x1_0x0_0", windows),
    )  # fmt: skip
    assert volumes == (
        "%1 f32[2,2,2,3,8] = volume_pooling %0 f32[2,4,5,6,8] {plane={reducer=maximum, initial=null, "
        "window=[3,2], stride=[2,2], pad_low=[0,1]}, window=2, stride=2, pad_low=1}"
    )


_BYTES = (
    ("f32[]", "s8[]"),
    ("f32[2,5,6,8]", "s8[2,5,6,8]"),
    ("f32[2,2,3,8]", "s8[2,2,3,8]"),
    ("constant(-inf)", "constant(-128)"),
)


def test_maxima_of_bytes() -> None:
    """reduce-window of s8[2,5,6,8] => pooling"""
    assert _line(IMAGES, *_BYTES) == (
        "%1 s8[2,2,3,8] = pooling %0 s8[2,5,6,8] "
        "{reducer=maximum, initial=-128.0, window=[3,2], stride=[2,2], pad_low=[0,1]}"
    )
    assert _stays(IMAGES, *_BYTES, ("to_apply=maximum", "to_apply=add"))


def test_sums_begin_with_a_number() -> None:
    assert "{reducer=sum, initial=0.0, " in _line(IMAGES, *_SUM)
    assert _stays(IMAGES, _SUM[0])


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
    assert _stays(IMAGES, change)


def test_windows_over_the_images_stay_a_kernel() -> None:
    """Windows read what others have overwritten."""
    graph = Emission(IMAGES, at={"f": "x"}).graph(["f"], x="temporary")
    assert RecogniseKernels().run(graph) == 0


def test_the_windows_of_rows() -> None:
    """reduce-window along rows => row_reduction"""
    graph = _graph(WINDOWS_OF_ROWS)
    operations = graph.body.nodes[0].operations
    assert lines_after(RecogniseKernels(), graph, rewrites=1) == [
        "%1 f32[3,4] = row_reduction %0 f32[3,100] {reducer=sum, initial=0.0, window=32, pad_low=14}",
    ]
    assert graph.body.nodes[0].operations == operations > 0


def test_the_axes_of_a_reduction_may_be_several() -> None:
    """reduce of the fastest axes => row_reduction"""
    assert _line(ROWS) == (
        "%1 f32[6,1] = row_reduction %0 f32[6,40] {reducer=maximum, initial=null, window=40, pad_low=0}"
    )


_LAST_AXIS = (("f32[2,3]", "f32[2,3,4]"), ("dimensions={2,3}", "dimensions={3}"))
_SWAPPED = ("f32[2,3,4,10]", "f32[2,3,4,10]{3,1,2,0}")


def test_the_result_of_a_reduction_has_the_order_of_the_rows() -> None:
    assert _stays(ROWS, *_LAST_AXIS, _SWAPPED)
    ordered = ("f32[2,3,4]", "f32[2,3,4]{1,2,0}")
    assert " = row_reduction " in _line(ROWS, *_LAST_AXIS, _SWAPPED, ordered)


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
    assert _stays(text, *changes)


def test_a_mean_of_images_is_a_pooling_with_a_factor() -> None:
    """reduce of places * factor => pooling {factor}"""
    assert _line(MEAN) == (
        "%1 f32[2,1,1,8] = pooling %0 f32[2,5,6,8] "
        "{reducer=sum, initial=0.0, window=[5,6], stride=[1,1], pad_low=[0,0], factor=0.25}"
    )


def test_a_mean_may_be_of_multiples() -> None:
    """reduce of x * factor => pooling {in_factor}: the end of a hard swish, which the layer before computes but for this."""
    sixth = (
        "sixth = f32[] constant(0.125)\n  sixths = f32[2,5,6,8] broadcast(sixth), dimensions={}\n"
        "  parts = f32[2,5,6,8] multiply(x, sixths)\n  sums = f32[2,8] reduce(parts, zero)"
    )
    assert "in_factor=0.125, factor=0.25}" in _line(
        MEAN, ("sums = f32[2,8] reduce(x, zero)", sixth)
    )


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
    assert _stays(MEAN, change)
