"""Marked functions are replaced before compiling, and the wheel computes what the model does without that."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from modelwheel.compiler.freeze import FrozenSignature
from modelwheel.compiler.fusions import chosen, registered
from modelwheel.errors import UnsupportedModelError
from modelwheel.wheelfile.contents import open_contents
from tests.support.laboratory import Laboratory, run_script
from tests.support.wheels import LOWEST

pytestmark = pytest.mark.slow

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}}}
targets: [{level}]
compilation: {{batch_sizes: [1, 8]{more}}}
package: {{bindings: shared}}
"""
_HAS_KERAS_2 = importlib.util.find_spec("tf_keras") is not None

_REPLACED = {
    "embed": {"embedding_lookup": 1, "embedding_matmul": 1},  # one is in the body of a loop
    "layers": {
        "modelwheel.attention": 1,
        "modelwheel.gelu": 2,
        "modelwheel.gru": 1,
        "modelwheel.layer_norm": 1,
        "modelwheel.lstm": 1,
        "modelwheel.softmax": 1,
    },
}
"""Calls, by model."""

_ACME = """\
import tensorflow as tf
from modelwheel.compiler.fusions import Argument, Attribute, Fusion

def fusion(build, *shape, dtype="float32", **attributes):
    return Fusion("example.triple", (Argument("x", (dtype,), shape),), build, attributes)

def triple(x, factor=3.0):
    return x + x * (factor - 1)

TRIPLE = fusion(triple, "rows", "features", factor=Attribute(float, 3.0))
WRONG = fusion(lambda x: x * 3.001, "rows", "features")
LATER = fusion(triple, "rows", 9)
OTHER_RESULT = fusion(lambda x: x[0], "rows", "features")
TWO_RESULTS = fusion(lambda x: [x, x], "rows", "features")
IMPOSSIBLE = fusion(lambda x: x @ tf.ones([9, 1]), "rows", "features")
BROKEN = fusion(lambda x: x.missing, "rows", "features")
NONE = None
ALL = ["TRIPLE", "WRONG", "LATER", "OTHER_RESULT", "TWO_RESULTS", "IMPOSSIBLE", "BROKEN", "NONE", "ABSENT"]
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the models."""
    directory = tmp_path_factory.mktemp("fusions")
    run_script("fusions", directory, *(["keras"] if _HAS_KERAS_2 else []))
    return directory


@pytest.fixture(scope="module")
def built(work: Path) -> dict[str, Any]:
    """The outcome of building all specs, by name."""
    specs = {"embed": ("embed", ""), "plain": ("embed", ", fusions: []"), "layers": ("layers", "")}
    for name, (model, more) in specs.items():
        text = _SPEC.format(name=name, directory=work / model, level=LOWEST, more=more)
        (work / f"{name}.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "modelwheel", "build", "--json", "--out", str(work / "dist")]
    command += [str(work / f"{name}.yaml") for name in specs]
    environment = {**os.environ, "MODELWHEEL_CACHE_DIR": str(work / "cache")}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    return {entry["model"].removesuffix("-1.0.0"): entry for entry in json.loads(done.stdout)}


def _replaced(entry: dict[str, Any]) -> dict[str, int]:
    """What the build says, which is what the wheel says."""
    (manifest,) = open_contents(Path(entry["wheel"])).manifests
    assert [one.model_dump() for one in manifest.compiler.fusions] == entry["replaced"]
    return {one["name"]: one["calls"] for one in entry["replaced"]}


@pytest.mark.parametrize("name", _REPLACED)
def test_wheels_compute_what_the_model_does_without_fusions(
    built: dict[str, Any], name: str
) -> None:
    assert built[name]["report"]["passed"]
    assert _replaced(built[name]) == _REPLACED[name]
    assert {one["provider"] for one in built[name]["replaced"]} == {"modelwheel"}


def test_fusions_can_be_switched_off(built: dict[str, Any]) -> None:
    assert built["plain"]["report"]["passed"]
    assert _replaced(built["plain"]) == {}


def test_other_distributions_are_held_to_the_interface(work: Path, laboratory: Laboratory) -> None:
    """Their entry point is found, and a wrong implementation differs from the model's reference."""
    site, out = work / "site", work / "acme"
    (site / "acme-2.1.dist-info").mkdir(parents=True)
    (site / "acme_fusions.py").write_text(_ACME)
    (site / "acme-2.1.dist-info/METADATA").write_text("Name: acme\nVersion: 2.1\n")
    entry = "[modelwheel.fusions]\nexample.triple = acme_fusions:TRIPLE\n"
    (site / "acme-2.1.dist-info/entry_points.txt").write_text(entry)
    found = json.loads(run_script("freeze_fusions", work / "embed", site, out))
    assert found["TRIPLE"] == found["WRONG"] == ["example.triple 1 acme 2.1"]
    refused = {
        "LATER": "marked with 'example.triple', which takes [rows, 9] for x; here it is [?, 8]",
        "OTHER_RESULT": "has float32 [8] as result 0; the function has float32 [?, 8]",
        "TWO_RESULTS": "has 2 results; the function has 1",
        "IMPOSSIBLE": "which cannot be computed for its arguments (Dimensions must be equal, but are 8",
    }
    for name, words in refused.items():
        kind, said = found[name]
        assert kind == UnsupportedModelError.__name__
        assert words in said
    environment = {
        "BROKEN": "the fusion 'example.triple' failed for float32 [?, 8] (AttributeError",
        "NONE": "acme_fusions:NONE of acme 2.1 is not a Fusion",
        "ABSENT": "cannot be imported (AttributeError",
    }
    for name, words in environment.items():
        kind, said = found[name]
        assert (kind, words in said) == ("EnvironmentProblemError", True), said
    reference, _ = Laboratory(work, work / "jobs", laboratory.pool).refer("embed")
    for name in ("TRIPLE", "WRONG"):
        shutil.copy(reference / "reference.npz", out / name)
    differences = json.loads(run_script("run_graphs", out / "TRIPLE", out / "WRONG"))
    assert differences[str(out / "TRIPLE")] < 1e-6
    assert differences[str(out / "WRONG")] > 1e-4


@pytest.mark.skipif(not _HAS_KERAS_2, reason="tf_keras is missing: pip install 'modelwheel[keras]'")
def test_layers_of_keras_2_are_replaced(work: Path, laboratory: Laboratory) -> None:
    keras = Laboratory(work, work / "keras jobs", laboratory.pool)
    marked = keras.inspect("keras").marked["serving_default"]
    assert marked == {"keras.gru": 1, "keras.lstm": 1}
    fusions = chosen(marked, list(marked), registered(()))
    frozen = keras.freeze("keras", fusions=fusions)
    replaced = FrozenSignature.load(frozen / "signature.json").fusions
    assert {one.name: one.calls for one in replaced} == marked
    reference, _ = keras.refer("keras")
    shutil.copy(reference / "reference.npz", frozen)
    (difference,) = json.loads(run_script("run_graphs", frozen)).values()
    assert difference < 1e-6
    assert (frozen / "graph.pb").read_bytes() != (keras.freeze("keras") / "graph.pb").read_bytes()
