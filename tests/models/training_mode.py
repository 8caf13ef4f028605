"""Models in training mode and for inference, and variables that are written: `training_mode.py DIRECTORY`.

Needs TensorFlow.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

layers = keras.layers


def augmented() -> Any:
    """Random flips, which Keras 3 leaves on when it exports a model, and what then is on as well."""
    image = keras.Input((6, 6, 2), name="x")
    x = layers.BatchNormalization()(layers.Conv2D(3, 3)(layers.RandomFlip()(image)))
    return keras.Model(image, layers.Dense(2, name="y")(layers.Flatten()(layers.Dropout(0.3)(x))))


def always(library: Any, layer: Any) -> Any:
    """A layer that is called in training mode when the model is exported."""
    row = library.Input((4,), name="x")
    dense = library.layers.Dense(2, name="y")
    return library.Model(row, dense(layer(row, training=True)))


def _export(model: Any, directory: Path, **options: Any) -> None:
    """As `model.export` does, but with options of the call."""
    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec((None, *model.inputs[0].shape[1:]), name="x")]
    archive.add_endpoint("serve", lambda x: model(x, **options), input_signature=signature)
    archive.write_out(str(directory), verbose=False)


class Variables(tf.Module):  # type: ignore[misc]
    """Variables that outputs depend on in every way, and others."""

    def __init__(self) -> None:
        super().__init__()
        self.state = {
            name: tf.Variable(start, name=name)
            for name, start in {
                **dict.fromkeys(("read_later", "feeds", "decides", "in_loop", "times"), 1.0),
                **dict.fromkeys(("counted", "fed", "looped", "mean", "zeroed"), 2.0),
            }.items()
        }

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def evaluate(self, x: Any) -> dict[str, Any]:
        """The first five matter, in this call or a later one; the others do not."""
        state = self.state
        y = x * state["read_later"].read_value()
        if state["decides"] > 3.0:
            state["read_later"].assign_add(state["feeds"])
        state["decides"].assign_add(1.0)
        state["feeds"].assign(state["feeds"] * 1.5 + state["in_loop"])
        turn = tf.constant(0.0)
        while turn < state["times"]:
            state["in_loop"].assign_add(0.5)
            state["looped"].assign_add(state["in_loop"])
            turn += 1.0
        state["times"].assign_add(1.0)
        self._beside(x)
        return {"y": y}

    def _beside(self, x: Any) -> None:
        state = self.state
        state["counted"].assign_add(1.0)
        state["fed"].assign(state["fed"] + state["read_later"] + state["counted"])
        state["mean"].assign(0.9 * state["mean"] + 0.1 * tf.reduce_mean(x))
        if state["counted"] > 2.0:
            state["zeroed"].assign(0.0)


class Counts(Variables):
    """The same without those that matter."""

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def evaluate(self, x: Any) -> dict[str, Any]:
        """No output depends on a variable that is written."""
        self._beside(x)
        return {"y": x * self.state["read_later"]}


class Pendulum(tf.Module):  # type: ignore[misc]
    """A state that moves by itself, by a matrix that calls slow down: nothing of a training."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = tf.Variable([[0.8, -0.6], [0.6, 0.8]], name="turn")
        self.place = tf.Variable([[1.0, 0.0]], name="place")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def evaluate(self, x: Any) -> dict[str, Any]:
        """Where it is, added to rows."""
        self.place.assign(self.place @ self.turn)
        self.turn.assign(self.turn * 0.99)
        return {"y": x + self.place}


def main() -> None:
    root = Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    model = augmented()
    model.save(root / "augmented.keras")
    model.export(str(root / "augmented"), verbose=False)
    _export(model, root / "inference", training=False)
    for name, layer in (
        ("dropout", layers.Dropout(0.5)),
        ("batch", layers.BatchNormalization()),
        ("renorm", layers.BatchNormalization(renorm=True)),
        ("spectral", layers.SpectralNormalization(layers.Dense(3))),
    ):
        model = always(keras, layer)
        model.save(root / f"{name}.keras")
        model.export(str(root / name), verbose=False)
    if importlib.util.find_spec("tf_keras"):
        import tf_keras

        always(tf_keras, tf_keras.layers.BatchNormalization()).save(root / "batch2.h5")
    for name, module in (
        ("variables", Variables()),
        ("counts", Counts()),
        ("pendulum", Pendulum()),
    ):
        tf.saved_model.save(module, str(root / name), signatures=module.evaluate)


if __name__ == "__main__":
    main()
