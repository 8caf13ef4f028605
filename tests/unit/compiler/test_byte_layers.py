"""Layers of 8-bit integers: convolutions read bytes, and compute what follows their sums."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.byte_layers import FuseByteLayers
from modelwheel.compiler.passes.erase_dead import EraseDead
from modelwheel.compiler.passes.narrow_products import NarrowProducts
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from tests.support.graphs import lines_after
from tests.support.modules import Emission

_PADDED = """
largest {
  a = s8[] parameter(0)
  b = s8[] parameter(1)
  ROOT m = s8[] maximum(a, b)
}

window {
  x = s8[2,6,6,8] parameter(0)
  lowest = s8[] parameter(1)
  ROOT w = s8[2,8,8,8] reduce-window(x, lowest), window={size=1x1x1x2 stride=1x1x1x2 pad=0_0x1_1x1_1x0_1 lhs_dilate=1x1x1x2}, to_apply=largest
}
"""
"""A kernel that pads its first argument."""

LAYER = (
    _PADDED
    + """
left {
  x = s8[2,8,8,8] parameter(0)
  ROOT c = s32[2,8,8,8] convert(x)
}

right {
  x = s8[3,3,8,16] parameter(0)
  ROOT c = s32[3,3,8,16] convert(x)
}

scaled {
  sums = s32[2,6,6,16] parameter(0)
  factors = f32[16] parameter(1)
  other = s8[2,6,6,16] parameter(2)
  wide = f32[2,6,6,16] convert(sums)
  each = f32[2,6,6,16] broadcast(factors), dimensions={3}
  product = f32[2,6,6,16] multiply(wide, each)
  more = f32[2,6,6,16] convert(other)
  total = f32[2,6,6,16] add(product, more)
  whole = f32[2,6,6,16] round-nearest-even(total)
  low = f32[] constant(0)
  lows = f32[2,6,6,16] broadcast(low), dimensions={}
  high = f32[] constant(255)
  highs = f32[2,6,6,16] broadcast(high), dimensions={}
  inside = f32[2,6,6,16] clamp(lows, whole, highs)
  unsigned = u8[2,6,6,16] convert(inside)
  integer = s32[2,6,6,16] convert(unsigned)
  way = s32[] constant(-128)
  ways = s32[2,6,6,16] broadcast(way), dimensions={}
  moved = s32[2,6,6,16] add(integer, ways)
  ROOT bytes = s8[2,6,6,16] convert(moved)
}

