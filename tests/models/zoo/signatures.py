"""SavedModels that the other modules lack: random numbers by a state, real rows, layers of Keras, many inputs.

python -m tests.models.zoo.signatures DIRECTORY
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

_PHILOX = 1

Function = Callable[..., dict[str, Any]]


def _weights(*shape: int) -> Any:
    return tf.constant(np.random.default_rng(shape).standard_normal(shape).astype(np.float32))


def _spec(*shape: int | None, dtype: Any = tf.float32) -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype)


def _random_by_state(key: Any, counter: Any) -> dict[str, Any]:
    draw = tf.raw_ops.StatelessRandomUniformFullIntV2
    bits = draw(shape=[2, 3], key=key, counter=counter, alg=_PHILOX, dtype=tf.uint32)
    # A block of Philox is four numbers of 32 bits.
    return {"bits": bits, "next": tf.concat([counter[:1] + 2, counter[1:]], 0)}


def _turns(x: Any, turns: Any) -> dict[str, Any]:
    step = lambda i, y: (
        i + 1,
        tf.switch_case(i % 3, [lambda: y * 0.5, lambda: tf.tanh(y @ _weights(4, 4)), lambda: y + 0.1]),
    )  # fmt: skip
    return {"y": tf.while_loop(lambda i, _: i < turns, step, [0, x])[1]}


def _array(size: int) -> Function:
    """A function whose array begins with this many elements and gets five."""

    def call(x: Any) -> dict[str, Any]:
        dynamic = {"size": size, "dynamic_size": not size}
        array = tf.TensorArray(tf.float32, element_shape=[None, 4], **dynamic)
        for step in range(5):
            array = array.write(step, x * float(step + 1))
        return {"y": tf.reduce_sum(array.stack(), 0)}

    return call


def _gradient(x: Any) -> dict[str, Any]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.nn.softmax(tf.tanh(x @ _weights(4, 6)) @ _weights(6, 3))[:, 0])
    return {"gradient": tape.gradient(loss, x)}


def _rounded(x: Any) -> dict[str, Any]:
    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def straight_through(y: Any) -> Any:
        return tf.round(y), lambda upstream: upstream

    return {"y": straight_through(3.0 * x) + 0.25}


def _half(x: Any) -> dict[str, Any]:
    hidden = tf.cast(x, tf.float16) @ tf.cast(_weights(4, 8), tf.float16)
    return {"y": tf.cast(tf.nn.relu(hidden), tf.float32) @ _weights(8, 3)}


def _many(**inputs: Any) -> dict[str, Any]:
    joined = tf.stack([tf.cast(inputs[name], tf.float32) for name in sorted(inputs)], 1)
    return {f"score{n}": tf.tanh(joined @ _weights(24, 3))[:, n] for n in range(3)}


CASES: dict[str, tuple[dict[str, tf.TensorSpec], Function]] = {
    "random_by_state": (
        {"key": _spec(1, dtype=tf.uint64), "counter": _spec(2, dtype=tf.uint64)},
        _random_by_state,
    ),
    "turns": ({"x": _spec(None, 4), "turns": _spec(dtype=tf.int32)}, _turns),
    "array": ({"x": _spec(None, 4)}, _array(5)),
    "lengthened_array": ({"x": _spec(None, 4)}, _array(0)),
    "gradient": ({"x": _spec(None, 4)}, _gradient),
    "custom_gradient": ({"x": _spec(None, 4)}, _rounded),
    "half": ({"x": _spec(None, 4)}, _half),
    "many": (
        {f"i{n}": _spec(None, dtype=tf.int32 if n % 3 else tf.float32) for n in range(24)},
        _many,
    ),
    "tokens": (
        {"tokens": _spec(None, 5, dtype=tf.int64)},
        lambda tokens: {"y": tf.reduce_sum(tf.gather(_weights(30, 4), tokens), 1)},
    ),
    "only_bools": (
        {"a": _spec(None, 3, dtype=tf.bool), "b": _spec(None, 3, dtype=tf.bool)},
        lambda a, b: {"both": a & b, "either": tf.reduce_any(a | b, 1)},
    ),
    "float8": (
        {"x": _spec(4, dtype=tf.dtypes.experimental.float8_e4m3fn)},
        lambda x: {"y": tf.cast(x, tf.float32)},
    ),
    "int4": (
        {"x": _spec(4, dtype=tf.dtypes.experimental.int4)},
        lambda x: {"y": tf.cast(x, tf.int32)},
    ),
    "clock": ({"x": _spec(None, 4)}, lambda x: {"y": x + tf.cast(tf.timestamp(), tf.float32)}),
    "float_noise": (
        {"x": _spec(None, 4), "seed": _spec(2, dtype=tf.int32)},
        lambda x, seed: {"y": x + tf.random.stateless_normal([4], seed)},
    ),
}
"""Inputs and function of each model."""


def _layers() -> dict[str, Any]:
    """Networks of Keras, saved by `export`."""
    layers = tf.keras.layers
    steps, tokens = (
        layers.Input((6, 3), name="steps"),
        layers.Input((7,), dtype="int32", name="tokens"),
    )
    hidden = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(steps)
    embedded = layers.Embedding(20, 8)(tokens)
    attended = layers.MultiHeadAttention(2, 4)(embedded, embedded)
    normal = layers.LayerNormalization()(layers.Add()([embedded, attended]))
    return {
        "recurrent": tf.keras.Model(steps, layers.Dense(2)(layers.GRU(3)(hidden))),
        "transformer": tf.keras.Model(tokens, layers.Dense(3)(layers.GlobalAveragePooling1D()(normal))),
    }  # fmt: skip


def save(directory: Path) -> None:
    """Saves all models below the directory; real rows for one of them are beside it."""
    for name, (inputs, function) in CASES.items():
        module = tf.Module()
        specs = {key: tf.TensorSpec(spec.shape, spec.dtype, key) for key, spec in inputs.items()}
        module.call = tf.function(function)
        concrete = module.call.get_concrete_function(**specs)
        tf.saved_model.save(module, str(directory / name), signatures=concrete)
    rows = np.random.default_rng(5).integers(0, 30, (6, 5))
    np.savez(directory / "tokens.npz", tokens=rows)
    tf.keras.utils.set_random_seed(11)
    for name, model in _layers().items():
        generator = np.random.default_rng(12)
        model.set_weights([generator.normal(size=w.shape) * 0.4 for w in model.get_weights()])
        model.export(str(directory / name), verbose=False)


if __name__ == "__main__":
    save(Path(sys.argv[1]))
