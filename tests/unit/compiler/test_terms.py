"""How many products are added for each element where a weight is multiplied."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from modelwheel.compiler.reference.truth.terms import terms_in_graph, terms_in_module
from modelwheel.compiler.stablehlo.mlir_text import read_functions

MODULE = """
module @m {
  func.func public @main(%arg0: tensor<2x300xf32>, %arg1: tensor<2x8x8x16xf32>) -> tensor<2x7xf32> {
    %dense = stablehlo.constant dense<0.5> : tensor<7x300xf32>
    %kernel = stablehlo.constant dense<0.5> : tensor<3x3x16x32xf32>
    %inner = stablehlo.constant dense<0.5> : tensor<7x7xf32>
    %table = stablehlo.constant dense<0.5> : tensor<900x7xf32>
    %turns = stablehlo.constant dense<3> : tensor<i32>
    %0 = stablehlo.transpose %dense, dims = [1, 0] : (tensor<7x300xf32>) -> tensor<300x7xf32>
    %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [1] x [0] : (tensor<2x300xf32>, tensor<300x7xf32>) -> tensor<2x7xf32>
    %2 = stablehlo.convolution(%arg1, %kernel) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x16xf32>, tensor<3x3x16x32xf32>) -> tensor<2x6x6x32xf32>
    %3 = func.call @layer(%1, %inner) : (tensor<2x7xf32>, tensor<7x7xf32>) -> tensor<2x7xf32>
    %4 = stablehlo.add %3, %3 : tensor<2x7xf32>
    return %4 : tensor<2x7xf32>
  }
  func.func private @layer(%arg0: tensor<2x7xf32>, %arg1: tensor<7x7xf32>) -> tensor<2x7xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<2x7xf32>, tensor<7x7xf32>) -> tensor<2x7xf32>
    return %0 : tensor<2x7xf32>
  }
}
"""


def test_products_of_modules_are_counted_through_moves_and_calls() -> None:
    # The table is read by an index, if at all.
    assert terms_in_module(read_functions(MODULE)) == {"dense": 300, "kernel": 144, "inner": 7}


def node(name: str, op: str, *inputs: str, **flags: bool) -> Any:
    attributes = {key: SimpleNamespace(b=value) for key, value in flags.items()}
    return SimpleNamespace(name=name, op=op, input=inputs, attr=attributes)


def test_products_of_graphs_are_counted_as_the_operation_sums() -> None:
    graph = SimpleNamespace(
        node=[
            node("read", "Identity", "dense"),
            node("a", "MatMul", "x", "read", transpose_b=True),
            node("b", "Conv2D", "x", "kernel"),
            node("c", "DepthwiseConv2dNative", "x:1", "depthwise"),
            node("d", "Conv2DBackpropInput", "shape", "up", "x"),
            node("e", "GatherV2", "table", "x"),
            node("f", "BatchMatMulV2", "heads", "x", adj_x=True),
            node("g", "BiasAdd", "a", "bias"),
        ]
    )
    shapes: Mapping[str, tuple[int, ...]] = {
        "dense": (7, 300), "kernel": (3, 3, 16, 32), "depthwise": (5, 5, 8, 1), "up": (2, 2, 8, 16),
        "table": (900, 7), "heads": (4, 48, 10), "bias": (7,), "shape": (4,),
    }  # fmt: skip
    assert terms_in_graph(graph, shapes) == {
        "dense": 300, "kernel": 144, "depthwise": 25, "up": 64, "heads": 48,
    }  # fmt: skip
