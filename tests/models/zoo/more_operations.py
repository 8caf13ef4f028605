"""A model with one output for each operation that few models use, beside those of `tests.models.operations`.

python -m tests.models.zoo.more_operations DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.models.operations import ROWS, Seeded


class Numbers(Seeded):
    """Operations over `ROWS`."""

    SEED = 7

    @tf.function(input_signature=ROWS)  # type: ignore[untyped-decorator]
    def evaluate(self, x: Any, n: Any) -> dict[str, Any]:
        """One output for each operation."""
        return {
            **_functions(x),
            **_reductions(x),
            **_integers(n),
            **self._moves(x),
            **self._layers(x),
            **_types(x, n),
            **self._control(x, n),
        }

    def _moves(self, x: Any) -> dict[str, Any]:
        image, rows = tf.reshape(x, [-1, 6, 4, 2]), tf.transpose(x, [1, 0, 2])
        return {
            "transpose": tf.transpose(x, [0, 2, 1]),
            "reverse": tf.reverse(x, [1]),
            "roll": tf.roll(x, 3, 2),
            "pad": tf.pad(x, [[0, 0], [1, 2], [0, 1]], constant_values=2.5),
            "mirror_pad": tf.pad(x, [[0, 0], [1, 2], [0, 3]], "REFLECT"),
            "tile": tf.tile(x, [1, 2, 1]),
            "stack": tf.stack([x, 2 * x, -x], 1),
            "unstack": tf.unstack(x, axis=1)[4],
            "split": tf.split(x, [1, 5, 2], 2)[1],
            "strided_slice": x[:, 1::2, ::-3],
            "gather_nd": tf.gather_nd(x, [[[1, 2], [0, 7]]] * tf.ones_like(x[:, :2, :2], tf.int32), 1),
            "scatter": tf.transpose(
                tf.tensor_scatter_nd_add(rows, [[1], [4]], 2 * rows[2:4]), [1, 0, 2]
            ),
            "space_to_depth": tf.nn.space_to_depth(image, 2),
            "depth_to_space": tf.nn.depth_to_space(tf.reshape(x, [-1, 3, 4, 4]), 2),
            "broadcast": x[:, :1] + tf.reshape(self._weights(6), [1, 6, 1]),
            "band_part": tf.linalg.band_part(x, 1, 2),
            "diagonal": tf.linalg.diag(x[:, 0]),
            "where": tf.where(x > 0, x, self._weights(6, 8)),
        }  # fmt: skip

    def _layers(self, x: Any) -> dict[str, Any]:
        image = tf.reshape(x, [-1, 6, 4, 2])
        mean, variance = tf.nn.moments(x, [2], keepdims=True)
        weight = self._weights
        attention = tf.nn.softmax(tf.einsum("bij,bkj->bik", x @ weight(8, 4), x @ weight(8, 4)))
        square = tf.matmul(x, x, transpose_b=True) + 8 * tf.eye(6)
        factor = tf.linalg.cholesky(square)
        return {
            "layer_norm": tf.nn.batch_normalization(x, mean, variance, weight(8), weight(8), 1e-3),
            "batch_norm": tf.nn.batch_normalization(
                x, weight(8), tf.abs(weight(8)), weight(8), weight(8), 1e-3
            ),
            "attention": attention @ x,
            "einsum": tf.einsum("bij,jk,ik->bi", x, weight(8, 3), weight(6, 3)),
            "average_pool": tf.nn.avg_pool2d(image, [2, 3], [1, 2], "SAME"),
            "resize_bilinear": tf.image.resize(image, [9, 7]),
            "resize_nearest": tf.image.resize(image, [3, 8], "nearest"),
            "bias": tf.nn.bias_add(x, weight(8)),
            "log_softmax": tf.nn.log_softmax(x),
            "normalised": tf.math.l2_normalize(x, 2),
            "cholesky": factor,
            "triangular_solve": tf.linalg.triangular_solve(factor, x),
        }

    def _control(self, x: Any, n: Any) -> dict[str, Any]:
        step = lambda i, a: (
            i + 1,
            tf.while_loop(lambda j, _: j < 3, lambda j, b: (j + 1, 0.5 * b + 0.1), [0, a])[1],
        )
        return {
            "nested_while": tf.while_loop(lambda i, _: i < 4, step, [0, x])[1],
            "map": tf.transpose(
                tf.map_fn(lambda row: row * tf.reduce_max(row), tf.transpose(x, [1, 0, 2])), [1, 0, 2]
            ),
            "embedding": tf.nn.embedding_lookup(self._weights(21, 3), tf.math.abs(n) % 21),
        }  # fmt: skip


def _functions(x: Any) -> dict[str, Any]:
    inside, positive = 0.9 * tf.tanh(x), tf.abs(x) + 0.5
    return {
        "exp": tf.exp(inside),
        "expm1": tf.math.expm1(inside),
        "log": tf.math.log(positive),
        "log1p": tf.math.log1p(positive),
        "sqrt": tf.sqrt(positive),
        "rsqrt": tf.math.rsqrt(positive),
        "pow": tf.pow(positive, inside),
        "sin": tf.sin(x),
        "cos": tf.cos(x),
        "asin": tf.asin(inside),
        "atan2": tf.atan2(x, positive),
        "sinh": tf.sinh(inside),
        "asinh": tf.asinh(x),
        "sigmoid": tf.sigmoid(x),
        "softplus": tf.nn.softplus(x),
        "elu": tf.nn.elu(x),
        "selu": tf.nn.selu(x),
        "gelu": tf.nn.gelu(x),
        "relu6": tf.nn.relu6(3 * x),
        "leaky_relu": tf.nn.leaky_relu(x),
        "swish": tf.nn.silu(x),
        "lgamma": tf.math.lgamma(positive + 3),
        "floor": tf.floor(3 * x),
        "sign": tf.sign(x),
        "clip": tf.clip_by_value(x, -0.3, 0.4),
        "maximum": tf.maximum(x, inside[:, ::-1]),
        "squared_difference": tf.math.squared_difference(x, x[:, :, ::-1]),
    }


def _reductions(x: Any) -> dict[str, Any]:
    return {
        "sum": tf.reduce_sum(x, [1, 2]),
        "mean": tf.reduce_mean(x, 1),
        "product": tf.reduce_prod(x, 2),
        "largest": tf.reduce_max(x, 2, keepdims=True),
        "any": tf.reduce_any(x > 0.5, 2),
        "all": tf.reduce_all(x > -0.5, 2),
        "argmin": tf.argmin(x, 1, tf.int32),
        "logsumexp": tf.reduce_logsumexp(x, 2),
        "cumprod": tf.math.cumprod(tf.tanh(x), 2, reverse=True),
    }


def _integers(n: Any) -> dict[str, Any]:
    return {
        "floor_division": n // 3,
        "remainder": tf.math.floormod(n, 7),
        "bitwise": tf.bitwise.bitwise_xor(n, tf.bitwise.bitwise_and(n, 13)),
        "shift": tf.bitwise.left_shift(tf.math.abs(n), 2),
        "equal": tf.equal(n, n[:, ::-1]),
        "logical": tf.logical_and(n > 0, n < 9),
    }


def _types(x: Any, n: Any) -> dict[str, Any]:
    small = tf.math.abs(n)
    return {
        "int8": tf.cast(n, tf.int8),
        "int16": tf.cast(n, tf.int16) * 5,
        "uint16": tf.cast(small, tf.uint16),
        "uint32": tf.cast(small, tf.uint32),
        "uint64": tf.cast(small, tf.uint64),
        "float64": tf.cast(x, tf.float64) * 1.5,
        "complex128": tf.complex(tf.cast(x, tf.float64), tf.constant(2.0, tf.float64)),
    }


def save(directory: Path) -> None:
    """Saves `numbers` below the directory."""
    model = Numbers()
    signatures = {"serving_default": model.evaluate}
    tf.saved_model.save(model, str(directory / "numbers"), signatures=signatures)


if __name__ == "__main__":
    save(Path(sys.argv[1]))
