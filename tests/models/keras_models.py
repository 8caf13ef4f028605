"""Files of Keras for the tests: `keras_models.py DIRECTORY`, with the outputs that Keras computes beside them.

Needs TensorFlow; with `tf_keras`, writes files of Keras 2 too. Weights come from fixed seeds.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

from tests.models.hostile_containers import write_twofold_keras


def _randomize(model: Any) -> None:
    generator = np.random.default_rng(7)
    model.set_weights(
        [
            # Vectors may be variances, which are positive.
            generator.uniform(-0.5 if weight.ndim > 1 else 0.1, 0.6, weight.shape).astype("f4")
            for weight in model.get_weights()
        ]
    )


def _values(tensors: Any) -> dict[str, Any]:
    generator = np.random.default_rng(3)
    return {
        name: generator.uniform(0, 3, [4, *tensor.shape[1:]]).astype(tf.as_dtype(tensor.dtype).name)
        for name, tensor in tensors.items()
    }


def _save(path: Path, model: Any, inputs: dict[str, Any], outputs: list[str]) -> None:
    if path.name != "quantized.keras":
        _randomize(model)
    given = _values(inputs)
    passed: Any = given if path.name.startswith("dictionaries") else list(given.values())
    results = tf.nest.flatten(model(passed if len(given) > 1 else passed[0], training=False))
    model.save(str(path))
    arrays = {f"in/{name}": values for name, values in given.items()}
    arrays |= {f"out/{n}": v.numpy() for n, v in zip(outputs, results, strict=True)}
    np.savez(path.with_suffix(path.suffix + ".npz"), **arrays)


def functional(library: Any) -> tuple[Any, dict[str, Any], list[str]]:
    """Two inputs, two outputs, a nested model, a layer used twice, an operation outside of layers."""
    layers = library.layers
    image = layers.Input((6, 6, 2), name="image")
    tokens = layers.Input((5,), dtype="int32", name="tokens")
    features = library.Sequential(
        [layers.Conv2D(3, 3, activation="relu"), layers.BatchNormalization(), layers.Flatten()],
        name="features",
    )
    dense = layers.Dense(4, name="shared")
    a = dense(layers.Dropout(0.5)(features(image)))
    b = dense(layers.Dense(48)(layers.LSTM(3)(layers.Embedding(10, 4)(tokens))))
    score = layers.Dense(2, activation="softmax", name="score")(layers.Add()([a, b]))
    distance = layers.Subtract(name="distance")([a, b])
    model = library.Model([image, tokens], [score, distance])
    return model, {"image": image, "tokens": tokens}, ["score", "distance"]


def dictionaries() -> tuple[Any, dict[str, Any], list[str]]:
    """Dictionaries of inputs and outputs, whose keys are the names."""
    inputs = {name: keras.Input((3,), name=name) for name in ("left", "right")}
    product = keras.ops.tanh(inputs["left"] * inputs["right"])
    outputs = {"sum": keras.layers.Dense(2)(product), "diff": inputs["left"] - product}
    return keras.Model(inputs, outputs), inputs, ["diff", "sum"]


def sequential(library: Any) -> tuple[Any, dict[str, Any], list[str]]:
    """Recurrent layers one after another."""
    layers = library.layers
    model = library.Sequential(
        [layers.Input((6, 4), name="steps"), layers.GRU(5, return_sequences=True), layers.LSTM(3)]
    )
    return model, {"steps": model.inputs[0]}, [model.layers[-1].name]


def dropout() -> tuple[Any, dict[str, Any], list[str]]:
    """Recurrent layers whose dropout counts its seeds in every call."""
    layers, options = keras.layers, {"dropout": 0.2, "recurrent_dropout": 0.1}
    steps = keras.Input((5, 3), name="steps")
    frames = keras.Input((2, 5, 5, 1), name="frames")
    outputs = [
        layers.LSTM(3, name="lstm", **options)(steps),
        layers.GRU(3, name="gru", **options)(layers.Dropout(0.5)(steps)),
        layers.SimpleRNN(3, name="simple", **options)(steps),
        layers.ConvLSTM2D(2, 3, name="images", **options)(frames),
    ]
    names = ["lstm", "gru", "simple", "images"]
    return keras.Model([steps, frames], outputs), {"steps": steps, "frames": frames}, names


def categories() -> tuple[Any, dict[str, Any], list[str]]:
    """Encodings whose size is clamped to the number of categories."""
    tags = keras.Input((4,), dtype="int32", name="tags")
    encode = keras.layers.CategoryEncoding
    outputs = [
        encode(5, output_mode="multi_hot", name="some")(tags),
        encode(6, output_mode="count", name="counts")(tags),
    ]
    return keras.Model(tags, outputs), {"tags": tags}, ["some", "counts"]


def quantized() -> tuple[Any, dict[str, Any], list[str]]:
    """Layers with types of their own, as Keras quantises a model."""
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    x = keras.layers.EinsumDense("abc,cd->abd", (None, 6))(keras.layers.Embedding(10, 8)(tokens))
    x = keras.layers.Dense(8, activation="relu")(keras.layers.GlobalAveragePooling1D()(x))
    model = keras.Model(tokens, keras.layers.Dense(3, name="y")(x))
    _randomize(model)
    model.quantize("int8")
    return model, {"tokens": tokens}, ["y"]


def policies() -> tuple[Any, dict[str, Any], list[str]]:
    """A layer with a type for each of its parts."""
    steps = keras.Input((5, 4), name="steps")
    dtypes = keras.dtype_policies.DTypePolicyMap("float32")
    layer = keras.layers.MultiHeadAttention(2, 3, dtype=dtypes, name="y")
    return keras.Model(steps, layer(steps, steps)), {"steps": steps}, ["y"]


def gates(library: Any) -> tuple[Any, dict[str, Any], list[str]]:
    """What another Keras takes for something else: gates, masks, and axes of a softmax."""
    layers = library.layers
    steps = layers.Input((5, 4), name="steps")
    outputs = [
        layers.Dense(3, activation="hard_sigmoid", name="dense")(steps),
        layers.Softmax([1, 2], name="softmax")(steps),
        layers.LSTM(3, recurrent_activation="hard_sigmoid", name="lstm")(
            layers.Masking(1.0)(steps)
        ),
        layers.GRU(3, reset_after=False, name="gru")(steps),
    ]
    return library.Model(steps, outputs), {"steps": steps}, ["dense", "softmax", "lstm", "gru"]


def trained(library: Any) -> tuple[Any, dict[str, Any], list[str]]:
    """A model whose file has an optimizer and metrics, too."""
    layers = library.layers
    steps = layers.Input((5,), name="steps")
    hidden = layers.Dense(4, activation="relu")(layers.Dropout(0.1)(steps))
    model = library.Model(steps, layers.Dense(2, name="y")(layers.Dense(3)(hidden)))
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(np.ones((4, 5)), np.ones((4, 2)), verbose=0)
    return model, {"steps": steps}, ["y"]


def only_in_keras_2(library: Any) -> tuple[Any, dict[str, Any], list[str]]:
    """Layers that Keras 3 lacks."""
    layers = library.layers
    steps = layers.Input((6, 4), name="steps")
    x = layers.LocallyConnected1D(3, 2)(layers.ThresholdedReLU(0.5)(steps))
    x = layers.LocallyConnected2D(2, 2)(layers.Reshape((5, 3, 1))(x))
    return library.Model(steps, layers.Flatten(name="y")(x)), {"steps": steps}, ["y"]


class Custom(keras.Model):  # type: ignore[misc]
    """A model whose class is not part of the file."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.dense = keras.layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.dense(x)


