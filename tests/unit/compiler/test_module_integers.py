"""Integers of StableHLO modules: what is hidden from XLA's simplifier, and what stays as it is."""

from __future__ import annotations

import pytest

from modelwheel.compiler.stablehlo.module_integers import keep_integers

WRAPPED = """\
    %wrapped_0_0 = {}
    %wrapped_0_1 = stablehlo.negate %wrapped_0_0 : {kind}
    %wrapped_0_2 = stablehlo.and %wrapped_0_0, %wrapped_0_1 : {kind}
    %1 = stablehlo.or %wrapped_0_0, %wrapped_0_2 : {kind}
"""
CONSTANTS = """\
    %c = stablehlo.constant dense<3> : tensor<i8>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i8>) -> tensor<4xi8>
"""


@pytest.mark.parametrize(
    "op",
    [
        "stablehlo.multiply %arg0, %arg0 : tensor<4xi8>",
        "stablehlo.multiply %arg0, %arg1 : tensor<i64>",
        "stablehlo.abs %arg0 : tensor<?x3xi32>",
        "stablehlo.power %arg0, %0 : tensor<4xi8>",
        "stablehlo.iota dim = 0 : tensor<200xi8>",
        (
            "stablehlo.dot_general %arg0, %arg0, batching_dims = [0] x [0], contracting_dims = [] x [] : "
            "(tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>"
        ),
        (
            "stablehlo.reduce(%arg0 init: %c) applies stablehlo.multiply across dimensions = [0] : "
            "(tensor<2x4xi64>, tensor<i64>) -> tensor<4xi64>"
        ),
    ],
)
def test_what_may_wrap_is_hidden(op: str) -> None:
    kind = op[op.rindex("tensor<") :]
    expected = CONSTANTS + WRAPPED.format(op, kind=kind)
    assert keep_integers(f"{CONSTANTS}    %1 = {op}\n") == expected


@pytest.mark.parametrize(
    "op",
    [
        "stablehlo.multiply %arg0, %0 : tensor<4xi8>",
        "stablehlo.multiply %arg0, %arg0 : tensor<4xui8>",
        "stablehlo.multiply %arg0, %arg0 : tensor<4xf32>",
        "stablehlo.abs %arg0 : tensor<4xf32>",
        "stablehlo.iota dim = 0 : tensor<128xi8>",
        "stablehlo.add %arg0, %arg0 : tensor<4xi8>",
        (
            "stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : "
            "(tensor<1x4xi8>, tensor<4x1xi8>) -> tensor<1x1xi32>"
        ),
        (
            "stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [0] : "
            "(tensor<2x4xi64>, tensor<i64>) -> tensor<4xi64>"
        ),
    ],
)
def test_everything_else_stays(op: str) -> None:
    text = f"{CONSTANTS}    %1 = {op}\n"
    assert keep_integers(text) == text


def test_extents_of_shapes_stay() -> None:
    """Shapes are computed before the module is compiled, by operations that TensorFlow knows."""
    text = "%1 = stablehlo.multiply %arg0, %arg1 : tensor<i32>\n%2 = stablehlo.add %x, %x : tensor<?xf32>\n"
    assert keep_integers(text) == text
