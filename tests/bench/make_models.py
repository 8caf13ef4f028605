"""Writes models and the files of other runtimes: `make_models.py DIRECTORY NAME[=SAVED_MODEL]...`.

Each model gets a directory with `saved_model`, `model.onnx` and `model.tflite`. What a converter says if it fails
is in `failures.json`, by the name of the file. Needs TensorFlow and tf2onnx.

Where a converter fails for a network with recurrent layers, it gets one of the same weights whose loops are unrolled: what
an author would do who needs the file.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tf2onnx
from tf2onnx import tf_loader

from modelwheel.compiler.export import to_tflite
from modelwheel.util.text import one_line
from tests.bench.networks import make, unrolled
from tests.bench.onnx_networks import WRITERS

_OPSET = 18
_SIGNATURE = "serving_default"
_SAID = 160
"""Characters of a converter's error that a table can show."""


def write_onnx(model: Path, file: Path) -> None:
    """By tf2onnx, with the names of the signature."""
    graph, inputs, outputs, *_, renamed = tf_loader.from_saved_model(
        str(model), None, None, ["serve"], [_SIGNATURE], return_tensors_to_rename=True
    )
    # What `python -m tf2onnx.convert --saved-model` calls; nothing public takes a SavedModel.
    tf2onnx.convert._convert_common(
        graph,
        name=model.parent.name,
        input_names=inputs,
        output_names=outputs,
        tensors_to_rename=renamed,
        opset=_OPSET,
        output_path=str(file),
    )


def write_tflite(model: Path, file: Path) -> None:
    """As `modelwheel bench` exports models."""
    file.write_bytes(to_tflite(model))


_UNROLLED = {
    "model.onnx": ("lstm_masked",),
    "model.tflite": ("bilstm", "lstm_masked", "gru"),
}
"""The networks that a file is converted from without loops."""

CONVERTERS: Mapping[str, Callable[[Path, Path], None]] = {
    "model.onnx": write_onnx,
    "model.tflite": write_tflite,
}


def write_model(directory: Path, name: str, saved_model: Path | None = None) -> None:
    """Writes one model.

    Args:
        directory: Where; a directory with the name is made in it.
        name: One of `networks.NETWORKS`, or any.
        saved_model: The model, if it is not of `networks`.
    """
    own = directory / name
    model: Any = None
    if saved_model is None:
        model = make(name)
        model.export(own / "saved_model", verbose=False)
    else:
        shutil.copytree(saved_model, own / "saved_model")
    failures = {}
    for file, convert in CONVERTERS.items():
        try:
            if file == "model.onnx" and name in WRITERS:
                WRITERS[name](model, own / file)
                continue
            source = own / "saved_model"
            if name in _UNROLLED[file]:
                source = own / "unrolled"
                unrolled(model).export(source, verbose=False)
            convert(source, own / file)
        except Exception as error:  # noqa: BLE001 - converters raise whatever they like
            failures[file] = one_line(f"{type(error).__name__}: {error}")[:_SAID]
    (own / "failures.json").write_text(json.dumps(failures), encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[2:]:
        given, _, path = argument.partition("=")
        write_model(Path(sys.argv[1]), given, Path(path) if path else None)
