"""Both rules for the maximum of NaN and a number give what they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from modelwheel.compiler.reference.truth.nan_rules import write_rule
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


def evaluate(text: str, shape: tuple[int, ...], *, keeps: bool) -> Array:
    x = tf.compat.v1.placeholder(tf.float32, X.shape)
    (result,) = call_module(write_rule(text, keeps=keeps), [x], [("float32", shape)])
    with tf.compat.v1.Session() as session:
        return np.asarray(session.run(result, {x: X}))


def test_the_largest_of_all_is_nan_or_that_of_the_rest() -> None:
    np.testing.assert_array_equal(evaluate(_LARGEST, (2,), keeps=True), [np.nan, 2])
    np.testing.assert_array_equal(evaluate(_LARGEST, (2,), keeps=False), [3, 2])


def test_the_smaller_of_two_is_nan_or_the_other_one() -> None:
    kept = [[1, np.nan, 0], [1, np.nan, 0]]
    np.testing.assert_array_equal(evaluate(_OF_TWO, (2, 3), keeps=True), kept)
    left = [[1, -1, 0], [1, -1, 0]]
    np.testing.assert_array_equal(evaluate(_OF_TWO, (2, 3), keeps=False), left)
