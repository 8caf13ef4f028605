"""Modules with other texts compute what they say: another rule for NaN, ties that are moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from modelwheel.compiler.reference.truth.nan_rules import write_rule
from modelwheel.compiler.reference.truth.rounding import move_ties
from modelwheel.compiler.stablehlo.xla_module import call_module

pytestmark = pytest.mark.slow

Array = np.ndarray[Any, Any]

X = np.array([[1, np.nan, 3], [2, -1, 0]], np.float32)

_LARGEST = """\
module {
  func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2xf32> {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""
_OF_TWO = """\
module {
  func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<2x3xf32>
    %1 = stablehlo.minimum %arg0, %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}
"""


@pytest.fixture(autouse=True)
def own_graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def evaluate(text: str, shape: tuple[int, ...], values: Array) -> Array:
    x = tf.compat.v1.placeholder(tf.float32, values.shape)
    (result,) = call_module(text, [x], [("float32", shape)])
    with tf.compat.v1.Session() as session:
        return np.asarray(session.run(result, {x: values}))


def under_rule(text: str, shape: tuple[int, ...], *, keeps: bool) -> Array:
    return evaluate(write_rule(text, keeps=keeps), shape, X)


def test_the_largest_of_all_is_nan_or_that_of_the_rest() -> None:
    np.testing.assert_array_equal(under_rule(_LARGEST, (2,), keeps=True), [np.nan, 2])
    np.testing.assert_array_equal(under_rule(_LARGEST, (2,), keeps=False), [3, 2])


def test_the_smaller_of_two_is_nan_or_the_other_one() -> None:
    kept = [[1, np.nan, 0], [1, np.nan, 0]]
    np.testing.assert_array_equal(under_rule(_OF_TWO, (2, 3), keeps=True), kept)
    left = [[1, -1, 0], [1, -1, 0]]
    np.testing.assert_array_equal(under_rule(_OF_TWO, (2, 3), keeps=False), left)


def test_values_beside_a_tie_become_one_integer_and_the_other() -> None:
    text = """\
module {
  func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.round_nearest_even %arg0 : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
"""
    values = np.array([[2.5, 7.3, -100.49998], [0, 3.5000005, 90.501]], np.float32)
    both = [evaluate(move_ties(text, other=other), (2, 3), values) for other in (False, True)]
    np.testing.assert_array_equal(np.min(both, axis=0), [[2, 7, -101], [0, 3, 91]])
    np.testing.assert_array_equal(np.max(both, axis=0), [[3, 7, -100], [0, 4, 91]])
