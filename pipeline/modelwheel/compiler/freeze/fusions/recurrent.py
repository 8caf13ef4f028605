"""Recurrent layers as a loop over the steps, in the form that is fastest for the number of rows.

A step multiplies one row for each element of the batch by large matrices. Few rows are columns here: with the weights on
the left these are read as they lie in memory; on the right they would be copied into another order in every step. What
belongs to one gate is contiguous then, too. The code does not grow with the number of steps: 48 steps of an LSTM that a
loop of Python unrolls took 9 times as long to compile, and 4 times as much machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ....model.fusions.registry import Argument, Fusion

_FLOATS = ("float32", "float64")
_ONE_PRODUCT = 64 << 10
"""Bytes of the kernel from which its products with all steps of one row are computed at once.

A step of one row is as fast as the weights can be read, and these are then read once instead of in every step. It was
0.94, 1.13 and 1.22 times as fast as a loop that reads them (x86-64-v3; 32, 64 and 128 features; 64, 64 and 128 units).
With 16 rows it was slower, 0.70 to 0.90: the products of all steps leave the cache before they are used."""
_MANY_ROWS = 16
"""Rows from which steps multiply rows: columns were 0.78 and 0.88 times as fast as the layer that they replaced, rows 0.96
and 1.05 times (GRU of 128 features in a `while` loop, unrolled LSTM of 64; 16 rows, 64 units, x86-64-v3)."""
_INPUTS = (
    Argument("x", _FLOATS, ("batch", "time", "features")),
    Argument("kernel", _FLOATS, ("features", "gates")),
    Argument("recurrent_kernel", _FLOATS, ("units", "gates")),
)


@dataclass(frozen=True)
class _Form:
    """How steps are computed: on rows [batch, ...], or on columns [..., batch]."""

    inputs: Any
    """What steps read, by time."""
    project: Callable[[Any], Any]
    """The part of the gates that comes from the inputs of a step."""
    recur: Callable[[Any], Any]
    """The product of a state."""
    columns: bool = True

    def split(self, gates: Any, number: int) -> list[Any]:
        """The gates one by one."""
        parts: list[Any] = tf.split(gates, number, axis=0 if self.columns else 1)
        return parts

    def spread(self, bias: Any) -> Any:
        """A bias that can be added to gates."""
        return bias[:, None] if self.columns else bias

    def turn(self, state: Any) -> Any:
        """A state [batch, units] as steps have it, and the other way round."""
        return tf.transpose(state) if self.columns else state


def _form(x: Any, kernel: Any, recurrent_kernel: Any, bias: Any) -> _Form:
    rows = x.shape[0]
    if rows is not None and rows >= _MANY_ROWS:
        inputs = tf.transpose(x, [1, 0, 2])
        return _Form(
            inputs, lambda x: x @ kernel + bias, lambda h: h @ recurrent_kernel, columns=False
        )
    recurrent = tf.transpose(recurrent_kernel)
    if rows == 1 and (kernel.shape.num_elements() or 0) * x.dtype.size >= _ONE_PRODUCT:
        inputs = (x[0] @ kernel + bias)[:, :, None]
        return _Form(inputs, tf.identity, lambda h: recurrent @ h)
    weights, inputs = tf.transpose(kernel), tf.transpose(x, [1, 2, 0])
    return _Form(inputs, lambda x: weights @ x + bias[:, None], lambda h: recurrent @ h)


def lstm(
    x: Any, kernel: Any, recurrent_kernel: Any, bias: Any, h: Any = None, c: Any = None
) -> list[Any]:
    """All outputs, the last output and the last cell state; gates are i, f, g, o."""
    form = _form(x, kernel, recurrent_kernel, bias)

    def step(inputs: Any, state: Sequence[Any]) -> list[Any]:
        i, f, g, o = form.split(form.project(inputs) + form.recur(state[0]), 4)
        cell = tf.sigmoid(f) * state[1] + tf.sigmoid(i) * tf.tanh(g)
        return [tf.sigmoid(o) * tf.tanh(cell), cell]

    _require_gates(recurrent_kernel, 4)
    return _run(form, [_state(x, recurrent_kernel, h), _state(x, recurrent_kernel, c)], step)


def gru(x: Any, kernel: Any, recurrent_kernel: Any, bias: Any, h: Any = None) -> list[Any]:
    """All outputs and the last one; gates are z, r, h, and r scales the product of the state."""
    form = _form(x, kernel, recurrent_kernel, bias[0])

    def step(inputs: Any, state: Sequence[Any]) -> list[Any]:
        parts = form.split(form.project(inputs), 3)
        kept = form.split(form.recur(state[0]) + form.spread(bias[1]), 3)
        z = tf.sigmoid(parts[0] + kept[0])
        new = tf.tanh(parts[2] + tf.sigmoid(parts[1] + kept[1]) * kept[2])
        return [z * state[0] + (1 - z) * new]

    _require_gates(recurrent_kernel, 3)
    return _run(form, [_state(x, recurrent_kernel, h)], step)


def _require_gates(recurrent_kernel: Any, gates: int) -> None:
    units, columns = recurrent_kernel.shape
    if units is not None and columns not in (None, gates * units):
        raise ValueError(f"recurrent_kernel has {columns} columns, not {gates} for each unit")


def _state(x: Any, recurrent_kernel: Any, initial: Any) -> Any:
    """The first state, [batch, units]."""
    if initial is not None:
        return initial
    return tf.zeros([tf.shape(x)[0], tf.shape(recurrent_kernel)[0]], x.dtype)


def _run(
    form: _Form, state: list[Any], step: Callable[[Any, Sequence[Any]], list[Any]]
) -> list[Any]:
    """Outputs [batch, time, units], and the last state [batch, units]."""
    inputs, state = form.inputs, [form.turn(part) for part in state]
    time = tf.shape(inputs)[0]
    outputs = tf.TensorArray(inputs.dtype, time, element_shape=state[0].shape)

    def body(number: Any, row: Any, outputs: Any, *state: Any) -> tuple[Any, ...]:
        new = step(row, state)
        # Read one step ahead: otherwise XLA computes from a slice of all inputs, element by element.
        following = inputs[tf.minimum(number + 1, time - 1)]
        return (number + 1, following, outputs.write(number, new[0]), *new)

    start = (tf.constant(0), inputs[0], outputs, *state)
    _, _, outputs, *last = tf.while_loop(lambda number, *_: number < time, body, start)
    order = [2, 0, 1] if form.columns else [1, 0, 2]
    return [tf.transpose(outputs.stack(), order), *map(form.turn, last)]


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
