"""ONNX files: each operation, two published models and a long loop as wheels, against ONNX Runtime."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import Modelwheel
from tests.support.laboratory import SHARED_MODELS, run_script
from tests.support.wheels import LOWEST, unpack

# Not imported: two copies of LLVM in one process stop it.
_MISSING = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(_MISSING), reason=f"{' and '.join(_MISSING)} is not installed"),
]

TOLERANCE = 1e-5
"""Of the largest value."""

_SPECS = {
    "ppocr_cls": f"""\
model: {{name: ppocr_cls, version: "1.0.0"}}
source: {{directory: {SHARED_MODELS}/ppocr_cls, path: model.onnx}}
inputs: {{x: {{shape: [null, 3, 48, 192]}}}}
compilation: {{batch_sizes: [4]}}
targets: [{LOWEST}]
package: {{bindings: shared}}
""",
    "silero_vad": f"""\
model: {{name: silero_vad, version: "1.0.0"}}
source: {{directory: {SHARED_MODELS}/silero_vad, path: model.onnx, constants: {{sr: 16000}}}}
inputs: {{input: {{shape: [1, 576]}}, state: {{shape: [2, 1, 128]}}}}
targets: [{LOWEST}]
package: {{bindings: shared}}
""",
    "long_lstm": f"""\
model: {{name: long_lstm, version: "1.0.0"}}
source: {{directory: ., path: long_lstm.onnx}}
targets: [{LOWEST}]
package: {{bindings: shared}}
""",
}


def write_lstm(path: Path) -> None:
    """A layer of two directions and 500 steps, which is compiled as two loops."""
    import onnx
    from onnx import helper

    from tests.support.onnx_models import model_of, random

    size, steps = 16, 500
    constants = {
        "w": random(2, 4 * size, 8, seed=2) / 4,
        "r": random(2, 4 * size, size, seed=3) / 4,
        "b": random(2, 8 * size, seed=4),
    }
    layer = helper.make_node(
        "LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=size, direction="bidirectional"
    )
    onnx.save(model_of([layer], {"x": random(steps, 1, 8)}, ["y"], constants), path)


def test_every_operation_agrees_with_onnx_runtime(tmp_path: Path) -> None:
    if find_spec("onnxruntime") is None:
        pytest.skip("onnxruntime is not installed")
    found = json.loads(run_script("onnx_operations", tmp_path))
    assert len(found) > 300
    assert {name: worst for name, worst in found.items() if not worst <= TOLERANCE} == {}


def test_images_have_their_features_last_between_convolutions(tmp_path: Path) -> None:
    if find_spec("onnxruntime") is None:
        pytest.skip("onnxruntime is not installed")
    found = json.loads(run_script("onnx_images", tmp_path))
    assert sorted(found) == ["1", "2", "3"]
    for worst, exchanged in found.values():
        assert worst <= TOLERANCE
        # The input, a constant, and what is flattened or summed over all axes in the end.
        assert exchanged <= 5


@pytest.fixture(scope="module")
def packages(
    modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """The packages of two published models."""
    if not SHARED_MODELS.is_dir():
        pytest.skip(f"{SHARED_MODELS} is absent")
    work = tmp_path_factory.mktemp("onnx")
    for name, text in _SPECS.items():
        (work / f"{name}.yaml").write_text(text, encoding="utf-8")
    write_lstm(work / "long_lstm.onnx")
    specs = [work / f"{name}.yaml" for name in _SPECS]
    modelwheel.build(*specs, "--out", work / "dist")
    for wheel in (work / "dist").glob("*.whl"):
        unpack(wheel, work / "packages")
    sys.path.append(str(work / "packages"))
    yield {name: __import__(f"model_{name}") for name in _SPECS}
    sys.path.remove(str(work / "packages"))


def recorded(name: str) -> Any:
    return np.load(SHARED_MODELS / name / "io.npz")


def compare(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= TOLERANCE * max(1, np.abs(expected).max())


def test_the_reference_is_onnx_runtime_s(packages: dict[str, Any]) -> None:
    for package in packages.values():
        text = Path(package.__file__).with_name("_manifest.json").read_text(encoding="utf-8")
        assert json.loads(text)["verification"]["evaluator"].startswith("ONNX Runtime ")


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_a_classifier(packages: dict[str, Any], rows: int) -> None:
    (output,) = packages["ppocr_cls"].Model.outputs
    assert output.name == "save_infer_model/scale_0.tmp_1"
    values = recorded("ppocr_cls")
    result = packages["ppocr_cls"].Model().predict({"x": values[f"b{rows}/in/x"]})
    compare(result, values[f"b{rows}/out/{output.name}"])


def test_a_long_recurrent_layer(packages: dict[str, Any], tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from tests.support.onnx_models import random

    write_lstm(tmp_path / "m.onnx")
    values = random(500, 1, 8, seed=9)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (expected,) = session.run(None, {"x": values})
    model = packages["long_lstm"].Model()
    compare(model(values), expected)
    directory = Path(packages["long_lstm"].__file__).parent
    about = json.loads((directory / "_manifest.json").read_text(encoding="utf-8"))
    assert about["sizes"]["machine_code"] < 200_000  # the code of one step, not of 500


def test_both_directions_run_beside_each_other(packages: dict[str, Any]) -> None:
    from tests.support.onnx_models import random

    Model = packages["long_lstm"].Model  # noqa: N806
    alone, shared = Model(), Model(threads=2)
    for seed in range(20):
        values = random(500, 1, 8, seed=seed)
        assert alone(values).tobytes() == shared(values).tobytes()


def test_a_detector_with_its_state_as_input_and_output(packages: dict[str, Any]) -> None:
    """Six calls in a row; the condition on the sampling rate is decided by a constant."""
    model, values = packages["silero_vad"].Model(), recorded("silero_vad")
    state = values["stream/0/in/state"]
    for number in range(6):
        result = model.predict({"input": values[f"stream/{number}/in/input"], "state": state})
        state = result["stateN"]
        for name in ("output", "stateN"):
            compare(result[name], values[f"stream/{number}/out/{name}"])
