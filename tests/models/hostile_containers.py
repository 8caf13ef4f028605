"""Model files whose containers are read in two ways, with Python code for a reader that is not careful.

They are written by hand: the libraries that read them write no such files, and some are not installed everywhere.
"""

from __future__ import annotations

import base64
import io
import json
import marshal
import zipfile
from pathlib import Path
from typing import Any

import h5py

KERAS_2 = "2.13.1"


def keras_2(*layers: dict[str, Any]) -> dict[str, Any]:
    """A Sequential of Keras 2 that takes four numbers."""
    taken = {"batch_input_shape": [None, 4], "dtype": "float32", "name": "x"}
    first = {"class_name": "InputLayer", "config": taken}
    return {"class_name": "Sequential", "config": {"name": "evil", "layers": [first, *layers]}}


def lambda_layer(source: str) -> dict[str, Any]:
    """A layer that evaluates an expression when the model is made."""
    code = compile(f"lambda x: [{source}, x][1]", "evil", "eval").co_consts[0]
    function = [base64.b64encode(marshal.dumps(code)).decode(), None, None]
    config = {"name": "evil", "function": function, "function_type": "lambda", "arguments": {}}
    shape = {"output_shape": None, "output_shape_type": "raw", "output_shape_module": None}
    return {"class_name": "Lambda", "config": {**config, **shape, "module": "__main__"}}


def hdf5(config: dict[str, Any]) -> bytes:
    """An .h5 file of Keras 2 without weights."""
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.attrs.update({"model_config": json.dumps(config), "keras_version": KERAS_2})
        file.attrs["backend"] = "tensorflow"
        file.create_group("model_weights").attrs["layer_names"] = []
    return content.getvalue()


def keras_archive(config: dict[str, Any]) -> bytes:
    """A .keras file of Keras 2 without weights."""
    weights, content = io.BytesIO(), io.BytesIO()
    with h5py.File(weights, "w") as file:
        file.create_group("_layer_checkpoint_dependencies")
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("metadata.json", json.dumps({"keras_version": KERAS_2}))
        archive.writestr("model.weights.h5", weights.getvalue())
    return content.getvalue()


def write_twofold_keras(path: Path, source: str) -> None:
    """An .h5 file that evaluates an expression, and is a harmless .keras file too."""
    harmless = {"class_name": "Activation", "config": {"name": "y", "activation": "relu"}}
    path.write_bytes(hdf5(keras_2(lambda_layer(source))) + keras_archive(keras_2(harmless)))
