"""Kernels that only move elements: those that XLA has no vectors for are copies, and so is what is moved behind a product."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.element_moves import DecodeMoves
from modelwheel.compiler.passes.fuse_epilogues import FuseEpilogues
from tests.support.graphs import lines_after
from tests.support.modules import Emission

IMAGE = """
f {
  x = f32[2,3,4,5] parameter(0)
  turned = f32[2,4,5,3]{2,1,3,0} transpose(x), dimensions={0,2,3,1}
  ROOT image = f32[2,4,5,3] copy(turned)
}

ENTRY main {
  x = f32[2,3,4,5] parameter(0)
  ROOT f = f32[2,4,5,3] fusion(x), kind=kLoop, calls=f
}
"""
"""Channels first, then last."""
BEHIND = """
f {
  p = f32[6,8] parameter(0)
  b = f32[8] parameter(1)
  bias = f32[6,8] broadcast(b), dimensions={1}
  sum = f32[6,8] add(p, bias)
  ROOT moved = f32[4,8] slice(sum), slice={[1:5], [0:8]}
}

ENTRY main {
  x = f32[6,4] parameter(0)
  w = f32[4,8] parameter(1)
  b = f32[8] parameter(2)
  dot = f32[6,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[4,8] fusion(dot, b), kind=kLoop, calls=f
  ROOT results = (f32[4,8]) tuple(f)
}
"""
TRANSPOSED = (
    ("f32[4,8] slice(sum), slice={[1:5], [0:8]}", "f32[8,6] transpose(sum), dimensions={1,0}"),
    ("f32[4,8] fusion", "f32[8,6] fusion"),
    ("(f32[4,8])", "(f32[8,6])"),
)


def _moved(*changes: tuple[str, str], rewrites: int = 1) -> list[str]:
    graph = Emission(IMAGE, *changes).graph(["f"], f="output")
    return lines_after(DecodeMoves(), graph, rewrites=rewrites)


def _behind(*changes: tuple[str, str], results: tuple[str, ...] = ("f",)) -> Graph:
    return Emission(BEHIND, *changes).graph(results)


def test_an_image_with_its_channels_first() -> None:
    """transpose => copy of a view with strides"""
    assert _moved() == ["%1 f32[2,4,5,3] = copy %0 f32[2,4,5,3]{60,5,1,20}"]


def test_a_part_may_be_moved() -> None:
    part = ("turned = f32[2,4,5,3]{2,1,3,0}", "turned = f32[2,4,5,2]{2,1,3,0}")
    cut = (
        "  turned",
        "  cut = f32[2,2,4,5] slice(x), slice={[0:2], [1:3], [0:4], [0:5]}\n  turned",
    )
    result = ("f32[2,4,5,3] copy", "f32[2,4,5,2] copy")
    whole = ("f32[2,4,5,3] fusion", "f32[2,4,5,2] fusion")
    (line,) = _moved(cut, ("transpose(x)", "transpose(cut)"), part, result, whole)
    assert line == "%1 f32[2,4,5,2] = copy %0 f32[2,4,5,2]{60,5,1,20}@20"


@pytest.mark.parametrize(
    "changes",
    [
        [("f32", "s32")],
        # Rows stay rows.
        [("{2,1,3,0} transpose(x), dimensions={0,2,3,1}", "{3,2,1,0} bitcast(x)")],
        [("copy(turned)", "negate(turned)")],
    ],
)
def test_anything_else_stays_a_kernel(changes: list[tuple[str, str]]) -> None:
    (line,) = _moved(*changes, rewrites=0)
    assert " = kernel " in line


def test_a_product_finishes_what_is_cut_out_behind_it() -> None:
    """slice(dot + bias) => dot {shift}, and a copy"""
    assert lines_after(FuseEpilogues(), _behind(), rewrites=1) == [
        (
            "%3 f32[6,8], accumulator=%3 f32[6,8] = dot %0 f32[6,4], %1 f32[4,8], shift=%2 f32[8] "
            "{lhs_contracting=[1], rhs_contracting=[0], epilogue={}}"
        ),
        "%4 f32[4,8] = copy %3+32 f32[4,8]",
    ]


def test_a_product_finishes_what_is_transposed_behind_it() -> None:
    graph = _behind(*TRANSPOSED)
    assert (
        lines_after(FuseEpilogues(), graph, rewrites=1)[1] == "%4 f32[8,6] = copy %3 f32[8,6]{1,8}"
    )


def test_what_something_else_reads_stays_as_it_is() -> None:
    assert len(lines_after(FuseEpilogues(), _behind(results=("f", "dot")), rewrites=0)) == 2
