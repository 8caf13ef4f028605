"""Lingvo's LSTM cell, which models of TensorFlow mark with `LSTMCellSimple` for TensorFlow Lite.

The mark promises one step of an LSTM: what it reads, its weights for the input and the last output together, its
biases and the projection of its output. Gates are cell, input, forget and output, in this order. The first state is
zeros; a step in the middle of a sequence also gets the last output and the last cell state, and returns both.

Names of composites have a namespace: `jax.lax.composite(step, "lingvo.lstm_cell")` is the same cell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf

from modelwheel.model.fusions.registry import Argument, Fusion

_FLOAT = ("float32",)


def lstm_cell(
    x: Any, weight: Any, bias: Any, projection: Any, output: Any = None, cell: Any = None
) -> Any:
    """The output [batch, outputs] of a first step, or the output and the cell state [batch, cells] of a later one."""
    inputs, gates = x.shape[-1], weight.shape[-1]
    if inputs is None or gates is None or gates % 4:
        raise ValueError(f"the weight has {gates} columns, which are not four for each cell")
    # The input's part of the weights and the output's, so that nothing is joined in each step.
    sums = x @ weight[:inputs] + bias
    if output is not None:
        sums += output @ weight[inputs:]
    new, kept, forgotten, shown = tf.split(sums, 4, axis=-1)
    state = tf.sigmoid(kept) * tf.tanh(new)
    if cell is not None:
        state += tf.sigmoid(forgotten) * cell
    result = (tf.sigmoid(shown) * tf.tanh(state)) @ projection
    return result if output is None else [result, state]


LSTM_CELL = Fusion(
    "LSTMCellSimple",
    (
        Argument("x", _FLOAT, ("batch", "inputs")),
        Argument("weight", _FLOAT, ("rows", "gates")),
        Argument("bias", _FLOAT, ("gates",)),
        Argument("projection", _FLOAT, ("cells", "outputs")),
        Argument("output", _FLOAT, ("batch", "outputs"), optional=True),
        Argument("cell", _FLOAT, ("batch", "cells"), optional=True),
    ),
    lstm_cell,
)
COMPOSITE = replace(LSTM_CELL, name="lingvo.lstm_cell")