def _write_refused(root: Path) -> None:
    def one_layer(layer: Any) -> Any:
        return keras.Sequential([keras.Input((4,), name="x"), layer, keras.layers.Dense(2)])

    code = keras.layers.Lambda(lambda x: x * 2, name="twice")
    one_layer(code).save(root / "lambda.keras")
    one_layer(code).save(root / "lambda.h5")
    custom = Custom()
    custom(np.zeros((1, 4), "f4"))
    custom.save(root / "custom.keras")
    dense = one_layer(keras.layers.Dense(3, name="first"))
    dense.save_weights(root / "only.weights.h5")
    dense.save(root / "plain.keras")
    with zipfile.ZipFile(root / "plain.keras") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(files["config.json"])
    config["config"]["layers"][1] |= {"module": "os", "class_name": "system"}
    _write_archive(root / "module.keras", {**files, "config.json": json.dumps(config).encode()})
    _write_archive(root / "bomb.keras", {**files, "assets/zeros": bytes(100 << 20)})
    write_twofold_keras(root / "twofold.h5", "print('ran')")
    (root / "cut.keras").write_bytes((root / "plain.keras").read_bytes()[:-40])


def _write_texts(root: Path) -> None:
    words = keras.layers.TextVectorization(max_tokens=9, output_sequence_length=4, name="words")
    words.adapt(["a b c", "d e"])
    text = keras.Input((), dtype="string", name="text")
    number = keras.Input((3,), name="number")
    place = keras.Input((2,), dtype="int64", name="place")
    lookup = keras.layers.IntegerLookup(vocabulary=[3, 5], name="places")
    flat = [
        keras.layers.Flatten()(keras.layers.Embedding(9, 2)(part))
        for part in (words(text), lookup(place))
    ]
    joined = keras.layers.Concatenate()([*flat, number])
    model = keras.Model([text, number, place], keras.layers.Dense(2, name="y")(joined))
    model.save(root / "texts.keras")
    again = keras.layers.TextVectorization.from_config(words.get_config())
    again.adapt(["a b c", "d e"])
    layers = [text, again, keras.layers.Embedding(9, 2), keras.layers.GlobalAveragePooling1D()]
    keras.Sequential(layers).save(root / "words.keras")


