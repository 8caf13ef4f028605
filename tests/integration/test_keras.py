"""Files of Keras: what is read computes what Keras computes, and code is refused before it could run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from modelwheel.compiler.check import Expected, check_signature
from modelwheel.compiler.freeze import FrozenSignature
from modelwheel.compiler.pool import WorkerPool
from modelwheel.errors import UnsupportedModelError
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def keras(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """Workers, and the files."""
    models = tmp_path_factory.mktemp("keras")
    run_script("keras_models", models)
    with WorkerPool(tmp_path_factory.mktemp("workers"), 1) as pool:
        yield Laboratory(models, tmp_path_factory.mktemp("jobs"), pool)


def _reading(file: str) -> dict[str, str]:
    return {"format": "keras", "file": file}


READ = {
    "functional.keras": (["image", "tokens"], ["distance", "score"]),
    "dictionaries.keras": (["left", "right"], ["diff", "sum"]),
    "sequential.h5": (["steps"], None),
    "functional2.h5": (["image", "tokens"], ["distance", "score"]),
    "sequential2.keras": (["steps"], None),
    "calls2.h5": (["steps"], ["y"]),
}
"""The names of inputs and outputs; None for one with a number that Keras chose."""


@pytest.mark.parametrize("file", READ)
def test_files_compute_what_keras_computes(keras: Laboratory, file: str, tmp_path: Path) -> None:
    if "2." in file:
        pytest.importorskip("tf_keras")
    inspection = keras.inspect(".", reading=_reading(file))
    assert [str(f) for f in check_signature(inspection, Expected()) if f.severity == "error"] == []
    assert inspection.largest is not None
    frozen = keras.freeze(".", reading=_reading(file))
    signature = FrozenSignature.load(frozen / "signature.json")
    inputs, outputs = READ[file]
    assert [tensor.name for tensor in signature.inputs] == inputs
    assert [t.name for t in inspection.signatures[0].inputs] == inputs
    if outputs:
        assert [tensor.name for tensor in signature.outputs] == outputs
    # The frozen graph is held against Keras's own results in place of a reference.
    shutil.copytree(frozen, tmp_path / "graph")
    with np.load(keras.models / f"{file}.npz") as arrays:
        kept = {n.replace("out/", "out/4/"): arrays[n] for n in arrays}
    np.savez(tmp_path / "graph" / "reference.npz", **kept)
    (difference,) = json.loads(run_script("run_graphs", tmp_path / "graph")).values()
    assert difference < 1e-6


def test_a_file_is_compiled(keras: Laboratory) -> None:
    frozen = keras.freeze(".", reading=_reading("functional.keras"))
    keras.compile("functional", frozen, "x86-64-v3")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (
            "lambda.keras",
            "the layer 'twice' is a Lambda, which holds Python code that is never run",
        ),
        ("lambda.h5", "the layer 'twice' is a Lambda, which holds Python code that is never run"),
        (
            "custom.keras",
            "the model is of the class Custom, whose Python code is not part of the file; load the",
        ),
        ("module.keras", "the layer 'first' is of the class system, whose Python code"),
        ("only.weights.h5", "holds weights without their model; save it with model.save"),
        ("bomb.keras", "bomb.keras declares "),
        ("cut.keras", "cut.keras is neither a .keras nor an HDF5 file of Keras"),
    ],
)
def test_files_that_are_refused(keras: Laboratory, file: str, words: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        keras.inspect(".", reading=_reading(file))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
