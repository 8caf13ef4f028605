"""Marked functions are replaced before compiling, and the wheel computes what the model does without that."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.model.fusions.registry import chosen, registered
from modelwheel.wheelfile.contents import open_contents
from tests.support.commands import Modelwheel
from tests.support.laboratory import Laboratory, run_script
from tests.support.wheels import LOWEST

pytestmark = pytest.mark.slow

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}{file}}}
targets: [{level}]
compilation: {{batch_sizes: [1, 16]{more}}}
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
    "keras_3": {"keras.dense": 1, "keras.gru": 1, "keras.lstm": 2},  # one has a mask, and stays
    "written": {  # some are in the body of a loop, and a softmax stays whose exponentials are an output
        "pattern.acme.swish": 1,
        "pattern.attention": 2,
        "pattern.gelu": 3,
        "pattern.gelu_tanh": 2,
        "pattern.layer_norm": 2,
        "pattern.softmax": 3,
    },
}
"""Calls, by model."""

_ACME = """\
from dataclasses import replace
import tensorflow as tf
from modelwheel.model.fusions.registry import Argument, Attribute, Fusion
from modelwheel.model.fusions.patterns import Capture

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
UNNAMED = replace(TRIPLE, pattern=Capture("x"))
NONE = None
ALL = ["TRIPLE", "WRONG", "LATER", "OTHER_RESULT", "TWO_RESULTS", "IMPOSSIBLE", "BROKEN", "UNNAMED", "NONE", "ABSENT"]
"""
_OTHER = """\
import tensorflow as tf
from modelwheel.model.fusions.registry import Argument, Attribute, Fusion
from modelwheel.model.fusions.patterns import Capture, Constant, Op, add, divide, negate

X = Argument("x", ("float32",))
WRONG = Fusion("acme.triple", (X,), lambda x: x * 3.001)
DENSE = Fusion(
    "keras.dense",
    (X, Argument("kernel", ("float32",), ("n", "units")), Argument("bias", ("float32",), ("units",))),
    lambda x, kernel, bias, units, activation: tf.reshape(x @ kernel + bias, [-1, units]),
    {"units": Attribute(int), "activation": Attribute(str)},
)
SWISH = Fusion(
    "pattern.acme.swish",
    (X,),
    lambda x: x * tf.sigmoid(x),
    pattern=divide(Capture("x"), add(Constant(1.0), Op(("Exp",), (negate(Capture("x")),)))),
)
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the models."""
    directory = tmp_path_factory.mktemp("fusions")
    run_script("fusions", directory, "keras_3", *(["keras"] if _HAS_KERAS_2 else []))
    return directory


def _distribution(site: Path, version: str, entries: str, module: str, text: str) -> None:
    """Installs a distribution `acme` with entry points and one module."""
    information = site / f"acme-{version}.dist-info"
    information.mkdir(parents=True)
    (site / f"{module}.py").write_text(text)
    (information / "METADATA").write_text(f"Name: acme\nVersion: {version}\n")
    (information / "entry_points.txt").write_text(f"[modelwheel.fusions]\n{entries}")


def _environment_with_acme(directory: Path) -> Path:
    """The Python of an environment with everything that this one has, and a distribution with fusions."""
    venv.create(directory, symlinks=True)
    paths = {"base": str(directory), "platbase": str(directory)}
    site = Path(sysconfig.get_path("purelib", "posix_prefix", paths))
    ours = sysconfig.get_path("purelib")
    (site / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    entries = (
        "acme.triple = acme_other:WRONG\n"
        "keras.dense = acme_other:DENSE\n"
        "pattern.acme.swish = acme_other:SWISH\n"
    )
    _distribution(site, "3.0", entries, "acme_other", _OTHER)
    return directory / "bin" / "python"


@pytest.fixture(scope="module")
def built(work: Path, modelwheel: Modelwheel) -> dict[str, Any]:
    """The outcome of building all specs, by name."""
    asked = {name: f", fusions: [{', '.join(_REPLACED[name])}]" for name in ("keras_3", "written")}
    specs = {
        "embed": ("embed", ""),
        "plain": ("embed", ", fusions: []"),
        "layers": ("layers", ""),
        "written": ("written", asked["written"]),
        "keras_3": ("keras_3", asked["keras_3"]),
        "wrong": ("marked", ""),
    }
    for name, (model, more) in specs.items():
        file = ", path: model.keras" if model == "keras_3" else ""
        text = _SPEC.format(name=name, directory=work / model, file=file, level=LOWEST, more=more)
        (work / f"{name}.yaml").write_text(text, encoding="utf-8")
    python = _environment_with_acme(work / "environment")
    command = [str(python), "-m", "modelwheel", "build", "--json", "--out", str(work / "dist")]
    command += [str(work / f"{name}.yaml") for name in specs]
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "MODELWHEEL_CACHE_DIR": str(modelwheel.cache), "PATH": tools}
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
    assert built[name]["errors"] == []
    assert built[name]["report"]["passed"]
    assert _replaced(built[name]) == _REPLACED[name]
    providers = {one["name"]: one["provider"] for one in built[name]["replaced"]}
    theirs = {"keras.dense", "pattern.acme.swish"}
    assert providers == {one: "acme 3.0" if one in theirs else "modelwheel" for one in providers}


def test_fusions_can_be_switched_off(built: dict[str, Any]) -> None:
    assert built["plain"]["report"]["passed"]
    assert _replaced(built["plain"]) == {}


def test_a_wrong_replacement_is_refused_by_its_name(built: dict[str, Any]) -> None:
    """The reference is that of the model as it was."""
    (error,) = built["wrong"]["errors"]
    assert built["wrong"]["wheel"] is None
    assert error["step"].endswith("verify")
    assert "comparisons exceed their tolerance" in error["message"]
    assert "one of them may compute something else: 'acme.triple' of acme 3.0;" in error["message"]


def test_what_is_nowhere_is_refused(laboratory: Laboratory, work: Path) -> None:
    freeze = Laboratory(work, work / "nowhere", laboratory.pool).freeze
    for name, why in (("pattern.softmax", "nothing in the graph"), ("keras.lstm", "no layer of")):
        with pytest.raises(UnsupportedModelError, match=f"'{name}' of .* cannot be applied: {why}"):
            freeze("embed", fusions=(registered(())[name],))


def test_other_distributions_are_held_to_the_interface(work: Path, laboratory: Laboratory) -> None:
    """Their entry point is found, and a wrong implementation differs from the model's reference."""
    site, out = work / "site", work / "acme"
    entry = "example.triple = acme_fusions:TRIPLE\n"
    _distribution(site, "2.1", entry, "acme_fusions", _ACME)
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
        "UNNAMED": "has a pattern: the names of fusions with one, and no others, begin with 'pattern.'",
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
