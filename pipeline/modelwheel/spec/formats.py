"""The formats of models: how each is recognised, and which options of `source` it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple


class Directory(NamedTuple):
    """A kind of directory with a model."""

    title: str
    """With its article."""
    holds: str
    """Pattern of the file at its top."""


class Libraries(NamedTuple):
    """Whose code runs in each job that reads a model: a message names it if it crashes."""

    inspect: str = "TensorFlow"
    freeze: str = "TensorFlow"
    reference: str = "TensorFlow"
    export: str = "TensorFlow"
    quantize: str = "TensorFlow"


_TENSORFLOW = Libraries()


@dataclass(frozen=True)
class Format:
    """One row of `FORMATS`."""

    title: str
    """What people call it."""
    suffixes: tuple[str, ...]
    """Endings of its files; none for a format whose models are directories."""
    directory: Directory | None = None
    """Of a format whose models may be directories."""
    options: frozenset[str] = frozenset()
    """Fields of `source` that only some formats have."""
    libraries: Libraries = _TENSORFLOW
    article: str = "a"
    """Of the title."""


FORMATS: Mapping[str, Format] = {
    "saved_model": Format(
        "TensorFlow SavedModel",
        (),
        Directory("a SavedModel", "saved_model.pb"),
        frozenset({"tags"}),
    ),
    "graph_def": Format(
        "TensorFlow GraphDef",
        (".pb", ".pbtxt"),
        options=frozenset(
            {"feeds", "fetches", "constants", "config", "checkpoint", "freeze_saver"}
        ),
    ),
    "keras": Format(
        "Keras", (".keras", ".h5", ".hdf5"), libraries=Libraries(inspect="Keras", freeze="Keras")
    ),
    "stablehlo": Format(
        "StableHLO",
        (".mlir", ".mlirbc", ".stablehlo", ".jax"),
        libraries=Libraries(inspect="MLIR", freeze="MLIR"),
    ),
    # A directory has the weights of the model in files of their own.
    "onnx": Format(
        "ONNX",
        (".onnx",),
        Directory("an ONNX model", "*.onnx"),
        frozenset({"constants"}),
        Libraries(inspect="onnx", reference="ONNX Runtime", quantize="ONNX Runtime"),
        article="an",
    ),
    "pytorch": Format(
        "PyTorch", (".pt2",), libraries=Libraries("torch-mlir", "torch-mlir", "PyTorch")
    ),
    "tflite": Format(
        "TensorFlow Lite",
        (".tflite", ".lite"),
        libraries=Libraries(reference="TensorFlow Lite"),
    ),
}
"""The formats by their names in a spec."""

OPTIONS = ("tags", "feeds", "fetches", "constants", "config", "checkpoint", "freeze_saver")
"""Fields of `source` that are options of formats."""


def detect_format(path: str) -> str:
    """The format of the model at a path, by the ending of its name; any other one is a directory's."""
    suffix = PurePosixPath(path).suffix.lower()
    for name, row in FORMATS.items():
        if suffix in row.suffixes:
            return name
    return "saved_model"
