"""Loops that end whatever the inputs are, though it takes thought to see it; and some that the inputs end.

`python -m tests.models.finite_loops DIRECTORY` saves a model with an output for each.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf


def evaluate(x: Any) -> dict[str, Any]:
    """One output for each loop over rows of x, float32 [n, 6, 8]."""
    loops = (
        *(_triangle, _three_deep, _counts_down, _doubling, _halving, _of_table, _steps_of_branches),
        *(_in_a_row, _not_equal, _capped, _until_values, _counted_and_until_values, _newton),
    )
    return {f"loop{loop.__name__}": loop(x) for loop in loops}


def _step(x: Any, number: Any = 1) -> Any:
    """Another one for each number."""
    return tf.tanh(x * 1.05) + 0.01 * tf.cast(number, x.dtype)


def _triangle(x: Any) -> Any:
    i = tf.constant(0)
    while i < 5:
        j = tf.constant(0)
        while j < i:
            x = _step(x, i - j)
            j += 1
        i += 1
    return x


def _three_deep(x: Any) -> Any:
    for i in tf.range(4):
        for j in tf.range(i, 5, i + 1):
            for k in tf.range(j, 0, -2):
                x = _step(x, k)
    return x


def _counts_down(x: Any) -> Any:
    for i in tf.range(9, -1, -4):
        if i % 2 == 1:
            for j in tf.range(tf.minimum(2 * i + 1, 7), dtype=tf.int64):
                x = _step(x, j)
    return x


def _doubling(x: Any) -> Any:
    i = tf.constant(1)
    while i < 9:
        for j in tf.range(i):
            x = _step(x, j)
        i = 2 * i + 1
    return x


def _halving(x: Any) -> Any:
    for i in tf.range(6):
        rest = i
        while rest > 0:
            rest = rest // 2
            x = _step(x, rest)
    return x


def _of_table(x: Any) -> Any:
    table = tf.constant([3, 0, 2])
    for i in tf.range(3):
        for j in tf.range(table[i]):
            x = _step(x, j)
    return x


def _steps_of_branches(x: Any) -> Any:
    i = tf.constant(0)
    while i < 10:
        if i < 5:
            i += 1
        else:
            i += 3
        x = _step(x, i)
    return x


def _in_a_row(x: Any) -> Any:
    i = tf.constant(0)
    while i < 3:
        i += 1
        x = _step(x, i)
    while i < 6:
        i += 2
        x = _step(x, i)
    return x


def _not_equal(x: Any) -> Any:
    i = tf.constant(0)
    while i != 12:
        i += 3
        x = _step(x, i)
    return x


def _capped(x: Any) -> Any:
    """Until values converge that are constants, but too many to be followed; so the cap counts."""
    vector, change, i = tf.ones([8, 1]), tf.constant(1.0), tf.constant(0)
    matrix = tf.reshape(tf.range(64.0), [8, 8]) / 64
    while change > 1e-3 and i < 20:
        new = tf.matmul(matrix, vector)
        new /= tf.norm(new)
        change = tf.norm(new - vector)
        vector = new
        i += 1
    return x * vector[:, 0]


def _until_values(x: Any) -> Any:
    i = tf.constant(0)
    while tf.reduce_max(tf.abs(x)) > 0.3:
        for j in tf.range(i):
            x = x * 0.9 + 0.001 * tf.cast(j, x.dtype)
        x = x * 0.9
        i += 1
    return x


def _counted_and_until_values(x: Any) -> Any:
    i = tf.constant(0)
    while tf.reduce_max(tf.abs(x)) > 0.3 and i < 4:
        for j in tf.range(i):
            x = x * 0.9 + 0.001 * tf.cast(j, x.dtype)
        i += 1
    return x


def _newton(x: Any) -> Any:
    """Square roots; the range of the second loop depends on values."""
    square = tf.abs(x) + 1
    root = tf.ones_like(x)
    while tf.reduce_max(tf.abs(root * root - square)) > 1e-4:
        root = (root + square / root) / 2
    for i in tf.range(tf.cast(tf.reduce_max(root), tf.int32) % 5):
        root = _step(root, i)
    return root


def main() -> None:
    """Saves the model."""
    module = tf.Module()
    spec = tf.TensorSpec([None, 6, 8], tf.float32, name="x")
    module.call = tf.function(evaluate, input_signature=[spec])
    tf.saved_model.save(module, f"{sys.argv[1]}/loops", signatures=module.call)


if __name__ == "__main__":
    main()
