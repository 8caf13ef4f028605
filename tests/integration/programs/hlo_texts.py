"""Writes what XLA makes of some functions into a directory: the protobuf and the text of each module."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

FLOATS = tf.constant(0.5, shape=(4, 16))
IMAGES = tf.constant(0.5, shape=(2, 9, 9, 4))
INTEGERS = tf.constant([3, 1, 2, 0])
MATRIX = tf.constant(0.25, shape=(16, 16))
HEADS = tf.constant(0.5, shape=(2, 3, 4, 8))


def dense(x: Any) -> Any:
    """Products with an epilogue, and a softmax."""
    return tf.nn.softmax(tf.nn.gelu(x @ MATRIX + 0.5) @ tf.transpose(MATRIX) * -1e-30)


def images(x: Any) -> Any:
    """Convolutions with strides, dilations and groups, paddings and poolings."""
    y = tf.nn.conv2d(x, tf.ones((3, 3, 4, 8)), strides=2, padding="SAME")
    y = tf.nn.depthwise_conv2d(y, tf.ones((3, 3, 8, 2)), [1, 1, 1, 1], "SAME", dilations=[2, 2])
    y = tf.nn.max_pool2d(tf.pad(y, [[0, 0], [1, 2], [0, 1], [0, 0]]), 3, 2, "SAME")
    return tf.nn.conv2d_transpose(y, tf.ones((2, 2, 3, 16)), (2, 8, 6, 3), 2)


def gradient(x: Any) -> Any:
    """Selects and scatters."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.nn.max_pool2d(x, 3, 3, "VALID") ** 2)
    return tape.gradient(y, x)


def attention(x: Any) -> Any:
    """Masked attention of heads."""
    scores = tf.einsum("bhqd,bhkd->bhqk", x, x)
    mask = tf.linalg.band_part(tf.ones((4, 4)), -1, 0) > 0
    return tf.nn.softmax(tf.where(mask, scores, float("-inf"))) @ x


def recurrent(x: Any) -> Any:
    """A loop that reads and writes rows."""
    rows = tf.TensorArray(tf.float32, 4, element_shape=(16,))
    state = tf.zeros(16)
    for i in tf.range(4):
        state = tf.tanh(tf.linalg.matvec(MATRIX, state) + x[i])
        rows = rows.write(i, state)
    return rows.stack()


def choices(x: Any) -> Any:
    """Branches, gathers, slices, sorts and comparisons of several types."""
    y = tf.cond(tf.reduce_any(x > 2), lambda: x + 1, lambda: x * 2)
    z = tf.gather(MATRIX, y, batch_dims=0)[:, ::-1][:, 1:9:3]
    one_hot = tf.tensor_scatter_nd_update(tf.zeros(9), y[:, None], tf.ones(4))
    unsigned = tf.cast(y, tf.uint8) > tf.constant(200, tf.uint8)
    return z, tf.sort(y), tf.math.top_k(tf.cast(y, tf.float32), 2), one_hot, unsigned


def numbers(x: Any) -> Any:
    """Constants of many types, and operations on them."""
    parts = [tf.cast(x, kind) * tf.constant(3, kind) for kind in (
        tf.float16, tf.bfloat16, tf.float64, tf.int8, tf.int16, tf.int64, tf.uint16, tf.uint32, tf.uint64,
    )]  # fmt: skip
    waves = tf.signal.fft(tf.complex(x, -x) * tf.complex(0.5, -2.0))
    return parts, waves, tf.math.is_nan(x * float("nan")), tf.cumsum(x, axis=1), tf.reverse(x, [0])


FUNCTIONS: dict[Callable[[Any], Any], Any] = {
    dense: FLOATS, images: IMAGES, gradient: IMAGES, attention: HEADS, recurrent: FLOATS, choices: INTEGERS,
    numbers: FLOATS,
}  # fmt: skip

for function, argument in FUNCTIONS.items():
    compiled = tf.function(function, jit_compile=True).experimental_get_compiler_ir(argument)
    for stage in ("hlo", "optimized_hlo"):
        path = Path(sys.argv[1], f"{function.__name__}.{stage}")
        path.with_suffix(f".{stage}.pb").write_bytes(compiled(stage=f"{stage}_serialized"))
        path.with_suffix(f".{stage}.txt").write_text(compiled(stage=stage), encoding="utf-8")
