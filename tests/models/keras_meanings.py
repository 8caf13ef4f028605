"""Every layer and activation of Keras 2, saved by it with random weights, as Keras 3 and modelwheel read them.

`keras_meanings.py DIRECTORY` prints JSON: by class or activation, how far what Keras 3 computes is from what Keras 2
computes, in the worst variant of both kinds of files; null where Keras 3 reads none. The same for what modelwheel reads.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import h5py
import keras
import numpy as np
import tf_keras

from modelwheel.compiler.formats.keras.keras import read_model
from tests.models.keras_layers import STEPS, Case, Chain, cases


def layer_names() -> set[str]:
    """The classes of all layers of Keras 2."""
    spaces = (tf_keras.layers, tf_keras.layers.experimental, tf_keras.experimental)
    every = (getattr(s, name) for s in (*spaces, spaces[1].preprocessing) for name in dir(s))
    return {
        one.__name__
        for one in every
        if isinstance(one, type) and issubclass(one, tf_keras.layers.Layer)
    }


def activation_names() -> set[str]:
    """All functions of Keras 2 that are activations."""
    helpers = {"deserialize", "get", "serialize"}
    return {name for name in dir(tf_keras.activations) if name[0] != "_"} - helpers


def _values(case: Case) -> list[Any]:
    generator = np.random.default_rng(len(case.shapes[0]))
    shapes = [(3, *shape) for shape in case.shapes]
    if case.dtype == "int32":
        return [generator.integers(0, case.top, shape).astype("int32") for shape in shapes]
    values = [3 * generator.standard_normal(shape).astype("float32") for shape in shapes]
    if isinstance(case.layer, Chain):  # its mask
        values[0][:, [0, 3]] = 0
        values[0][1, 4:] = 0
    return values


def _build(case: Case) -> Any:
    inputs = [tf_keras.Input(shape, dtype=case.dtype) for shape in case.shapes]
    if inputs[1:]:
        result = case.layer(inputs) if case.as_list else case.layer(*inputs)
        model = tf_keras.Model(inputs, result)
    elif isinstance(case.layer, Chain):
        model = tf_keras.Model(inputs, case.layer(inputs[0]))
    else:  # Keras 3 reads no other .keras files of Keras 2
        model = tf_keras.Sequential([*inputs, case.layer])
    generator = np.random.default_rng(7)
    model.set_weights(
        [generator.uniform(0.1, 0.9, w.shape).astype(w.dtype) for w in model.get_weights()]
    )
    return model


def _call(model: Any, values: list[Any]) -> Any:
    return np.asarray(model(values if values[1:] else values[0], training=False), "f8")


def _without_time_major(value: Any) -> Any:
    """A configuration as older versions of Keras 2 wrote it, which Keras 3 reads."""
    if isinstance(value, dict):
        return {k: _without_time_major(v) for k, v in value.items() if k != "time_major"}
    return [_without_time_major(item) for item in value] if isinstance(value, list) else value


def _save(model: Any, directory: Path) -> Iterator[Path]:
    path = directory / "model.h5"
    model.save(str(path))
    with h5py.File(path, "a") as file:
        config = json.loads(file.attrs["model_config"])
        file.attrs["model_config"] = json.dumps(_without_time_major(config))
    yield path
    path = directory / "model.keras"
    model.save(str(path))
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    config = _without_time_major(json.loads(files["config.json"]))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**files, "config.json": json.dumps(config).encode()}.items():
            archive.writestr(name, content)
    yield path


def _error(
    read: Callable[[str], Any], path: Path, values: list[Any], expected: Any
) -> float | None:
    try:
        model = read(str(path))
    except Exception:  # noqa: BLE001 - of each layer another one
        return None
    try:
        found = _call(model, values)
    except Exception:  # noqa: BLE001 - it is another layer
        return 1.0
    if found.shape != expected.shape:
        return 1.0
    return float(np.abs(found - expected).max() / max(1e-30, np.abs(expected).max()))


def _compare(variants: list[Case], directory: Path) -> dict[str, float | None]:
    """The largest errors of both readers."""
    errors: dict[str, list[float | None]] = {"keras": [], "modelwheel": []}
    for case in variants:
        values, model = _values(case), _build(case)
        expected = _call(model, values)
        for path in _save(model, directory):
            errors["keras"].append(
                _error(lambda p: keras.models.load_model(p, compile=False), path, values, expected)
            )
            errors["modelwheel"].append(
                _error(lambda p: read_model(Path(p))[2], path, values, expected)
            )
        tf_keras.backend.clear_session()
    # Where Keras 3 does not read a variant, Keras 2 does; modelwheel reads all.
    read = [error for error in errors["keras"] if error is not None]
    all_read = None not in errors["modelwheel"]
    return {
        "keras": max(read, default=None),
        "modelwheel": max(filter(None, errors["modelwheel"]), default=0.0) if all_read else None,
    }


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    activations = {
        name: [Case(tf_keras.layers.Dense(5, activation=name), (STEPS,))]
        for name in sorted(activation_names())
    }
    layers = {name: _compare(variants, directory) for name, variants in cases().items() if variants}
    functions = {name: _compare(variants, directory) for name, variants in activations.items()}
    without = sorted(name for name, variants in cases().items() if not variants)
    found = {"layers": layers, "activations": functions, "without": without}
    sys.stdout.write(json.dumps({**found, "names": sorted(layer_names())}))


if __name__ == "__main__":
    main()
