"""The networks of the reference set, by Keras with seeded weights. Needs TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import layers

_SEED = 20260101


def mlp() -> Any:
    """Five hidden layers of 128 units on four numbers."""
    x = inputs = keras.Input((4,), name="x")
    for _ in range(5):
        x = layers.Dense(128, "tanh")(x)
    return keras.Model(inputs, layers.Dense(2, "softmax")(x))


def conv2d_small() -> Any:
    """Convolutions over 50 rows of ten values in three channels."""
    x = inputs = keras.Input((50, 10, 3), name="x")
    for filters in (32, 64):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Dense(112, "relu")(layers.Flatten()(x))
    return keras.Model(inputs, layers.Dense(3, "softmax")(x))


def conv2d_pair() -> Any:
    """Two grids of 64 channels, as a jet tagger sees the inner and the outer part of a detector."""
    inputs = [
        keras.Input((11, 11, 64), name="inner"),
        keras.Input((21, 21, 64), name="outer"),
    ]
    parts = []
    for given in inputs:
        x = given
        for filters in (64, 64, 128):
            x = layers.Conv2D(filters, 3, activation="relu")(x)
        parts.append(layers.Flatten()(layers.MaxPooling2D(2)(x)))
    x = layers.Dense(64, "relu")(layers.Concatenate()(parts))
    return keras.Model(inputs, layers.Dense(8, "softmax")(x))


def conv1d() -> Any:
    """Strips of 60 steps with six features."""
    x = inputs = keras.Input((60, 6), name="x")
    for filters in (64, 128, 128):
        x = layers.Conv1D(filters, 5, padding="same", activation="relu")(x)
    x = layers.Dense(64, "relu")(layers.Flatten()(x))
    return keras.Model(inputs, layers.Dense(4, "softmax")(x))


def audio() -> Any:
    """Wide filters over 1024 samples, as in CREPE (https://arxiv.org/abs/1802.06182)."""
    x = inputs = keras.Input((1024, 1), name="x")
    for filters, width, stride in ((128, 512, 4), (16, 64, 1), (16, 64, 1), (32, 64, 1)):
        x = layers.Conv1D(filters, width, stride, padding="same", activation="relu")(x)
        x = layers.MaxPooling1D(2)(_normalised(x))
    return keras.Model(inputs, layers.Dense(360, "sigmoid")(layers.Flatten()(x)))


def bilstm() -> Any:
    """A tag for each of 50 steps, read in both directions."""
    x = inputs = keras.Input((50, 16), name="x")
    x = layers.Bidirectional(layers.LSTM(32, return_sequences=True))(x)
    return keras.Model(inputs, layers.Dense(5, "softmax")(x))


def lstm_masked() -> Any:
    """An LSTM over 15 steps that leaves out those of zeros."""
    x = inputs = keras.Input((15, 21), name="x")
    x = layers.LSTM(64)(layers.Masking()(x))
    return keras.Model(inputs, layers.Dense(1, "sigmoid")(x))


def gru() -> Any:
    """Two layers of 64 units over 30 steps."""
    x = inputs = keras.Input((30, 16), name="x")
    x = layers.GRU(64)(layers.GRU(64, return_sequences=True)(x))
    return keras.Model(inputs, layers.Dense(3, "softmax")(x))


def transformer() -> Any:
    """Four encoder layers of 192 features over 64 tokens."""
    x = inputs = keras.Input((64, 192), name="x")
    for _ in range(4):
        y = layers.MultiHeadAttention(4, 48)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, y]))
        y = layers.Dense(192)(layers.Dense(768, "gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, y]))
    return keras.Model(inputs, layers.Dense(5, "softmax")(layers.GlobalAveragePooling1D()(x)))


def embedding() -> Any:
    """The mean of the vectors of 64 words, classified."""
    inputs = keras.Input((64,), name="x", dtype="int32")
    x = layers.GlobalAveragePooling1D()(layers.Embedding(5000, 64)(inputs))
    return keras.Model(inputs, layers.Dense(4, "softmax")(layers.Dense(64, "relu")(x)))


def mobilenet_v2() -> Any:
    """Of Keras, for 224 x 224 pixels."""
    return keras.applications.MobileNetV2(weights=None)


def efficientnet_b0() -> Any:
    """Of Keras, for 224 x 224 pixels."""
    return keras.applications.EfficientNetB0(weights=None)


def resnet50() -> Any:
    """Of Keras, for 224 x 224 pixels."""
    return keras.applications.ResNet50(weights=None)


def xception() -> Any:
    """Separable convolutions on 64 x 64 pixels: a small Xception."""
    x = inputs = keras.Input((64, 64, 1), name="x")
    for _ in range(2):
        x = layers.ReLU()(_normalised(layers.Conv2D(8, 3, use_bias=False)(x)))
    for filters in (16, 32, 64, 128):
        short = _normalised(layers.Conv2D(filters, 1, 2, padding="same", use_bias=False)(x))
        for activate in (True, False):
            x = _normalised(layers.SeparableConv2D(filters, 3, padding="same", use_bias=False)(x))
            x = layers.ReLU()(x) if activate else x
        x = layers.Add()([layers.MaxPooling2D(3, 2, padding="same")(x), short])
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(7, 3, padding="same")(x))
    return keras.Model(inputs, layers.Softmax()(x))


def unet() -> Any:
    """Down to a quarter and up again by transposed convolutions, on 64 x 64 pixels."""
    x = inputs = keras.Input((64, 64, 3), name="x")
    skipped = []
    for filters in (16, 32):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        skipped.append(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
    for filters, other in zip((32, 16), reversed(skipped), strict=True):
        x = layers.Conv2DTranspose(filters, 2, 2, activation="relu")(x)
        x = layers.Concatenate()([x, other])
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, layers.Conv2D(2, 1, activation="softmax")(x))


def _normalised(x: Any) -> Any:
    return layers.BatchNormalization()(x)


NETWORKS: Mapping[str, Callable[[], Any]] = {
    make.__name__: make
    for make in (
        mlp, conv2d_small, conv2d_pair, conv1d, audio, bilstm, lstm_masked, gru, transformer,
        embedding, mobilenet_v2, efficientnet_b0, resnet50, xception, unet,
    )
}  # fmt: skip
"""By name, in the order of the tables."""


def make(name: str) -> Any:
    """A network; whatever Keras begins with 0 or 1, such as biases and moving averages, is random too."""
    keras.utils.set_random_seed(_SEED)
    model, random = NETWORKS[name](), np.random.default_rng(_SEED)
    for weight in model.weights:
        value = weight.numpy()
        if np.unique(value).size == 1 and value.size > 1:
            weight.assign(value + random.uniform(-0.2, 0.3, value.shape).astype(value.dtype))
    return model


def unrolled(model: Any) -> Any:
    """The same network with a copy of each recurrent layer's cell for each step."""

    def clone(layer: Any) -> Any:
        config = layer.get_config()
        parts = (config.get(name) for name in ("layer", "backward_layer"))
        for own in (config, *(part["config"] for part in parts if part)):
            if "unroll" in own:
                own["unroll"] = True
        return type(layer).from_config(config)

    copy = keras.models.clone_model(model, clone_function=clone)
    copy.set_weights(model.get_weights())
    return copy
