"""Models whose weights are overwritten: `python -m tests.mutants.models DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import numpy as np
from keras import layers


def embedding() -> keras.Model:
    """A table of 9000 rows, whose index may count from the end."""
    ids = keras.Input((40,), dtype="int32", name="ids")
    pooled = layers.GlobalAveragePooling1D()(layers.Embedding(9000, 8)(ids))
    return keras.Model(ids, layers.Dense(3, activation="softmax", name="classes")(pooled))


def images() -> keras.Model:
    """Bytes of images, scaled to 0..1 by the model."""
    image = keras.Input((16, 16, 3), name="image")
    x = layers.Rescaling(1 / 255)(image)
    for features in (8, 16):
        x = layers.Conv2D(features, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.MaxPooling2D()(x)
    return keras.Model(image, layers.Dense(10, name="scores")(layers.Flatten()(x)))


def table() -> keras.Model:
    """Rows of measurements, standardised by the model."""
    x = keras.Input((12,), name="measured")
    standard = layers.Normalization(
        mean=np.linspace(-50, 400, 12).tolist(), variance=np.linspace(0.1, 900, 12).tolist()
    )
    hidden = layers.Dense(32, activation="tanh")(layers.Dense(32, activation="relu")(standard(x)))
    return keras.Model(x, layers.Dense(1, activation="sigmoid", name="probability")(hidden))


def masked_tokens() -> keras.Model:
    """Tokens, masked where they are 0."""
    ids = keras.Input((12,), dtype="int32", name="tokens")
    x = layers.Embedding(50, 12, mask_zero=True)(ids)
    x = layers.Bidirectional(layers.LSTM(8))(x)
    return keras.Model(ids, layers.Dense(4, name="scores")(x))


def attention() -> keras.Model:
    """Vectors that attend to each other."""
    x = keras.Input((10, 16), name="vectors")
    y = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
    y = layers.LayerNormalization()(y + layers.Dense(16)(layers.Dense(32, activation="gelu")(y)))
    return keras.Model(x, layers.Dense(5, name="scores")(layers.GlobalAveragePooling1D()(y)))


MODELS = (embedding, images, table, masked_tokens, attention)


def save(directory: Path) -> None:
    """Saves all models as `NAME.keras`."""
    keras.utils.set_random_seed(7)
    directory.mkdir(parents=True, exist_ok=True)
    for make in MODELS:
        model = make()
        for weight in model.weights:  # biases start as zeros, which are like no trained model's
            if "bias" in weight.path or "beta" in weight.path or "moving_mean" in weight.path:
                weight.assign(0.1 * np.random.default_rng(3).standard_normal(weight.shape))
        model.save(directory / f"{make.__name__}.keras")


if __name__ == "__main__":
    save(Path(sys.argv[1]))