ENTRY main {
  x = s8[2,6,6,8] parameter(0)
  w = s8[3,3,8,16] parameter(1)
  factors = f32[16] parameter(2)
  other = s8[2,6,6,16] parameter(3)
  lowest = s8[] constant(-128)
  same = s8[2,8,8,8] fusion(x, lowest), kind=kLoop, calls=window
  l = s32[2,8,8,8] fusion(same), kind=kLoop, calls=left
  r = s32[3,3,8,16] fusion(w), kind=kLoop, calls=right
  sums = s32[2,6,6,16] convolution(l, r), window={size=3x3}, dim_labels=b01f_01io->b01f
  ROOT y = s8[2,6,6,16] fusion(sums, factors, other), kind=kLoop, calls=scaled
}
"""
)
"""What XLA makes of a quantised convolution of padded images, to which others are added."""


def _narrowed(*changes: tuple[str, str]) -> Graph:
    graph = Emission(LAYER, *changes).graph(["y"], y="output", w="constant")
    assert NarrowProducts().run(graph) == 1
    EraseDead().run(graph)
    return graph


def test_convolutions_read_bytes_and_pad_them() -> None:
    (line, _) = lines_after(EraseDead(), _narrowed(), rewrites=0)
    assert "s32[2,6,6,16] = convolution %0 s8[2,6,6,8], " in line
    assert line.count("pad_low=1, pad_high=1") == 2
    assert "padding=-128" in line


def test_padding_of_another_number_stays() -> None:
    """Windows that begin outside have the initial value, which is no identity then."""
    graph = _narrowed(("lowest = s8[] constant(-128)", "lowest = s8[] constant(3)"))
    assert any("s8[2,8,8,8], " in line for line in lines_after(EraseDead(), graph, rewrites=0))


@pytest.mark.parametrize("computed", ["copy", "negate"])
def test_windows_and_conversions_of_what_kernels_compute_are_no_bytes(computed: str) -> None:
    """A copy may have moved them."""
    there = "copy(x)" if computed == "copy" else "negate(x)"
    windows = (
        "ROOT w = s8[2,8,8,8] reduce-window(x, lowest)",
        f"y = s8[2,6,6,8] {there}\n  ROOT w = s8[2,8,8,8] reduce-window(y, lowest)",
    )
    (line, *_) = [
        line for line in lines_after(EraseDead(), _narrowed(windows), rewrites=0) if "s32" in line
    ]
    assert "convolution %0 s8" not in line
    converted = (
        "x = s8[2,8,8,8] parameter(0)\n  ROOT c = s32[2,8,8,8] convert(x)",
        f"x = s8[2,8,8,8] parameter(0)\n  y = s8[2,8,8,8] {there}\n  ROOT c = s32[2,8,8,8] convert(y)",
    )
    graph = Emission(LAYER, converted).graph(["y"], y="output", w="constant")
    assert NarrowProducts().run(graph) == 0


def test_layers_compute_what_follows_their_sums() -> None:
    (line,) = lines_after(FuseByteLayers(), _narrowed(), rewrites=1)
    assert " s8[72,16] = byte_layer %0 s8[2,6,6,8], " in line
    code = "add(multiply(convert_f32(read0), read1), convert_f32(read2))"
    assert f"code=(convert_s8(add(nearest(minimum(maximum({code}, 0.0), 255.0)), -128.0)))" in line


def test_zero_points_that_are_added_before_the_clamp_are_added_as_integers() -> None:
    lines = (
        "point = f32[] constant(136)",
        "points = f32[2,6,6,16] broadcast(point), dimensions={}",
        "shifted = f32[2,6,6,16] add(whole, points)",
        "low = f32[] constant(0)",
    )
    changes = [
        (lines[-1], "\n  ".join(lines)),
        ("clamp(lows, whole, highs)", "clamp(lows, shifted, highs)"),
    ]
    (line,) = lines_after(FuseByteLayers(), _narrowed(*changes), rewrites=1)
    assert "nearest(minimum(maximum(add(" in line
    assert ", -136.0), 119.0)), 8.0)))" in line


@pytest.mark.parametrize(
    ("low", "kept"),
    [
        ("constant(0)", False),
        ("constant(0.5)", True),  # what is rounded to 0 becomes 0.5
        ("constant(-70000)", None),  # no byte
    ],
)
def test_only_integers_are_limits_of_what_the_conversion_rounds(
    low: str, kept: bool | None
) -> None:
    graph = _narrowed(("constant(0)\n", f"{low}\n"))
    lines = lines_after(FuseByteLayers(), graph, rewrites=0 if kept is None else 1)
    assert any("round_even" in line for line in lines) == bool(kept)


@pytest.mark.parametrize(
    "change",
    [
        ("clamp(lows, whole, highs)", "add(whole, highs)"),  # out of the range of bytes
        ("constant(255)", "constant(256)"),
        ("broadcast(factors), dimensions={3}", "broadcast(factors), dimensions={0}"),
        ("round-nearest-even(total)", "cosine(total)"),
    ],
    ids=str,
)
def test_other_kernels_stay(change: tuple[str, str]) -> None:
    changes = [change]
    if "dimensions={0}" in change[1]:
        changes += [("factors = f32[16]", "factors = f32[2]")]
    assert FuseByteLayers().run(_narrowed(*changes)) == 0


DEPTHWISE = (
    _PADDED
    + """
left {
  x = s8[2,8,8,8] parameter(0)
  ROOT c = f32[2,8,8,8] convert(x)
}

right {
  x = s8[3,3,1,8] parameter(0)
  ROOT c = f32[3,3,1,8] convert(x)
}

scaled {
  sums = f32[2,6,6,8] parameter(0)
  factors = f32[8] parameter(1)
  each = f32[2,6,6,8] broadcast(factors), dimensions={3}
  product = f32[2,6,6,8] multiply(sums, each)
  whole = f32[2,6,6,8] round-nearest-even(product)
  low = f32[] constant(-128)
  lows = f32[2,6,6,8] broadcast(low), dimensions={}
  high = f32[] constant(127)
  highs = f32[2,6,6,8] broadcast(high), dimensions={}
  inside = f32[2,6,6,8] clamp(lows, whole, highs)
  ROOT bytes = s8[2,6,6,8] convert(inside)
}

