"""LSTM and GRU layers of Keras 2, as it saves them: see `modelwheel.compiler.graphs.marks`.

The interface is that of `standard_lstm` and `standard_gru` (tf_keras/src/layers/rnn/{lstm,gru}.py). A layer with a
mask or with sequences of several lengths has more arguments, and is not replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ....model.fusions.registry import Argument, Attribute, Fusion
from .recurrent import gru, lstm

_FLOATS = ("float32", "float64")
_CPU = 1.0
"""What such a function says about where it ran (`runtime` in gru_lstm_utils.py)."""
_ATTRIBUTES = {
    "go_backwards": Attribute(bool, default=False),
    "time_major": Attribute(bool, default=False),
}
_X = Argument("inputs", _FLOATS, ("batch", "time", "features"))
_H = Argument("init_h", _FLOATS, ("batch", "units"))
_KERNELS = (
    Argument("kernel", _FLOATS, ("features", "gates")),
    Argument("recurrent_kernel", _FLOATS, ("units", "gates")),
)


def _layer(values: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """The results as Keras orders them, from all outputs and the last state."""
    outputs, *state = values
    every = results[1] is None or results[1][1] != 1
    return [state[0], outputs if every else state[0][:, None], *state, tf.constant(_CPU)]


def _ordered(x: Any, *, go_backwards: bool, time_major: bool) -> Any:
    if time_major:
        raise ValueError("time_major is not supported")
    return tf.reverse(x, [1]) if go_backwards else x


def _lstm(
    x: Any, h: Any, c: Any, kernel: Any, recurrent: Any, bias: Any, *, results: Any, **order: bool
) -> list[Any]:
    return _layer(lstm(_ordered(x, **order), kernel, recurrent, bias, h, c), results)


def _gru(
    x: Any, h: Any, kernel: Any, recurrent: Any, bias: Any, *, results: Any, **order: bool
) -> list[Any]:
    return _layer(gru(_ordered(x, **order), kernel, recurrent, bias, h), results)


LSTM = Fusion(
    "keras.lstm",
    (
        _X,
        _H,
        Argument("init_c", _FLOATS, ("batch", "units")),
        *_KERNELS,
        Argument("bias", _FLOATS, ("gates",)),
    ),
    _lstm,
    _ATTRIBUTES,
    needs_results=True,
)
GRU = Fusion(
    "keras.gru",
    (_X, _H, *_KERNELS, Argument("bias", _FLOATS, (2, "gates"))),
    _gru,
    _ATTRIBUTES,
    needs_results=True,
)
