"""Composites are found in the text of StableHLO modules, with their attributes."""

from __future__ import annotations

import re

from modelwheel.compiler.stablehlo.composites import count_composites, decompose, reached_composites
from modelwheel.compiler.stablehlo.mlir_text import read_functions

_TEXT = """\
module @jit_f {
  func.func public @main(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.composite "acme.scale" %arg0, %cst {composite_attributes = {axis = 1 : i64, "by, name" = "a\\22}, b\\C3\\A9", eps = 9.99999974E-6 : f32, flag, off = false, axes = dense<[0, 1]> : tensor<2xi64>, ratio = -2.5 : f64}, decomposition = @acme.scale} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
    %1 = call @inner(%0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
  func.func private @acme.scale(%arg0: tensor<4x6xf32>, %arg1: tensor<f32>) -> tensor<4x6xf32> {
    %0 = stablehlo.composite "acme.hidden" %arg0 {decomposition = @inner} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
  func.func private @inner(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.composite "acme.twice" %arg0 {decomposition = @acme.twice, version = 3 : i32} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
  func.func private @acme.twice(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
  func.func private @unused(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.composite "acme.twice" %arg0 {decomposition = @acme.twice} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}
"""


def test_attributes_are_read() -> None:
    functions = read_functions(_TEXT)
    _, found = next(reached_composites(_TEXT.split("\n"), functions))
    assert found.name == "acme.scale"
    assert found.attributes == {
        "axis": 1,
        "by, name": 'a"}, b\u00e9',
        "eps": 9.99999974e-6,
        "flag": True,
        "off": False,
        "axes": None,  # fusions have no lists
        "ratio": -2.5,
    }
    assert [tensor.shape for tensor in found.arguments] == [(4, 6), ()]
    assert found.is_static


def test_what_main_runs_is_counted() -> None:
    counts = count_composites(_TEXT, read_functions(_TEXT))
    assert counts == {"acme.scale": 1, "acme.hidden": 1, "acme.twice@3": 1}


def test_what_only_a_replaced_composite_calls_is_not_reached() -> None:
    left: set[int] = set()
    names = []
    for op, found in reached_composites(_TEXT.split("\n"), read_functions(_TEXT), left):
        names.append(found.name)
        left.add(op.line)
    assert names == ["acme.scale", "acme.twice@3"]


def test_others_become_calls() -> None:
    text = decompose(_TEXT, keep={"acme.twice@3"})
    assert re.findall(r'composite "([\w.]+)"', text) == ["acme.twice"]
    assert "%0 = func.call @acme.scale(%arg0, %cst) : (tensor<4x6xf32>, tensor<f32>)" in text
    assert "composite" not in decompose(_TEXT)
