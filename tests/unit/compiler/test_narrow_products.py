"""Products of 8-bit integers that XLA has made ones of 32-bit integers: they read the bytes again."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.erase_dead import EraseDead
from modelwheel.compiler.passes.narrow_products import NarrowProducts
from tests.support.graphs import lines_after
from tests.support.modules import Emission

ROWS = """
largest {
  a = s8[] parameter(0)
  b = s8[] parameter(1)
  ROOT m = s8[] maximum(a, b)
}

window {
  x = s8[4,48] parameter(0)
  lowest = s8[] parameter(1)
  ROOT w = s8[4,48] reduce-window(x, lowest), window={size=1x2 stride=1x2 pad=0_0x0_1 lhs_dilate=1x2}, to_apply=largest
}

left {
  x = s8[4,48] parameter(0)
  ROOT c = s32[4,48] convert(x)
}

right {
  x = s8[48,96] parameter(0)
  ROOT c = s32[48,96] convert(x)
}

ENTRY main {
  x = s8[4,48] parameter(0)
  w = s8[48,96] parameter(1)
  lowest = s8[] constant(-128)
  same = s8[4,48] fusion(x, lowest), kind=kLoop, calls=window
  l = s32[4,48] fusion(same), kind=kLoop, calls=left
  r = s32[48,96] fusion(w), kind=kLoop, calls=right
  ROOT y = s32[4,96] dot(l, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
"""What XLA makes of the canonical form of a product of several rows."""

ROW = """
f {
  w = s8[48,96] parameter(0)
  wide = s32[48,96] convert(w)
  x = s8[1,48] parameter(1)
  flat = s8[48] bitcast(x)
  left = s32[48] convert(flat)
  ROOT y = s32[96] dot(left, wide), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}

ENTRY main {
  x = s8[1,48] parameter(0)
  w = s8[48,96] parameter(1)
  ROOT y = s32[96] fusion(w, x), kind=kLoop, calls=f
}
"""
"""That of a single row."""


def _rows(*changes: tuple[str, str], weights: str = "constant") -> Graph:
    return Emission(ROWS, *changes).graph(["y"], y="output", w=weights)


def test_rows_are_read_as_bytes() -> None:
    graph = _rows()
    assert NarrowProducts().run(graph) == 1
    assert lines_after(EraseDead(), graph, rewrites=3) == [
        "%2 s32[4,96] = dot %0 s8[4,48], %1 s8[48,96] {lhs_contracting=[1], rhs_contracting=[0]}"
    ]


def test_pixels_are_rows() -> None:
    """XLA puts the axes of images together where it converts them."""
    graph = _rows(
        ("x = s8[4,48]", "x = s8[2,2,48]"),
        ("w = s8[4,48] reduce-window", "w = s8[2,2,48] reduce-window"),
        (
            "size=1x2 stride=1x2 pad=0_0x0_1 lhs_dilate=1x2",
            "size=1x1x2 stride=1x1x2 pad=0_0x0_0x0_1 lhs_dilate=1x1x2",
        ),
        ("same = s8[4,48]", "same = s8[2,2,48]"),
        (
            "ROOT c = s32[4,48] convert(x)",
            "c = s32[2,2,48] convert(x)\n  ROOT b = s32[4,48] bitcast(c)",
        ),
    )
    assert NarrowProducts().run(graph) == 1
    (line,) = lines_after(EraseDead(), graph, rewrites=3)
    assert "dot %0 s8[4,48], %1 s8[48,96]" in line


def test_a_row_is_read_as_bytes() -> None:
    graph = Emission(ROW).graph(["y"], y="output", w="constant")
    (line,) = lines_after(NarrowProducts(), graph, rewrites=1)
    assert " s32[96] = dot " in line
    assert " s8[48], " in line
    assert " s8[48,96] " in line


def test_weights_on_the_left_of_a_vector_change_places() -> None:
    graph = Emission(
        ROW,
        ("w = s8[48,96]", "w = s8[96,48]"),
        ("wide = s32[48,96]", "wide = s32[96,48]"),
        ("dot(left, wide), lhs_contracting_dims={0}", "dot(wide, left), lhs_contracting_dims={1}"),
    ).graph(["y"], y="output", w="constant")
    (line,) = lines_after(NarrowProducts(), graph, rewrites=1)
    assert line.endswith("s8[96,48] {lhs_contracting=[0], rhs_contracting=[1]}")


def test_weights_that_are_not_constant_stay() -> None:
    assert NarrowProducts().run(_rows(weights="temporary")) == 0


@pytest.mark.parametrize(
    "change",
    [
        ("constant(-128)", "constant(0)"),
        ("maximum(a, b)", "minimum(a, b)"),
        ("pad=0_0x0_1", "pad=0_0x1_0"),
    ],
    ids=str,
)
def test_windows_that_are_no_identities_are_read_as_they_are(change: tuple[str, str]) -> None:
    """The product reads what the window has computed."""
    graph = _rows(change)
    lines = lines_after(NarrowProducts(), graph, rewrites=1)
    (window,) = (line for line in lines if " s8" not in line and line.startswith("%3 "))
    (product,) = (line for line in lines if " = dot " in line)
    assert " = kernel " in window
    assert "dot %3 s8[4,48]" in product


@pytest.mark.parametrize("change", [("s8[4,48]", "u8[4,48]"), ("s8", "s16")], ids=str)
def test_other_integers_stay(change: tuple[str, str]) -> None:
    assert NarrowProducts().run(_rows(change)) == 0
