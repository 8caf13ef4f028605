"""A model whose signatures use their inputs as indices, tokens, lengths and masks, in many ways.

python -m tests.models.index_inputs DIRECTORY
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

INT = tf.TensorSpec([None, 6], tf.int32, name="x")
FLOAT = tf.TensorSpec([None, 6], tf.float32, name="x")
ROWS = tf.TensorSpec([None, 6, 3], tf.float32, name="x")
LENGTH = tf.TensorSpec([None], tf.int32, name="x")
TINY = tf.TensorSpec([None, 6], tf.int8, name="x")
BYTES = tf.TensorSpec([None, 6], tf.uint8, name="x")
INDEX = tf.TensorSpec([], tf.int32, name="x")


class Tables(tf.Module):  # type: ignore[misc]
    """Tables of non-symmetric weights."""

    def __init__(self) -> None:
        super().__init__()
        self.variable = tf.Variable(self.make(40))
        self.constant = tf.constant(self.make(10))

    @staticmethod
    def make(rows: int) -> Any:
        """Rows of four weights."""
        return np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)

    def cases(self) -> dict[str, tuple[tf.TensorSpec, Callable[[Any], Any]]]:
        """The input and the function of each signature."""
        embed = self._embed
        return {
            "constant_table": (INT, lambda x: tf.gather(self.constant, x)),
            "variable_table": (INT, embed),
            "second_axis": (INT, lambda x: tf.gather(tf.transpose(self.constant), x, axis=1)),
            "cast_from_float": (FLOAT, lambda x: embed(tf.cast(x, tf.int32))),
            "rounded_float": (FLOAT, lambda x: embed(tf.cast(tf.round(x), tf.int64))),
            "reshaped": (INT, lambda x: embed(tf.squeeze(tf.reshape(x, [-1, 3, 1, 2]), 2))),
            "joined": (INT, lambda x: embed(tf.concat([x[:, 3:], x[:, :2]], 1))),
            "column": (ROWS, lambda x: embed(tf.cast(x[..., 1], tf.int32)) * x[:, :, :1]),
            "columns": (
                FLOAT,
                lambda x: (
                    embed(tf.cast(tf.split(x, [1, 3, 2], 1)[1], tf.int32))[:, 0]
                    + tf.gather(self.constant, tf.cast(tf.unstack(x[:, :4], axis=1)[2], tf.int32))
                    + x[:, 4:] @ self.variable[:2]
                ),
            ),
            "plus_one": (INT, lambda x: embed(x + 1)),
            "one_minus": (INT, lambda x: embed(39 - x)),
            "doubled": (INT, lambda x: embed(x * 2)),
            "offsets": (INT, lambda x: embed(x + tf.constant([0, 5, 10, 15, 20, 25]))),
            "clipped": (INT, lambda x: embed(tf.clip_by_value(x, 0, 39))),
            "clipped_below": (INT, lambda x: embed(tf.maximum(x, 0))),
            "modulo": (INT, lambda x: embed(tf.math.floormod(x, 40))),
            "one_hot": (INT, lambda x: tf.one_hot(x, 7)),
            "two_tables": (
                INT,
                lambda x: embed(x)[:, :, :2] + tf.gather(self.constant, x)[:, :, 1:3],
            ),
            "function": (INT, tf.function(lambda x: tf.function(embed)(tf.identity(x)))),
            "branch": (
                INT,
                lambda x: tf.cond(tf.shape(x)[0] > 1, lambda: embed(x), lambda: embed(x) * 2.0),
            ),
            "loop": (INT, self._sum_steps),
            "array": (INT, self._scan),
            "small_type": (TINY, lambda x: tf.gather(tf.zeros([300, 2]), tf.cast(x, tf.int32))),
            "padding_masked": (INT, self._masked),
            "rows_masked": (ROWS, self._rows_masked),
            "lengths": (LENGTH, lambda x: tf.cast(tf.sequence_mask(x, 9), tf.float32)),
            "long_lengths": (LENGTH, lambda x: tf.cast(tf.sequence_mask(x, 700), tf.float32)),
            "open_lengths": (
                INT,
                lambda x: tf.range(tf.shape(x)[0])[:, None] < x,
            ),
            "choice": (
                INDEX,
                lambda x: tf.switch_case(
                    x, [lambda: self.constant, lambda: self.constant * 2, lambda: self.constant * 3]
                ),
            ),
            "scattered": (LENGTH, lambda x: tf.scatter_nd(x[:, None], tf.ones_like(x), [12])),
            "no_index": (INT, lambda x: tf.cast(x, tf.float32) * 2.0),
            "float_only": (FLOAT, lambda x: tf.nn.relu(x) @ self.variable[:6]),
            "wrapped": (INT, lambda x: embed(_wrap(x))),
            "wrapped_float": (FLOAT, lambda x: embed(_wrap(tf.cast(x, tf.int32)))),
            "pixels": (FLOAT, lambda x: tf.nn.relu(x * (1 / 127.5) - 1.0)),
            "halved_in_turns": (
                FLOAT,
                lambda x: tf.while_loop(
                    lambda i, _: i < 3, lambda i, y: (i + 1, y * (1 / 127.5) - 1.0), [0, x]
                )[1],
            ),
            "bytes": (BYTES, lambda x: tf.cast(x, tf.float32) / 255.0),
            "standardised": (
                FLOAT,
                lambda x: (
                    (x - tf.constant([9.0, -5.0] * 3)) / tf.sqrt(tf.constant([4.0, 0.25] * 3))
                ),
            ),
            "squared": (TINY, lambda x: tf.where(x * x < 0, tf.abs(x * x), x * x)),
            "added": (INT, lambda x: tf.cast(x + tf.cast(tf.shape(x)[0], tf.int32), tf.float32)),
            "divisor": (BYTES, lambda x: tf.constant(255, tf.uint8) // x),
            "shifted": (BYTES, lambda x: tf.bitwise.right_shift(tf.constant(255, tf.uint8), x)),
            "threshold": (INT, lambda x: x > 100),
            "turns": (INDEX, lambda x: tf.while_loop(lambda i: i < x, lambda i: i + 1, [0])[0]),
            "mask_added": (
                INT,
                lambda x: tf.nn.softmax(
                    (1.0 - tf.cast(x, tf.float32)) * -1e4 + self.variable[0, 0]
                ),
            ),
            "logarithm": (FLOAT, tf.math.log),
            "compared_floats": (FLOAT, lambda x: tf.where(x > 100.0, x, -x)),
            "clipped_floats": (FLOAT, lambda x: tf.clip_by_value(x, 0.0, 6.0)),
            "pairs": (INT, lambda x: tf.gather_nd(self.constant, tf.reshape(x, [-1, 3, 2]) % 4)),
            "hashed": (INT, lambda x: embed(tf.cast(tf.abs(x * x), tf.int32))),
            "relu_then_index": (FLOAT, lambda x: embed(tf.cast(tf.exp(x), tf.int32) % 40)),
        }

    def _embed(self, indices: Any) -> Any:
        return tf.nn.embedding_lookup(self.variable, indices, name="words")

    def _sum_steps(self, x: Any) -> Any:
        turns = lambda i, _: i < 6
        return tf.while_loop(
            turns, lambda i, a: (i + 1, a + self._embed(x[:, i])), [0, self._embed(x[:, 0])]
        )[1]

    def _scan(self, x: Any) -> Any:
        start = tf.zeros_like(self._embed(x[:, 0]))
        return tf.scan(lambda a, t: a * 0.5 + self._embed(t), tf.transpose(x), start)[-1]

    def _masked(self, x: Any) -> Any:
        return self._embed(x) * tf.cast(x != 3, tf.float32)[:, :, None]

    def _rows_masked(self, x: Any) -> Any:
        kept = tf.reduce_any(x != -1.0, axis=-1, keepdims=True)
        return tf.reduce_sum(x * tf.cast(kept, tf.float32), 1)


def _wrap(x: Any) -> Any:
    """An index that may count from the end, as Keras 3.15 writes it."""
    return tf.where(x < 0, x + 40, x)


def _named(function: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda x: {"y": function(x)}


def save(directory: Path) -> None:
    """Saves the model with all signatures."""
    tables = Tables()
    signatures = {}
    for name, (spec, function) in tables.cases().items():
        traced = tf.function(_named(function), input_signature=[spec])
        signatures[name] = traced
        setattr(tables, f"call_{name}", traced)
    tf.saved_model.save(tables, str(directory), signatures=signatures)


def save_graph(path: Path) -> None:
    """Saves a frozen graph whose tokens, fed as floats, are cast to indices."""
    with tf.Graph().as_default() as graph:
        tokens = tf.compat.v1.placeholder(tf.float32, [None, 6], name="tokens")
        tf.gather(Tables.make(17), tf.cast(tokens, tf.int32) - 2, name="rows")
    path.write_bytes(graph.as_graph_def().SerializeToString())


if __name__ == "__main__":
    save(Path(sys.argv[1]))
    save_graph(Path(sys.argv[1], "graph.pb"))
