"""Files of Keras: what is read computes what Keras computes, and code is refused before it could run."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping

import numpy as np
import pytest

from modelwheel.dtypes import ElementType
from modelwheel.errors import UnsupportedModelError
from modelwheel.model.check import Expected, check_signature
from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.program.op_names import names_of
from modelwheel.program.ops import ByteLayer, Dot
from modelwheel.program.program import Program
from modelwheel.program.walk import leaves
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def keras(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    """The workers of all tests, and the files."""
    models = tmp_path_factory.mktemp("keras")
    run_script("keras_models", models)
    return Laboratory(models, tmp_path_factory.mktemp("jobs"), laboratory.pool)


def _reading(file: str) -> dict[str, str]:
    return {"format": "keras", "file": file}


READ = {
    "functional.keras": (["image", "tokens"], ["score", "distance"]),
    "dictionaries.keras": (["left", "right"], ["sum", "diff"]),
    "sequential.h5": (["steps"], None),
    "dropout.keras": (["steps", "frames"], ["lstm", "gru", "simple", "images"]),
    "categories.keras": (["tags"], ["some", "counts"]),
    "quantized.keras": (["tokens"], ["y"]),
    "policies.keras": (["steps"], ["y"]),
}
KERAS_2 = {
    "functional2.h5": (["image", "tokens"], ["score", "distance"]),
    "functional2.keras": (["image", "tokens"], ["score", "distance"]),
    "sequential2.keras": (["steps"], None),
    "trained2.keras": (["steps"], ["y"]),
    "gates2.h5": (["steps"], ["dense", "softmax", "lstm", "gru"]),
    "only2.h5": (["steps"], ["y"]),
    "calls2.h5": (["steps"], ["y"]),
}
"""The names of inputs and outputs; None for one with a number that Keras chose."""


def _compare(keras: Laboratory, files: Mapping[str, tuple[list[str], list[str] | None]]) -> None:
    """Frozen graphs are held against the results that Keras wrote beside its files."""
    directories = []
    for file, (inputs, outputs) in files.items():
        frozen = keras.freeze(".", reading=_reading(file))
        signature = FrozenSignature.load(frozen / "signature.json")
        assert [tensor.name for tensor in signature.inputs] == inputs
        if outputs:
            assert [tensor.name for tensor in signature.outputs] == outputs
        with np.load(keras.models / f"{file}.npz") as arrays:
            kept = {n.replace("out/", "out/4/"): arrays[n] for n in arrays}
        np.savez(frozen / "reference.npz", **kept)
        directories.append(frozen)
    differences = json.loads(run_script("run_graphs", *directories))
    assert len(differences) == len(files)
    assert max(differences.values()) < 1e-6


def test_files_compute_what_keras_computes(keras: Laboratory) -> None:
    _compare(keras, READ)


def test_files_of_keras_2_compute_what_it_computes(keras: Laboratory) -> None:
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("tf_keras is missing: pip install 'modelwheel[keras]'")
    _compare(keras, KERAS_2)


def test_a_file_is_inspected_and_compiled(keras: Laboratory) -> None:
    reading = _reading("functional.keras")
    inspection = keras.inspect(".", reading=reading)
    assert [str(f) for f in check_signature(inspection, Expected()) if f.severity == "error"] == []
    assert [t.name for t in inspection.signatures[0].inputs] == ["image", "tokens"]
    assert inspection.written_by.startswith("Keras 3.")
    assert inspection.largest is not None
    assert inspection.largest.elements == 48 * 4
    out = keras.compile("functional", keras.freeze(".", reading=reading), "x86-64-v3")
    steps = [step.origin for step, _ in leaves(Program.load(out / "program.json").steps)]
    layers = {part for origin in steps for name in names_of(origin) for part in name.split("/")}
    # Keras numbers unnamed layers in a process; `_1` behind a name would be TensorFlow's.
    assert {"shared", "score", "distance"} <= layers
    assert not {"shared_1", "score_1", "distance_1", "features_1"} & layers


def test_quantised_layers_are_products_of_bytes(keras: Laboratory) -> None:
    out = keras.compile(
        "products", keras.freeze(".", reading=_reading("quantized.keras")), "x86-64-v3"
    )
    steps = [step for step, _ in leaves(Program.load(out / "program.json").steps)]
    read = [
        [view.element_type for view in step.inputs.values()][:2]
        for step in steps
        if isinstance(step.op, Dot | ByteLayer)
    ]
    assert read == [[ElementType.INT8, ElementType.INT8]] * 3


def test_what_is_checked_is_compiled(keras: Laboratory) -> None:
    """Seeds that dropout counts, sizes that are clamped, and int8: XLA compiles what `check` accepts."""
    for file in ("dropout.keras", "categories.keras", "quantized.keras"):
        found = check_signature(keras.inspect(".", reading=_reading(file)), Expected())
        assert [str(finding) for finding in found if finding.severity == "error"] == []
        keras.compile(
            file.partition(".")[0], keras.freeze(".", reading=_reading(file)), "x86-64-v3"
        )
        left_out = [finding for finding in found if finding.kind == "unread-writes"]
        assert bool(left_out) == (file == "dropout.keras")


def test_a_model_of_texts_is_refused_with_the_lines_that_save_the_rest(keras: Laboratory) -> None:
    """The two lines of the message are run, and what they save is read."""
    for file, inputs in (("texts.keras", ["words", "places", "number"]), ("words.keras", None)):
        with pytest.raises(UnsupportedModelError, match="looks values up in tables") as caught:
            keras.inspect(".", reading=_reading(file))
        lines = str(caught.value).split("`")[1::2]
        assert len(lines) == 2
        run_script("keras_lines", keras.models / file, keras.models / f"numeric-{file}", *lines)
        inspection = keras.inspect(".", reading=_reading(f"numeric-{file}"))
        assert [f for f in check_signature(inspection, Expected()) if f.severity == "error"] == []
        names = [tensor.name for tensor in inspection.signatures[0].inputs]
        assert names == (inputs or [str(caught.value).split("'")[1]])


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (
            "lambda.keras",
            "the layer 'twice' is a Lambda, which holds Python code that is never run",
        ),
        ("lambda.h5", "the layer 'twice' is a Lambda, which holds Python code that is never run"),
        ("twofold.h5", "the layer 'evil' is a Lambda, which holds Python code that is never run"),
        (
            "custom.keras",
            "the model is of the class Custom, whose Python code is not part of the file; where the model was made",
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
