"""Poolings of images that XLA only pads: a product finishes the images, and the pooling knows what is around them."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.fuse_epilogues import FuseEpilogues
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from modelwheel.program.arrays import overlap
from tests.support.graphs import lines_after
from tests.support.modules import Emission

PADDED = """
maximum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT larger = f32[] maximum(a, b)
}

pad {
  v = f32[2,3,4,8] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[2,3,4,8] broadcast(zero), dimensions={}
  relu = f32[2,3,4,8] maximum(v, zeros)
  around = f32[] constant(0)
  ROOT padded = f32[2,5,7,8] pad(relu, around), padding=0_0x1_1x2_1x0_0
}

pool {
  padded = f32[2,5,7,8] parameter(0)
  start = f32[] parameter(1)
  ROOT largest = f32[2,2,3,8] reduce-window(padded, start), window={size=1x3x3x1 stride=1x2x2x1}, to_apply=maximum
}

ENTRY main {
  x = f32[2,3,4,8] parameter(0)
  w = f32[8,8] parameter(1)
  start = f32[] constant(-inf)
  v = f32[2,3,4,8] dot(x, w), lhs_contracting_dims={3}, rhs_contracting_dims={0}
  f = f32[2,5,7,8] fusion(v), kind=kLoop, calls=pad
  pool = f32[2,2,3,8] fusion(f, start), kind=kLoop, calls=pool
  u = f32[8,4] parameter(2)
  y = f32[2,2,3,4] dot(pool, u), lhs_contracting_dims={3}, rhs_contracting_dims={0}
  ROOT results = (f32[2,2,3,4]) tuple(y)
}
"""
AROUND = "around = f32[] constant(0)"
WINDOW = "size=1x3x3x1 stride=1x2x2x1"


def _graph(
    *changes: tuple[str, str], over: bool = False, results: tuple[str, ...] = ("y",)
) -> Graph:
    """A pooling of relu(v) with padding around it; its result may be written over that of the product."""
    emission = Emission(PADDED, *changes, at={"pool": "v"} if over else {})
    graph = emission.graph(results)
    RecogniseKernels().run(graph)
    return graph


@pytest.mark.parametrize("number", [0.0, -0.5])
def test_a_pooling_reads_the_images_themselves(number: float) -> None:
    """pooling of pad(relu(dot)) => dot {low}, pooling {padding}"""
    graph = _graph((AROUND, f"around = f32[] constant({number})"))
    product, pool, _ = lines_after(FuseEpilogues(), graph, rewrites=1)
    assert product.startswith("%3 f32[2,3,4,8], accumulator=%3 f32[2,3,4,8] = dot %0 ")
    assert product.endswith("epilogue={low=0.0}}")
    assert pool == (
        f"%4 f32[2,2,3,8] = pooling %3 f32[2,3,4,8] {{reducer=maximum, initial=null, window=[3,3], "
        f"stride=[2,2], pad_low=[1,2], padding={number}}}"
    )
    product_node, pool_node, _ = graph.body.nodes
    assert product_node.covers == {"v", "f"}
    assert pool_node.covers == {"pool"}


def test_a_result_over_the_images_moves() -> None:
    """XLA has it where the images were: it reads them earlier, from the padded ones."""
    graph = _graph(over=True)
    lines_after(FuseEpilogues(), graph, rewrites=1)
    ((product, pool, last), _) = assign(graph)
    assert pool.inputs["input"].slice == product.outputs["out"].slice
    assert not overlap(pool.inputs["input"].slice, pool.outputs["output"].slice)
    assert last.inputs["lhs"].slice == pool.outputs["output"].slice


def test_steps_in_between_change_nothing() -> None:
    between = ("  pool = f32", "  other = f32[2,3,4,8] copy(x)\n  pool = f32")
    lines = lines_after(FuseEpilogues(), _graph(between), rewrites=1)
    assert "padding=0.0" in lines[2]


@pytest.mark.parametrize(
    "change",
    [
        (AROUND, "around = f32[] constant(inf)"),
        (AROUND, "around = f32[] constant(nan)"),
        ("x1_1x2_1x", "x1_1_1x2_1x"),
        ("x1_1x2_1x", "x-1_1x2_1x"),
        ("pad(relu, around)", "reverse(relu, around)"),
        ("pad(relu, around)", "pad(v, around)"),
        (WINDOW, f"{WINDOW} pad=0_0x1_0x0_0x0_0"),
        ("maximum(a, b)", "add(a, b)"),
    ],
)
def test_anything_else_stays_as_it_is(change: tuple[str, str]) -> None:
    lines = lines_after(FuseEpilogues(), _graph(change), rewrites=0)
    assert any(" = kernel " in line and "symbol=f}" in line for line in lines)


def test_a_pooling_that_reaches_further_than_the_padding_stays_as_it_is() -> None:
    further = (WINDOW, f"{WINDOW} pad=0_0x0_2x0_0x0_0")
    graph = _graph(further, ("f32[2,2,3,", "f32[2,3,3,"))
    lines_after(FuseEpilogues(), graph, rewrites=0)


def test_a_pooling_of_other_images_stays_as_it_is() -> None:
    """Those of the same elements in another shape."""
    shaped = ("fusion(f, start)", "fusion(shaped, start)")
    bitcast = ("  pool = ", "  shaped = f32[2,7,5,8] bitcast(f)\n  pool = ")
    padded = ("padded = f32[2,5,7,8] parameter(0)", "padded = f32[2,7,5,8] parameter(0)")
    graph = _graph(shaped, bitcast, padded, ("f32[2,2,3,", "f32[2,3,2,"))
    lines_after(FuseEpilogues(), graph, rewrites=0)


def test_padded_images_that_something_else_reads_stay() -> None:
    lines_after(FuseEpilogues(), _graph(results=("y", "f")), rewrites=0)
