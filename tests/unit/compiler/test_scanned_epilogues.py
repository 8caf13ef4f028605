"""Fusions in loops become part of products although each iteration reads another part of an array."""

from __future__ import annotations

import pytest

from modelwheel.compiler.passes.counted_loops import CountLoops
from modelwheel.compiler.passes.fuse_epilogues import FuseEpilogues
from tests.support.graphs import lines_after
from tests.support.modules import Emission

SCAN = """
biased {
  product = f32[2,16] parameter(0)
  biases = f32[5,16] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  part = f32[1,16] dynamic-slice(biases, i, zero), dynamic_slice_sizes={1,16}
  bias = f32[16] bitcast(part)
  rows = f32[2,16] broadcast(bias), dimensions={1}
  ROOT sum = f32[2,16] add(product, rows)
}

counting {
  before = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT after = s32[] add(before, one)
}

body {
  state = (s32[], f32[2,16], f32[5,16]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  before = f32[2,16] get-tuple-element(state), index=1
  all = f32[5,16] get-tuple-element(state), index=2
  next = s32[] fusion(i), kind=kLoop, calls=counting
  w = f32[16,16] constant({...})
  product = f32[2,16] dot(before, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  biased = f32[2,16] fusion(product, all, i), kind=kLoop, calls=biased
  ROOT changed = (s32[], f32[2,16], f32[5,16]) tuple(next, biased, all)
}

condition {
  state = (s32[], f32[2,16], f32[5,16]) parameter(0)
  j = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(5)
  ROOT more = pred[] compare(j, limit), direction=LT
}

ENTRY main {
  zero = s32[] constant(0)
  begin = s32[] copy(zero)
  x = f32[2,16] parameter(0)
  first = f32[2,16] copy(x)
  biases = f32[5,16] parameter(1)
  entering = (s32[], f32[2,16], f32[5,16]) tuple(begin, first, biases)
  loop = (s32[], f32[2,16], f32[5,16]) while(entering), condition=condition, body=body
  y = f32[2,16] get-tuple-element(loop), index=1
  ROOT results = (f32[2,16]) tuple(y)
}
"""
"""Layers of a loop, each with its row of the biases."""


def _scan(*changes: tuple[str, str], rewrites: int) -> list[str]:
    graph = Emission(SCAN, *changes).graph(["y"])
    CountLoops().run(graph)
    return [
        line.strip()
        for line in lines_after(FuseEpilogues(), graph, rewrites=rewrites)
        if " = dot " in line
    ]


def test_each_iteration_may_have_its_own_bias() -> None:
    """dot + dynamic-slice(biases, i) => dot {shift} of memory that moves"""
    (line,) = _scan(rewrites=1)
    assert ", shift=%2+64i f32[16] {" in line


@pytest.mark.parametrize(
    "changes",
    [
        [("direction=LT", "direction=NE")],  # nobody knows how often
        [("f32[5,16]", "f32[4,16]")],  # XLA moves the last part back
        [("biased = f32[2,16] fusion(product, all, i)", "biased = f32[2,16] fusion(product, all, next)")],
    ],
)  # fmt: skip
def test_a_part_that_is_not_known_stays_in_the_kernel(changes: list[tuple[str, str]]) -> None:
    (line,) = _scan(*changes, rewrites=0)
    assert "shift=" not in line
