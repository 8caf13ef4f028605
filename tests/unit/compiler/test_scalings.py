"""Kernels that multiply features by factors: only those whose factors are in memory as the runtime's kernel reads them."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.scalings import DecodeScalings
from modelwheel.program import ops
from tests.support.graphs import lines_after
from tests.support.modules import Emission

IMAGES = """
f {
  x = f32[3,20,20,24] parameter(0)
  factors = f32[3,24] parameter(1)
  same = f32[3,24] bitcast(factors)
  repeated = f32[3,20,20,24] broadcast(same), dimensions={0,3}
  ROOT scaled = f32[3,20,20,24] multiply(x, repeated)
}

ENTRY main {
  x = f32[3,20,20,24] parameter(0)
  factors = f32[3,24] parameter(1)
  ROOT f = f32[3,20,20,24] fusion(x, factors), kind=kLoop, calls=f
}
"""
FIRST = (
    ("x = f32[3,20,20,24] parameter(0)", "x = f32[3,20,20,24] parameter(1)"),
    ("factors = f32[3,24] parameter(1)", "factors = f32[3,24] parameter(0)"),
    ("multiply(x, repeated)", "multiply(repeated, x)"),
    ("fusion(x, factors)", "fusion(factors, x)"),
)
"""Factors are the first operand."""


def _graph(*changes: tuple[str, str], in_place: bool = False, loops: bool = False) -> Graph:
    at = {"f": "x"} if in_place else {}
    result = "x" if in_place else "f"
    kinds = {"x": "temporary"} if in_place else {"f": "output"}
    return Emission(IMAGES, *changes, at=at).graph([result], loops=loops, **kinds)


def test_each_image_has_its_factors() -> None:
    """multiply by a broadcast of [batch, features] => scaling"""
    assert lines_after(DecodeScalings(), _graph(), rewrites=1) == [
        "%2 f32[3,400,24] = scaling %0 f32[3,400,24], %1 f32[3,24]",
    ]


def test_factors_may_come_first() -> None:
    assert lines_after(DecodeScalings(), _graph(*FIRST), rewrites=1) == [
        "%2 f32[3,400,24] = scaling %0 f32[3,400,24], %1 f32[3,24]",
    ]


def test_all_images_may_have_the_same() -> None:
    """multiply by a broadcast of [features] => scaling of one image"""
    graph = _graph(("f32[3,24]", "f32[24]"), ("dimensions={0,3}", "dimensions={3}"))
    assert lines_after(DecodeScalings(), graph, rewrites=1) == [
        "%2 f32[1,1200,24] = scaling %0 f32[1,1200,24], %1 f32[1,24]",
    ]


def test_a_loop_scales_too() -> None:
    """Each iteration scales what the one before left, in one place, as XLA's kernel did."""
    graph = _graph(in_place=True, loops=True)
    assert lines_after(DecodeScalings(), graph, rewrites=1) == [
        "%1 = while (undefined) {trip_count=2}",
        "  body(%2):",
        "    %3 f32[3,400,24] = scaling %2 f32[3,400,24], %0 f32[3,24]",
        "    yield %3",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        [("multiply(", "add(")],
        [("f32[3,24]", "f32[20,24]"), ("dimensions={0,3}", "dimensions={1,3}")],
        [("f32[3,24]", "f32[3]"), ("dimensions={0,3}", "dimensions={0}")],
        [("20,20,24]", "8,8,24]")],  # few elements
        [("20,20,24]", "100,100,4]"), ("f32[3,24]", "f32[3,4]")],  # few features
        [("f32[3,20,20,24]", "f32[3,20,20,24]{0,1,2,3}")],
        [("x = f32[3,20,20,24]", "x = f32[3,20,20,24]{0,1,2,3}")],
        [("f32", "f64")],
    ],
)
def test_anything_else_stays_a_kernel(changes: list[tuple[str, str]]) -> None:
    (line,) = lines_after(DecodeScalings(), _graph(*changes), rewrites=0)
    assert " = kernel " in line


def test_the_node_keeps_what_it_is_known_by() -> None:
    named = ("multiply(x, repeated)", 'multiply(x, repeated), metadata={op_name="excite/mul"}')
    graph = _graph(named)
    operations = graph.body.nodes[0].operations
    DecodeScalings().run(graph)
    (node,) = graph.body.nodes
    assert node.covers == {"f"}
    assert node.origin == "excite/mul"
    assert node.operations == operations > 0


def test_the_result_is_written_over_the_images_as_before() -> None:
    """Nobody needs them any more: XLA had planned so, and no other memory is needed."""
    emission = Emission(IMAGES, at={"f": "x"})
    graph = emission.graph(["x"], x="temporary")
    DecodeScalings().run(graph)
    ((step,), _) = assign(graph)
    assert isinstance(step.op, ops.Scaling)
    assert step.outputs["output"] == step.inputs["input"]
