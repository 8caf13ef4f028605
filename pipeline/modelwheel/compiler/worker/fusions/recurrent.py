"""Recurrent layers as a loop whose steps multiply columns.

A step multiplies few rows, one for each element of the batch, by large matrices. Written with the weights on
the left they are read as they lie in memory; on the right they would be copied into another order in every
step. What belongs to one gate is contiguous then, too. The code does not grow with the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ...fusions import Argument, Fusion

_FLOATS = ("float32", "float64")
_ONE_PRODUCT = 64 << 10
"""Bytes of the kernel from which its products with all steps of one row are computed at once.

A step of one row is as fast as the weights can be read, and these are then read once instead of in every step. It was
0.94, 1.13 and 1.22 times as fast as a loop that reads them (x86-64-v3; 32, 64 and 128 features; 64, 64 and 128 units).
With 16 rows it was slower, 0.70 to 0.90: the products of all steps leave the cache before they are used."""
_INPUTS = (
    Argument("x", _FLOATS, ("batch", "time", "features")),
    Argument("kernel", _FLOATS, ("features", "gates")),
    Argument("recurrent_kernel", _FLOATS, ("units", "gates")),
)


def lstm(
    x: Any, kernel: Any, recurrent_kernel: Any, bias: Any, h: Any = None, c: Any = None
) -> list[Any]:
    """All outputs, the last output and the last cell state; gates are i, f, g, o."""
    recurrent = tf.transpose(recurrent_kernel)
    inputs, project = _inputs(x, kernel, bias)

    def step(given: Any, state: Sequence[Any]) -> list[Any]:
        i, f, g, o = tf.split(project(given) + recurrent @ state[0], 4)
        cell = tf.sigmoid(f) * state[1] + tf.sigmoid(i) * tf.tanh(g)
        return [tf.sigmoid(o) * tf.tanh(cell), cell]

    _require_gates(recurrent_kernel, 4)
    return _run(inputs, [_state(x, recurrent_kernel, h), _state(x, recurrent_kernel, c)], step)


def gru(x: Any, kernel: Any, recurrent_kernel: Any, bias: Any, h: Any = None) -> list[Any]:
    """All outputs and the last one; gates are z, r, h, and r scales the product of the state."""
    recurrent = tf.transpose(recurrent_kernel)
    inputs, project = _inputs(x, kernel, bias[0])

    def step(given: Any, state: Sequence[Any]) -> list[Any]:
        new = tf.split(project(given), 3)
        kept = tf.split(recurrent @ state[0] + bias[1][:, None], 3)
        z = tf.sigmoid(new[0] + kept[0])
        other = tf.tanh(new[2] + tf.sigmoid(new[1] + kept[1]) * kept[2])
        return [z * state[0] + (1 - z) * other]

    _require_gates(recurrent_kernel, 3)
    return _run(inputs, [_state(x, recurrent_kernel, h)], step)


def _inputs(x: Any, kernel: Any, bias: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The inputs [time, ..., batch], and what computes their part of the gates [gates, batch] in each step."""
    if x.shape[0] == 1 and (kernel.shape.num_elements() or 0) * x.dtype.size >= _ONE_PRODUCT:
        return (x[0] @ kernel + bias)[:, :, None], tf.identity
    weights = tf.transpose(kernel)
    return tf.transpose(x, [1, 2, 0]), lambda given: weights @ given + bias[:, None]


def _require_gates(recurrent_kernel: Any, gates: int) -> None:
    units, columns = recurrent_kernel.shape
    if units is not None and columns not in (None, gates * units):
        raise ValueError(f"recurrent_kernel has {columns} columns, not {gates} for each unit")


def _state(x: Any, recurrent_kernel: Any, given: Any) -> Any:
    """The first state, [units, batch]."""
    if given is not None:
        return tf.transpose(given)
    return tf.zeros([tf.shape(recurrent_kernel)[0], tf.shape(x)[0]], x.dtype)


def _run(
    columns: Any, state: list[Any], step: Callable[[Any, Sequence[Any]], list[Any]]
) -> list[Any]:
    """Outputs [batch, time, units], and the last state [batch, units]."""
    time = tf.shape(columns)[0]
    outputs = tf.TensorArray(columns.dtype, time, element_shape=state[0].shape)

    def body(number: Any, inputs: Any, outputs: Any, *state: Any) -> tuple[Any, ...]:
        new = step(inputs, state)
        # Read one step ahead: otherwise XLA computes from a slice of all inputs, element by element.
        following = columns[tf.minimum(number + 1, time - 1)]
        return (number + 1, following, outputs.write(number, new[0]), *new)

    start = (tf.constant(0), columns[0], outputs, *state)
    _, _, outputs, *last = tf.while_loop(lambda number, *_: number < time, body, start)
    return [tf.transpose(outputs.stack(), [2, 0, 1]), *map(tf.transpose, last)]


LSTM = Fusion(
    "modelwheel.lstm",
    (
        *_INPUTS,
        Argument("bias", _FLOATS, ("gates",)),
        Argument("h", _FLOATS, ("batch", "units"), optional=True),
        Argument("c", _FLOATS, ("batch", "units"), optional=True),
    ),
    lstm,
)
GRU = Fusion(
    "modelwheel.gru",
    (
        *_INPUTS,
        Argument("bias", _FLOATS, (2, "gates")),
        Argument("h", _FLOATS, ("batch", "units"), optional=True),
    ),
    gru,
)
