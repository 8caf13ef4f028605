"""Small models with marked functions, for test_fusions.py and tests.bench.fusions: `fusions.py DIRECTORY [large] [keras]`.

Needs TensorFlow.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

_FUSABLE = 'attr { key: "tfl_fusable_op" value { b: true } }'


def _values(*shape: int) -> Any:
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return (values / np.sqrt(shape[0])).astype(np.float32)


def mark(name: str, attributes: str = "") -> Any:
    """The decorator of a marked function; with attributes in the form that TensorFlow Lite uses."""
    text = f'name: "{name}" {attributes}' if attributes else name
    return tf.function(experimental_implements=text)


def look_up(table: Any, ids: Any) -> Any:
    """The example of TensorFlow Lite's page on operation fusion: row by row."""
    number = tf.shape(ids)[0]
    rows = tf.TensorArray(table.dtype, number, element_shape=[table.shape[1]])
    for i in tf.range(number):
        rows = rows.write(i, table[ids[i]])
    return rows.stack()


def lstm(x: Any, kernel: Any, recurrent_kernel: Any, bias: Any) -> tuple[Any, Any, Any]:
    """A loop of Python, which TensorFlow unrolls."""
    units = recurrent_kernel.shape[0]
    h = c = tf.zeros([tf.shape(x)[0], units])
    outputs = []
    for step in range(x.shape[1]):
        gates = x[:, step] @ kernel + h @ recurrent_kernel + bias
        i, f, g, o = tf.split(gates, 4, axis=1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        outputs.append(h)
    return tf.stack(outputs, 1), h, c


def gru(x: Any, kernel: Any, recurrent_kernel: Any, bias: Any, h: Any) -> tuple[Any, Any]:
    """A `while` loop over the steps."""
    outputs = tf.TensorArray(tf.float32, x.shape[1], element_shape=[None, h.shape[1]])
    for step in tf.range(x.shape[1]):
        xz, xr, xh = tf.split(x[:, step] @ kernel + bias[0], 3, axis=1)
        hz, hr, hh = tf.split(h @ recurrent_kernel + bias[1], 3, axis=1)
        z = tf.sigmoid(xz + hz)
        h = z * h + (1 - z) * tf.tanh(xh + tf.sigmoid(xr + hr) * hh)
        outputs = outputs.write(step, h)
    return tf.transpose(outputs.stack(), [1, 0, 2]), h


def gru_from_zeros(x: Any, kernel: Any, recurrent_kernel: Any, bias: Any) -> tuple[Any, Any]:
    """The same without a first state; marked functions have no optional arguments."""
    h = tf.zeros([tf.shape(x)[0], recurrent_kernel.shape[0]])
    return gru(x, kernel, recurrent_kernel, bias, h)


def softmax(x: Any) -> Any:
    """As in the textbooks."""
    weights = tf.exp(x - tf.reduce_max(x, -1, keepdims=True))
    return weights / tf.reduce_sum(weights, -1, keepdims=True)


def gelu(x: Any) -> Any:
    """By the distribution of the normal numbers."""
    return x * 0.5 * tf.math.erfc(-x / np.sqrt(np.float32(2)))


def gelu_tanh(x: Any) -> Any:
    """The usual approximation."""
    cubic = x + 0.044715 * tf.pow(x, 3)
    return 0.5 * x * (1.0 + tf.tanh(np.sqrt(2 / np.pi).astype(np.float32) * cubic))


def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
    """By the moments of each row."""
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-5) * gamma + beta


def attention(query: Any, key: Any, value: Any, bias: Any) -> Any:
    """Scaled dot products with an additive mask."""
    scale = tf.sqrt(tf.cast(query.shape[-1], tf.float32))
    return tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / scale + bias), value)


class Embed(tf.Module):  # type: ignore[misc]
    """Lookups, one of them in a loop, and a mark that nothing is registered for."""

    def __init__(self) -> None:
        super().__init__()
        self.table = tf.Variable(_values(50, 8))
        self.look_up = mark("embedding_lookup")(look_up)
        self.multiply = mark("embedding_matmul", _FUSABLE)(look_up)
        self.unknown = mark("example.triple")(lambda x: x * 3.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.int32, name="ids")])  # type: ignore[untyped-decorator]
    def serve(self, ids: Any) -> dict[str, Any]:
        """Rows of a table, for the ids of all columns at once and of one after the other."""
        flat = self.look_up(self.table, tf.reshape(ids, [-1]))
        total = tf.zeros([tf.shape(ids)[0], 8])
        for column in tf.range(6):
            total += self.multiply(self.table, ids[:, column]) * tf.cast(column + 1, tf.float32)
        return {"rows": tf.reshape(flat, [-1, 6, 8]), "total": self.unknown(total)}