def _as_first_written(path: Path) -> None:
    """Makes a file one of the first versions of Keras 2, which Keras 3 reads without an error."""
    import h5py

    with h5py.File(path, "a") as file:
        config = file.attrs["model_config"]
        for field in ('"time_major": false', '"reset_after": false'):
            assert field in config
            config = config.replace(f", {field}", "").replace(f"{field}, ", "")
        file.attrs["model_config"] = config


def _as_keras_2_13_wrote(path: Path) -> None:
    """Names the groups of weights in a .keras file as Keras 2.12 and 2.13 did: layers with weights count twice."""
    import h5py

    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    weights = io.BytesIO(files["model.weights.h5"])
    with h5py.File(weights, "a") as file:
        file.move("layers", "_layer_checkpoint_dependencies")
        layers = file["_layer_checkpoint_dependencies"]
        numbered = sorted(name for name in layers if name.startswith("dense"))
        assert len(numbered) > 1
        for number, name in reversed(list(enumerate(numbered))):
            if number:
                layers.move(name, f"dense_{2 * number}")
    files["model.weights.h5"] = weights.getvalue()
    _write_archive(path, files)


def _write_archive(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def main() -> None:
    root = Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    _save(root / "functional.keras", *functional(keras))
    _save(root / "dictionaries.keras", *dictionaries())
    _save(root / "sequential.h5", *sequential(keras))
    _save(root / "dropout.keras", *dropout())
    _save(root / "categories.keras", *categories())
    _save(root / "quantized.keras", *quantized())
    _save(root / "policies.keras", *policies())
    _write_refused(root)
    _write_texts(root)
    if importlib.util.find_spec("tf_keras"):
        import tf_keras

        _save(root / "functional2.h5", *functional(tf_keras))
        _save(root / "functional2.keras", *functional(tf_keras))
        _save(root / "gates2.h5", *gates(tf_keras))
        _as_first_written(root / "gates2.h5")
        _save(root / "only2.h5", *only_in_keras_2(tf_keras))
        _save(root / "sequential2.keras", *sequential(tf_keras))
        _save(root / "trained2.keras", *trained(tf_keras))
        _as_keras_2_13_wrote(root / "trained2.keras")
        steps = tf_keras.layers.Input((5, 3), name="steps")
        # Keras 3 has no such layer: Keras 2 makes it of functions of TensorFlow.
        mean = tf.reduce_mean(tf.math.square(tf_keras.layers.Dense(4)(steps)), axis=1)
        model = tf_keras.Model(steps, tf_keras.layers.Dense(2, name="y")(mean))
        _save(root / "calls2.h5", model, {"steps": steps}, ["y"])


if __name__ == "__main__":
    main()
