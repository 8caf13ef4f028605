"""Recurrent layers: as the loops that Keras writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .lite_node import ACTIVATIONS, LiteNode, Value, operator

_GATES = 4
"""Of the input, forgetting, the cell and the output."""
_WEIGHTS, _RECURRENT, _PEEPHOLES, _BIASES, _PROJECTION, _NORMS = 1, 5, 9, 12, 16, 20
"""Numbers of the first input of each kind; see kernels/unidirectional_sequence_lstm.cc of TensorFlow Lite."""
_INPUT_GATE = 0


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _lstm(node: LiteNode) -> Value:
    """An LSTM over a sequence, with zeros before its first step."""
    options = node.options
    if any(node.has(n) for n in (*range(_PEEPHOLES, _BIASES), *range(_NORMS, _NORMS + _GATES))):
        raise node.refuse("has peepholes or normalizes its gates, which is not read")
    # Without weights of the input gate, that gate is what is not forgotten.
    gates = [gate for gate in range(_GATES) if node.has(_WEIGHTS + gate)]
    weights, recurrent, biases = (
        _side_by_side(node, first, gates) for first in (_WEIGHTS, _RECURRENT, _BIASES)
    )
    x = node[0] if options.timeMajor else tf.transpose(node[0], [1, 0, 2])
    steps, rows, depth = tf.shape(x)[0], tf.shape(x)[1], int(x.shape[-1])
    inputs = tf.matmul(tf.reshape(x, [-1, depth]), weights) + biases
    inputs = tf.reshape(inputs, [steps, rows, int(biases.shape[0])])
    activation = ACTIVATIONS[options.fusedActivationFunction]
    units = int(biases.shape[0]) // len(gates)
    width = int(recurrent.shape[0])

    def step(time: Value, hidden: Value, cell: Value, written: Any) -> tuple[Value, ...]:
        parts = tf.split(inputs[time] + tf.matmul(hidden, recurrent), len(gates), axis=-1)
        of_gate = dict(zip(gates, parts, strict=True))
        forgotten = tf.sigmoid(of_gate[1])
        taken = tf.sigmoid(of_gate[_INPUT_GATE]) if _INPUT_GATE in of_gate else 1.0 - forgotten
        cell = _clipped(forgotten * cell + taken * activation(of_gate[2]), options.cellClip)
        hidden = _projected(node, tf.sigmoid(of_gate[3]) * activation(cell))
        return time + 1, hidden, cell, written.write(time, hidden)

    array = tf.TensorArray(tf.float32, steps, element_shape=[x.shape[1], width])
    start = (tf.constant(0), tf.zeros([rows, width]), tf.zeros([rows, units]), array)
    *_, written = tf.while_loop(lambda time, *_: time < steps, step, start)
    result = written.stack()
    return result if options.timeMajor else tf.transpose(result, [1, 0, 2])


def _side_by_side(node: LiteNode, first: int, gates: list[int]) -> Any:
    """Weights or biases of all gates; weights with a row for each input."""
    parts = [node.constant(first + gate, "a weight") for gate in gates]
    return np.concatenate([np.transpose(part) for part in parts], axis=-1)


def _clipped(value: Value, limit: float) -> Value:
    return tf.clip_by_value(value, -limit, limit) if limit > 0 else value


def _projected(node: LiteNode, value: Value) -> Value:
    if not node.has(_PROJECTION):
        return value
    value = tf.matmul(value, np.transpose(node.constant(_PROJECTION, "the projection")))
    value = value + node[_PROJECTION + 1] if node.has(_PROJECTION + 1) else value
    return _clipped(value, node.options.projClip)
