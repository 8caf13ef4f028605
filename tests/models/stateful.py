"""Small models whose calls write variables, in every place where TensorFlow lets them: for test_state.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


def _values(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


class Places(tf.Module):  # type: ignore[misc]
    """One variable for each way to write one; rows of one call are added up in it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = tf.Variable(3, dtype=tf.int64)
        self.sums = tf.Variable(_values(4))
        self.history = tf.Variable(_values(5, 4))
        self.left, self.right = tf.Variable(_values(2)), tf.Variable(_values(2) + 1)
        self.looped = tf.Variable(0.5)
        self.branched = tf.Variable(-0.25)
        self.unread = tf.Variable(tf.zeros([2]))
        self.weights = tf.Variable(_values(4, 4))  # read only: a constant

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def evaluate(self, x: Any) -> dict[str, Any]:
        """Reads and writes in program order."""
        before = self.sums.read_value()
        self.sums.assign_add(tf.reduce_sum(x @ self.weights, 0))
        position = tf.cast(self.calls % 5, tf.int32)
        self.history.scatter_update(tf.IndexedSlices(tf.tanh(before), position))
        self.calls.assign_add(2)
        left = self.left.read_value()
        self.left.assign(self.right)
        self.right.assign(left * 0.5)
        self._loop()
        self._branch(x)
        self.unread.assign_add([1.0, 2.0])
        return {
            # Most digits are lost, in TensorFlow too.
            "coarse": tf.sqrt(1.0 + 1e-3 * self.sums) - 1.0,
            "y": x + self.sums - before,
            "history": tf.reduce_sum(self.history * tf.range(1.0, 6.0)[:, None], 0),
            "swapped": tf.concat([self.left, self.right], 0),
            "scalars": tf.stack([self.looped, self.branched, tf.cast(self.calls, tf.float32)]),
        }

    def _loop(self) -> None:
        for step in tf.range(3):
            self.looped.assign(self.looped * 1.25 - tf.cast(step, tf.float32))
            if self.looped < -4.0:
                self.looped.assign_add(5.0)

    def _branch(self, x: Any) -> None:
        if x[0, 0] > 0:
            self.branched.assign_sub(x[0, 1])
        else:
            self.branched.assign(self.branched * 0.5)


class Stream(tf.Module):  # type: ignore[misc]
    """A recurrent cell of fixed batch whose state stays in variables, as Keras's `stateful=True` does."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = tf.Variable(tf.zeros([1, 8]), name="cell/Variable")
        self.memory = tf.Variable(tf.zeros([1, 8]), name="cell/Variable")
        self.kernel = tf.Variable(_values(3, 32) * 0.5)
        self.recurrent = tf.Variable(_values(8, 32) * 0.5)

    @tf.function(input_signature=[tf.TensorSpec([1, 6, 3], tf.float32, name="frames")])  # type: ignore[untyped-decorator]
    def evaluate(self, frames: Any) -> dict[str, Any]:
        """Six steps of a long short-term memory."""
        hidden, memory = self.hidden.read_value(), self.memory.read_value()
        for step in tf.range(6):
            gates = frames[:, step] @ self.kernel + hidden @ self.recurrent
            i, f, g, o = tf.split(gates, 4, axis=1)
            memory = tf.sigmoid(f) * memory + tf.sigmoid(i) * tf.tanh(g)
            hidden = tf.sigmoid(o) * tf.tanh(memory)
        self.hidden.assign(hidden)
        self.memory.assign(memory)
        return {"last": hidden}


def save(directory: Path) -> None:
    """Saves both models below a directory, with the outputs of six calls in a row."""
    for name, model in (("places", Places()), ("stream", Stream())):
        tf.saved_model.save(model, str(directory / name), signatures=model.evaluate)


if __name__ == "__main__":
    save(Path(sys.argv[1]))
