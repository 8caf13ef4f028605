"""Softmax of long rows: one step, with the bias before it."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from modelwheel.compiler.passes.softmaxes_of_rows import FuseSoftmaxes
from tests.support.graphs import lines_after
from tests.support.modules import Emission

TEXT = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

maximum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}

biased {
  p0 = f32[6400] parameter(0)
  p1 = f32[4,6400] parameter(1)
  x = f32[4,1,6400] bitcast(p1)
  rows = f32[4,1,6400] broadcast(p0), dimensions={2}
  ROOT biased = f32[4,1,6400] add(x, rows)
}

windows {
  x = f32[4,1,6400] parameter(0)
  start = f32[] parameter(1)
  ROOT y = f32[4,1,200] reduce-window(x, start), window={size=1x1x32 stride=1x1x32}, to_apply=maximum
}

more_windows {
  x = f32[4,1,200] parameter(0)
  start = f32[] parameter(1)
  ROOT y = f32[4,1,7] reduce-window(x, start), window={size=1x1x32 stride=1x1x32 pad=0_0x0_0x12_12}, to_apply=maximum
}

largest {
  x = f32[4,1,7] parameter(0)
  start = f32[] parameter(1)
  ROOT y = f32[4] reduce(x, start), dimensions={1,2}, to_apply=maximum
}

powers {
  most = f32[4] parameter(0)
  p1 = f32[6400] parameter(1)
  p2 = f32[4,6400] parameter(2)
  rows = f32[4,6400] broadcast(p1), dimensions={1}
  x = f32[4,6400] add(p2, rows)
  columns = f32[4,6400] broadcast(most), dimensions={0}
  less = f32[4,6400] subtract(x, columns)
  ROOT powers = f32[4,6400] exponential(less)
}

window_sums {
  x = f32[4,6400] parameter(0)
  start = f32[] parameter(1)
  ROOT y = f32[4,200] reduce-window(x, start), window={size=1x32 stride=1x32}, to_apply=add
}

sums {
  x = f32[4,200] parameter(0)
  start = f32[] parameter(1)
  ROOT y = f32[4] reduce(x, start), dimensions={1}, to_apply=add
}

shares {
  p0 = f32[4,6400] parameter(0)
  p1 = f32[4] parameter(1)
  columns = f32[4,6400] broadcast(p1), dimensions={0}
  share = f32[4,6400] divide(p0, columns)
  ROOT y = f32[1,4,6400] bitcast(share)
}

ENTRY main {
  a = f32[4,80] parameter(0)
  w = f32[80,6400] constant({...})
  bias = f32[6400] constant({...})
  zero = f32[] constant(0)
  least = f32[] constant(-inf)
  dot = f32[4,6400] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  raised = f32[4,1,6400] fusion(bias, dot), kind=kLoop, calls=biased
  m0 = f32[4,1,200] fusion(raised, least), kind=kLoop, calls=windows
  m1 = f32[4,1,7] fusion(m0, least), kind=kLoop, calls=more_windows
  m2 = f32[4] fusion(m1, least), kind=kLoop, calls=largest
  power = f32[4,6400] fusion(m2, bias, dot), kind=kLoop, calls=powers
  s0 = f32[4,200] fusion(power, zero), kind=kLoop, calls=window_sums
  s1 = f32[4] fusion(s0, zero), kind=kLoop, calls=sums
  y = f32[1,4,6400] fusion(power, s1), kind=kLoop, calls=shares
  ROOT results = (f32[1,4,6400]) tuple(y)
}
"""
"""softmax(a w + bias) as XLA's CPU compiler has it: with thousands of classes, rows are reduced in windows twice."""


def graph_of(*changes: tuple[str, str]) -> Graph:
    graph = Emission(TEXT, *changes).graph(["y"])
    RecogniseKernels().run(graph)
    return graph


def test_softmax_after_a_bias_is_one_step() -> None:
    dot, softmax = lines_after(FuseSoftmaxes(), graph_of(), rewrites=1)
    assert " = dot %0 f32[4,80], %1 f32[80,6400]" in dot
    assert " f32[4,6400] = softmax %" in softmax
    assert ", bias=%2 f32[6400]" in softmax


@pytest.mark.parametrize(
    "change",
    [
        ("ROOT powers = f32[4,6400] exponential(less)", "ROOT powers = f32[4,6400] tanh(less)"),
        ("less = f32[4,6400] subtract(x, columns)", "less = f32[4,6400] subtract(p2, columns)"),
        ("zero = f32[] constant(0)", "zero = f32[] constant(1)"),
    ],
)
def test_what_only_looks_like_a_softmax_stays(change: tuple[str, str]) -> None:
    graph = graph_of(change)
    before = len(graph.body.nodes)
    assert len(lines_after(FuseSoftmaxes(), graph, rewrites=0)) == before
