"""Trains the models of the demonstrations and exports them: `python -m tests.demo.train NAME DIRECTORY`.

The data are the 1797 handwritten digits (8 x 8 grey values) that scikit-learn ships. Four fifths
train; the last fifth, in the order of the data set, is held out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np


def held_out() -> tuple[Any, Any, Any, Any]:
    """(training images, training labels, held-out images, held-out labels).

    Images are float32 of shape [n, 8, 8, 1] with values from 0 to 1, labels int64 of shape [n].
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., np.newaxis]
    labels = digits.target.astype(np.int64)
    split = len(images) * 4 // 5
    return images[:split], labels[:split], images[split:], labels[split:]


def train_digits(saved_model: Path) -> None:
    """Trains a small convolutional network for a few seconds and exports it as a SavedModel."""
    import keras

    keras.utils.set_random_seed(0)
    images, labels, _, _ = held_out()
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax", name="probability"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(images, labels, batch_size=32, epochs=12, verbose=0)
    model.export(saved_model, verbose=False)


def train_parity(saved_model: Path) -> None:
    """Trains a network that tells odd digits from even ones, of the pixels in a row."""
    import keras

    keras.utils.set_random_seed(0)
    images, labels, _, _ = held_out()
    model = keras.Sequential(
        [
            keras.Input((64,), name="pixels"),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid", name="odd"),
        ]
    )
    model.compile("adam", "binary_crossentropy")
    model.fit(images.reshape(-1, 64), labels % 2, batch_size=32, epochs=12, verbose=0)
    model.export(saved_model, verbose=False)


if __name__ == "__main__":
    {"digits": train_digits, "parity": train_parity}[sys.argv[1]](Path(sys.argv[2]))
