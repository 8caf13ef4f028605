"""Models with Lingvo's LSTM cell, for test_composites.py: `composites.py FRAMEWORK DIRECTORY` with `jax` or `tensorflow`.

JAX names it by a composite, TensorFlow by the mark that TensorFlow Lite fuses.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np

_INPUTS, _CELLS, _OUTPUTS, _STEPS = 6, 8, 5, 3


def _values(*shape: int) -> Any:
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return (values / np.sqrt(shape[0])).astype(np.float32)


_WEIGHTS = (
    _values(_INPUTS + _OUTPUTS, 4 * _CELLS),
    _values(4 * _CELLS),
    _values(_CELLS, _OUTPUTS),
)


def cell(numpy: Any, sigmoid: Any, tanh: Any, joined: Any) -> Any:
    """The cell as Lingvo writes it, with the functions of a framework."""

    def step(x: Any, weight: Any, bias: Any, projection: Any, output: Any, state: Any) -> Any:
        sums = joined([x, output]) @ weight + bias
        new, kept, forgotten, shown = numpy.split(sums, 4, axis=-1)
        state = sigmoid(forgotten) * state + sigmoid(kept) * tanh(new)
        return (sigmoid(shown) * tanh(state)) @ projection, state

    return step


def _tensorflow(directory: Path) -> None:
    import tensorflow as tf

    mark = 'name: "LSTMCellSimple" attr { key: "tfl_fusable_op" value { b: true } }'
    written = cell(tf, tf.sigmoid, tf.tanh, lambda parts: tf.concat(parts, -1))
    step = tf.function(written, experimental_implements=mark)

    @tf.function(experimental_implements="LSTMCellSimple")  # type: ignore[untyped-decorator]
    def first(x: Any, weight: Any, bias: Any, projection: Any) -> Any:
        rows = tf.shape(x)[0]
        zeros = tf.zeros([rows, _OUTPUTS]), tf.zeros([rows, _CELLS])
        return written(x, weight, bias, projection, *zeros)[0]

    def serve(x: Any) -> dict[str, Any]:
        rows = tf.shape(x)[0]
        output, state = tf.zeros([rows, _OUTPUTS]), tf.zeros([rows, _CELLS])
        for number in range(_STEPS):
            output, state = step(x[:, number], *map(tf.constant, _WEIGHTS), output, state)
        return {"y": output, "first": first(x[:, 0], *map(tf.constant, _WEIGHTS))}

    module = tf.Module()
    spec = tf.TensorSpec([None, _STEPS, _INPUTS], tf.float32, name="x")
    module.serve = tf.function(serve, input_signature=[spec])
    tf.saved_model.save(module, str(directory / "marked"), signatures=module.serve)


def _jax(directory: Path) -> None:
    import jax
    import jax.numpy as jnp
    from jax import export, lax

    written = cell(jnp, jax.nn.sigmoid, jnp.tanh, lambda parts: jnp.concatenate(parts, -1))
    step = functools.partial(lax.composite, name="lingvo.lstm_cell")(written)
    later = functools.partial(lax.composite, name="lingvo.lstm_cell", version=2)(written)
    other = functools.partial(lax.composite, name="acme.unknown")(
        lambda x, *, factor: x * factor + 1.0
    )

    def f(x: Any) -> Any:
        output = jnp.zeros((len(x), _OUTPUTS), jnp.float32)
        state = jnp.zeros((len(x), _CELLS), jnp.float32)
        for number in range(_STEPS):
            one = step if number else later
            output, state = one(x[:, number], *_WEIGHTS, output, state)
        return other(output, factor=2.0)

    def wrong(x: Any) -> Any:
        return functools.partial(lax.composite, name="lingvo.lstm_cell")(lambda x: x * 2.0)(x)

    spec = jax.ShapeDtypeStruct((4, _STEPS, _INPUTS), np.float32)  # type: ignore[no-untyped-call, unused-ignore]
    for name, function in (("composite", f), ("wrong", wrong)):
        (directory / name).mkdir()
        exported = export.export(jax.jit(function), platforms=["cpu"])(spec)
        (directory / name / "model.jax").write_bytes(exported.serialize())


if __name__ == "__main__":
    {"jax": _jax, "tensorflow": _tensorflow}[sys.argv[1]](Path(sys.argv[2]))
