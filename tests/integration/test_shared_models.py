"""Published models with recorded outputs of TensorFlow: right at every level and size, and small enough."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.levels import host_levels
from modelwheel.wheelfile.sizes import read_sizes
from modelwheel.wheelfile.wheel import open_wheel
from tests.support.commands import Modelwheel
from tests.support.laboratory import SHARED_MODELS
from tests.support.wheels import LOWEST, unpack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED_MODELS.is_dir(), reason=f"{SHARED_MODELS} is absent"),
]

TOLERANCES = {
    "mhcnuggets_a0201": 1e-5,
    "fer_emotion": 1e-5,
    # Against an evaluation of the same graph in float64, TensorFlow's own float32 result is off by
    # 0.9e-5 to 1.1e-5 of the largest output, and XLA's kernels by 0.4e-5 to 1.6e-5 (even with all
    # dot products summed in float64): their distance says nothing below the sum of the two.
    "basic_pitch": 3e-5,
}
"""Of recorded outputs, relative to the largest output, for the models with a free batch axis."""

OF_THE_BUILD = {
    **TOLERANCES,
    # A build verifies with random noise. The logarithm of nearly empty bins of its spectrum brings
    # TensorFlow 5e-5 away from float64 in some rows, and the compiled model as far the other way.
    "basic_pitch": 1e-4,
}
"""What the specs ask for."""

FIXED = "half_plus_two"

NAMES = (
    "mhcnuggets_a0201",
    # Minutes of compiling; test_onnx has convolutions too.
    *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("fer_emotion", "basic_pitch")),
)
"""The models with a free batch axis."""

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}}}
"""

_BATCHED = """\
compilation: {{batch_sizes: [1, 4, 16]}}
verify: {{tolerance: {{rtol: {tolerance}}}}}
"""

_ONE_LEVEL = f"targets: [{LOWEST}]\n"


def write_spec(name: str, directory: Path) -> Path:
    text = _SPEC.format(name=name, directory=SHARED_MODELS / name / "saved_model")
    text += _BATCHED.format(tolerance=OF_THE_BUILD[name]) if name in TOLERANCES else _ONE_LEVEL
    path = directory / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def result(
    modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], dict[str, Any]]]:
    """What became of a model, built for all default levels or (of fixed shape) for the lowest."""
    work = tmp_path_factory.mktemp("shared")

    @cache
    def build(name: str) -> dict[str, Any]:
        (built,) = modelwheel.build(write_spec(name, work), "--out", work / "dist")
        unpack(Path(built["wheel"]), work / "packages")
        return built

    sys.path.append(str(work / "packages"))
    yield build
    sys.path.remove(str(work / "packages"))


def load(name: str, rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Recorded inputs and outputs."""
    with np.load(SHARED_MODELS / name / "io.npz") as arrays:
        found = {key: arrays[key] for key in arrays if key.startswith(f"b{rows}/")}
    inputs = {key.split("/")[2]: a for key, a in found.items() if "/in/" in key}
    return inputs, {key.split("/")[2]: a for key, a in found.items() if "/out/" in key}


def runnable_levels(package: Any, skipped: dict[str, str]) -> Iterator[Any]:
    for level in package.Model.levels:
        if level not in skipped:
            yield package.Model(level)


def compare(model: Any, name: str, rows: int, tolerance: float) -> None:
    inputs, outputs = load(name, rows)
    result = model.predict(inputs)
    result = {next(iter(outputs)): result} if len(outputs) == 1 else result
    assert set(result) == set(outputs)
    for key, expected in outputs.items():
        assert result[key].shape == expected.shape
        error = np.abs(result[key] - expected).max() / np.abs(expected).max()
        assert error <= tolerance, f"{key} with {rows} rows at {model.level}"


@pytest.mark.parametrize("rows", [1, 4, 7])
@pytest.mark.parametrize("name", NAMES)
def test_recorded_outputs_are_met_at_every_level(
    result: Callable[[str], dict[str, Any]], name: str, rows: int
) -> None:
    skipped = result(name)["report"]["skipped"]
    package = __import__(f"model_{name}")
    assert package.Model.batch_sizes == (1, 4, 16)
    assert package.Model.levels == tuple(target.name for target in host_levels())
    for model in runnable_levels(package, skipped):
        compare(model, name, rows, TOLERANCES[name])


def test_a_model_of_fixed_shape(result: Callable[[str], dict[str, Any]]) -> None:
    skipped = result(FIXED)["report"]["skipped"]
    package = __import__(f"model_{FIXED}")
    for model in runnable_levels(package, skipped):
        compare(model, FIXED, 1, 0)
        with pytest.raises(ValueError, match=r"must have the shape \(1,\)"):
            model(np.zeros(2, np.float32))


@pytest.mark.parametrize("name", [*NAMES, FIXED])
def test_wheels_are_small(
    result: Callable[[str], dict[str, Any]], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = Path(result(name)["wheel"])
    parts = read_sizes(open_wheel(wheel))
    weights = 4 * json.loads((SHARED_MODELS / name / "meta.json").read_bytes())["params"]
    allowed = 2.2 * weights + 600_000
    told = (
        f"\n{name}: wheel {parts.wheel / 1000:.0f} kB of {allowed / 1000:.0f} kB allowed; "
        f"weights {weights / 1000:.0f} kB, of the library {parts.weights / 1000:.0f} kB are "
        f"constants, {parts.machine_code / 1000:.0f} kB machine code, "
        f"{parts.runtime / 1000:.0f} kB runtime"
    )
    with capsys.disabled():
        sys.stdout.write(told)
    assert parts.wheel <= allowed


def test_undeclared_state_is_refused_with_the_line_that_declares_it(
    modelwheel: Modelwheel, tmp_path: Path
) -> None:
    spec = write_spec("dtln", tmp_path)
    done = modelwheel("check", spec, code=UnsupportedModelError.exit_code)
    assert (
        "  error dtln: the signature keeps state in variables between calls: AssignVariableOp in "
        "'model/lstm', 'model/lstm_1', 'model/lstm_2', ... (8 times); write `keep_state: true` in the "
        "spec to keep it in the compiled model, or export a signature that takes the state as "
        "inputs and returns it as outputs [MW405]"
    ) in done.out.splitlines()
