"""Frozen graphs without a Config, as CMS's data repositories hold them; their inputs are known by node name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

v1 = tf.compat.v1


def _weights(*shape: int) -> Any:
    return tf.constant(np.random.default_rng(shape).standard_normal(shape).astype(np.float32))


def tagger() -> None:
    """Dropout that a placeholder switches on, a node that no output needs, a training step."""
    x = v1.placeholder(tf.float32, [None, 5], name="input")
    training = v1.placeholder(tf.bool, [], name="keras_learning_phase")
    hidden = tf.nn.relu(x @ _weights(5, 8), name="dense/Relu")
    dropped = v1.cond(training, lambda: tf.nn.dropout(hidden, 0.5), lambda: tf.identity(hidden))
    with tf.name_scope("output"):
        tf.nn.softmax(dropped @ _weights(8, 3), name="id_probabilities")
    tf.io.read_file(tf.constant("/etc/hostname"), name="of_training")


def sequence() -> None:
    """A loop of TensorFlow 1 in a function, with a fixed number of turns."""

    def loop(x: Any) -> Any:
        return v1.while_loop(
            lambda turn, _: turn < 3,
            lambda turn, y: (turn + 1, tf.tanh(y @ _weights(4, 4))),
            [0, x],
        )[1]

    called = v1.wrap_function(loop, [tf.TensorSpec([None, 4], tf.float32)])
    x = v1.placeholder(tf.float32, [None, 4], name="features")
    tf.identity(called(x) + 1.0, name="state")


def write(directory: Path) -> None:
    """Writes the graphs; `tagger` also as text."""
    v1.disable_control_flow_v2()
    for build in (tagger, sequence):
        with tf.Graph().as_default() as graph:
            build()
        message = graph.as_graph_def()
        (directory / f"{build.__name__}.pb").write_bytes(message.SerializeToString())
        if build is tagger:
            text = text_format.MessageToString(message)
            (directory / "tagger.pbtxt").write_text(text, encoding="utf-8")