class Layers(tf.Module):  # type: ignore[misc]
    """Every other fusion that modelwheel has."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = mark("modelwheel.lstm")(lstm)
        self.gru = mark("modelwheel.gru")(gru)
        self.softmax = mark("modelwheel.softmax")(softmax)
        self.gelu = mark("modelwheel.gelu")(gelu)
        tanh = 'attr { key: "approximate" value { b: true } }'
        self.gelu_tanh = mark("modelwheel.gelu", tanh)(gelu_tanh)
        epsilon = 'attr { key: "epsilon" value { f: 1e-5 } }'
        self.norm = mark("modelwheel.layer_norm", epsilon)(layer_norm)
        self.attention = mark("modelwheel.attention")(attention)
        self.kernels = [tf.Variable(_values(6, gates * 5)) for gates in (4, 3)]
        self.recurrent = [tf.Variable(_values(5, gates * 5)) for gates in (4, 3)]
        self.biases = [tf.Variable(_values(20)), tf.Variable(_values(2, 15))]
        self.gamma, self.beta = tf.Variable(_values(6)), tf.Variable(_values(6) + 1)

    @tf.function(input_signature=[tf.TensorSpec([None, 7, 6], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def serve(self, x: Any) -> dict[str, Any]:
        """One output for each result."""
        sequence, h, c = self.lstm(x, self.kernels[0], self.recurrent[0], self.biases[0])
        second, last = self.gru(x, self.kernels[1], self.recurrent[1], self.biases[1], h)
        heads = tf.stack([x, x * 0.5, x - 1], 1)
        bias = tf.where(x[:, None, :, :1] > 1.0, -1e9, 0.0)
        return {
            "lstm": sequence,
            "cell": c,
            "gru": second,
            "last": last,
            "softmax": self.softmax(heads),
            "gelu": self.gelu(x),
            "gelu_tanh": self.gelu_tanh(x),
            "norm": self.norm(heads, self.gamma, self.beta),
            "attention": self.attention(heads, heads + 1, heads, tf.transpose(bias, [0, 1, 3, 2])),
        }


def swish(x: Any) -> Any:
    """What tests register a pattern of their own for."""
    return x / (1.0 + tf.exp(-x))


class Written(tf.Module):  # type: ignore[misc]
    """The same without marks, in more forms; some in the body of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma, self.beta = tf.Variable(_values(6)), tf.Variable(_values(6) + 1)

    def _keras_norm(self, x: Any) -> Any:
        """As Keras 3 writes it."""
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        gamma, beta = (tf.reshape(one, [1, 1, 6]) for one in (self.gamma, self.beta))
        scale = tf.math.rsqrt(variance + 1e-3) * gamma
        return x * scale + (-mean * scale + beta)

    @tf.function(input_signature=[tf.TensorSpec([None, 7, 6], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def serve(self, x: Any) -> dict[str, Any]:
        """One output for each form; `weights` of a softmax are wanted too, so that nothing can replace it."""
        weights = tf.exp(x - tf.reduce_max(x, -1, keepdims=True))
        turned = tf.transpose(x + 1, [0, 2, 1])
        looped = x
        for _ in tf.range(3):
            looped = swish(gelu_tanh(looped)) + softmax(looped)
        return {
            "gelu": gelu(x) + tf.nn.gelu(x) + x * (0.5 * (1.0 + tf.math.erf(x / tf.sqrt(2.0)))),
            "gelu_tanh": tf.nn.gelu(x, approximate=True),
            "softmax": softmax(x) + tf.nn.softmax(x),
            "weights": weights,
            "kept": weights / tf.reduce_sum(weights, -1, keepdims=True),
            "norm": layer_norm(x, self.gamma, self.beta) + self._keras_norm(x),
            "attention": attention(x, x + 1, x, x[:, None, :, 0]),
            "attention_2": tf.matmul(softmax(tf.matmul(x * 0.25, turned)), x),
            "looped": looped,
        }


class Marked(tf.Module):  # type: ignore[misc]
    """A function whose replacement, in the tests, computes something else."""

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def serve(self, x: Any) -> dict[str, Any]:
        """Three times the input."""
        return {"y": mark("acme.triple")(lambda x: x * 3.0)(x)}


def _keras_layers(directory: Path) -> None:
    """Layers of Keras 2 with random weights; one runs backwards, one returns its last output alone."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tf_keras

    tf_keras.utils.set_random_seed(1)
    layers = tf_keras.layers
    x = layers.Input((7, 6), name="x")
    y = layers.LSTM(5, return_sequences=True, go_backwards=True, bias_initializer="normal")(x)
    model = tf_keras.Model(x, layers.GRU(4, bias_initializer="normal")(y))
    tf.saved_model.save(model, str(directory))


def _keras_3(directory: Path) -> None:
    """A file of Keras 3: recurrent layers, one with a mask that nothing can replace, and a dense one."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers
    x = layers.Input((7, 6), name="x")
    lstm = layers.LSTM(64, return_sequences=True, return_state=True, bias_initializer="normal")
    y, *state = lstm(x)
    # So large that products of one row are computed in another way.
    second = layers.LSTM(64, return_sequences=True, bias_initializer="normal")
    y = second(y, initial_state=state)
    y = layers.GRU(5, go_backwards=True, bias_initializer="normal")(y)
    masked = layers.LSTM(3, bias_initializer="normal")(layers.Masking()(x))
    outputs = [layers.Dense(4, name="y")(y), masked]
    directory.mkdir()
    keras.Model(x, outputs).save(directory / "model.keras")


def _single(name: str, body: Any, shape: list[int], arguments: list[Any]) -> tf.Module:
    """A model that is one function of its input and others, which are values or functions of it; marked if it is no pattern."""
    attributes = 'attr { key: "epsilon" value { f: 1e-5 } }' if name.endswith("norm") else ""
    called = body if name.startswith("pattern.") else mark(name, attributes)(body)
    dtype = tf.int32 if name.startswith("embedding") else tf.float32

    def serve(x: Any) -> dict[str, Any]:
        others = [argument(x) if callable(argument) else argument for argument in arguments]
        given = [*others, tf.reshape(x, [-1])] if dtype == tf.int32 else [x, *others]
        first = tf.nest.flatten(called(*given))[0]
        if dtype == tf.int32:
            first = tf.reshape(first, [-1, *shape, first.shape[-1]])
        return {"y": tf.identity(first)}

    module = tf.Module()
    spec = tf.TensorSpec([None, *shape], dtype, name="x")
    module.serve = tf.function(serve, input_signature=[spec])
    return module


def _large() -> dict[str, tf.Module]:
    """One model for each fusion, of the size that layers have in practice: for tests.bench.fusions."""
    layers: dict[str, tuple[Any, list[int], list[Any]]] = {
        "embedding_lookup": (look_up, [64], [_values(5000, 64)]),
        "modelwheel.lstm": (lstm, [48, 64], [_values(64, 256), _values(64, 256), _values(256)]),
        "modelwheel.gru": (
            gru_from_zeros,
            [48, 128],
            [_values(128, 192), _values(64, 192), _values(2, 192)],
        ),
        "modelwheel.softmax": (softmax, [64, 256], []),
        "modelwheel.gelu": (gelu, [64, 256], []),
        "pattern.gelu_tanh": (gelu_tanh, [64, 256], []),
        "modelwheel.layer_norm": (layer_norm, [64, 256], [_values(256), _values(256)]),
        "modelwheel.attention": (
            attention,
            [4, 64, 64],
            [lambda x: x * 0.5, lambda x: x + 1, np.zeros([1], np.float32)],
        ),
    }
    return {name: _single(name, *layer) for name, layer in layers.items()}


def save(directory: Path, *, large: bool = False) -> None:
    """Saves all models below a directory."""
    models: dict[str, Any] = {
        "embed": Embed(),
        "layers": Layers(),
        "marked": Marked(),
        "written": Written(),
    }
    if large:
        models = _large()
    for name, model in models.items():
        tf.saved_model.save(model, str(directory / name), signatures=model.serve)


if __name__ == "__main__":
    save(Path(sys.argv[1]), large="large" in sys.argv[2:])
    if "keras" in sys.argv[2:]:
        _keras_layers(Path(sys.argv[1]) / "keras")
    if "keras_3" in sys.argv[2:]:
        _keras_3(Path(sys.argv[1]) / "keras_3")