ENTRY main {
  x = s8[2,6,6,8] parameter(0)
  w = s8[3,3,1,8] parameter(1)
  factors = f32[8] parameter(2)
  lowest = s8[] constant(-128)
  same = s8[2,8,8,8] fusion(x, lowest), kind=kLoop, calls=window
  l = f32[2,8,8,8] fusion(same), kind=kLoop, calls=left
  r = f32[3,3,1,8] fusion(w), kind=kLoop, calls=right
  sums = f32[2,6,6,8] convolution(l, r), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=8
  ROOT y = s8[2,6,6,8] fusion(sums, factors), kind=kLoop, calls=scaled
}
"""
)
"""What XLA makes of a quantised depthwise convolution of padded images, which the importer writes as one of floats."""


def _depthwise(*changes: tuple[str, str], rewrites: int = 1) -> Graph:
    graph = Emission(DEPTHWISE, *changes).graph(["y"], y="output", w="constant")
    RecogniseKernels().run(graph)
    assert NarrowProducts().run(graph) == rewrites
    EraseDead().run(graph)
    return graph


def test_depthwise_convolutions_of_converted_bytes_are_layers_of_bytes() -> None:
    (line, _) = lines_after(EraseDead(), _depthwise(), rewrites=0)
    assert " f32[72,8] = byte_layer %0 s8[2,6,6,8], " in line
    assert "feature_groups=8, padding=-128" in line
    assert "code=(convert_f32(read0))" in line
    (line,) = lines_after(FuseByteLayers(), _depthwise(), rewrites=1)
    assert " s8[72,8] = byte_layer %0 s8[2,6,6,8], " in line
    limited = "minimum(maximum(multiply(convert_f32(read0), read1), -128.0), 127.0)"
    assert f"code=(convert_s8(nearest({limited})))" in line


@pytest.mark.parametrize(
    "changes",
    [
        [("x = s8[2,8,8,8] parameter(0)\n  ROOT c", "x = f32[2,8,8,8] parameter(0)\n  ROOT c"),
         ("f32[2,8,8,8] convert(x)", "f32[2,8,8,8] negate(x)"), ("= s8[2,8,8,8] fusion(x, lowest), kind=kLoop, calls=window", "= f32[2,8,8,8] parameter(3)")],
        [("f32[3,3,1,8] convert(x)", "f32[3,3,1,8] exponential(x)"), ("x = s8[3,3,1,8]", "x = f32[3,3,1,8]"), ("w = s8", "w = f32")],
        [("3,3,1,8", "3,3,2,8"), ("feature_group_count=8", "feature_group_count=4")],
        [("3,3,1,8", "3,3,8,8"), (", feature_group_count=8", "")],
    ],
    ids=["images", "filters", "groups", "one group"],
)  # fmt: skip
def test_other_convolutions_of_floats_stay(changes: list[tuple[str, str]]) -> None:
    _depthwise(*changes, rewrites=0)


@pytest.mark.parametrize(("size", "rewrites"), [(22, 1), (23, 0)])
def test_floats_hold_the_sums_of_depthwise_convolutions(size: int, rewrites: int) -> None:
    """Of at most 512 products."""
    extent = 8 - size + 1
    changes = [
        ("pad=0_0x1_1x1_1x0_1", f"pad=0_0x{10}_{11}x{10}_{11}x0_1"),
        ("2,8,8,8", "2,27,27,8"),
        ("size=3x3}", f"size={size}x{size}}}"),
        ("3,3,1,8", f"{size},{size},1,8"),
    ]
    out = extent + 19
    text = f"2,{out},{out},8"
    changes += [("sums = f32[2,6,6,8]", f"sums = f32[{text}]")]
    changes += [
        (f"{kind}[2,6,6,8] {name}", f"{kind}[{text}] {name}")
        for kind, name in (
            ("f32", "broadcast"),
            ("f32", "multiply"),
            ("f32", "round"),
            ("f32", "clamp"),
            ("s8", "convert"),
            ("s8", "fusion"),
        )
    ]
    _depthwise(*changes, rewrites=rewrites)
