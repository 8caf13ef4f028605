"""A tenth of ONNX's conformance suite: compiled by XLA and compared, and as a wheel. `make onnx-conformance` runs all of it."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from modelwheel.levels import cpu_level, host_levels
from tests.support.commands import Modelwheel, run
from tests.support.wheels import unpack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("onnx") is None, reason="onnx is not installed"),
]

EXTREMES = tuple(dict.fromkeys(level.name for level in (host_levels()[0], cpu_level())))

_SPEC = f"""\
model: {{name: onnx-cases, version: "1.0.0"}}
source: {{directory: cases, format: onnx}}
targets: [{", ".join(EXTREMES)}]
verify: {{rows: 1, samples: samples.npz}}
package: {{bindings: shared, interfaces: [python]}}
"""


def _run(*arguments: str | Path) -> Any:
    """What a process with the suite prints: in this one it would stay in memory."""
    root = str(Path(__file__).parents[2])
    printed = run(sys.executable, "-m", "tests.conformance.wheel", *arguments, PYTHONPATH=root).out
    return json.loads(printed.splitlines()[-1])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model of many cases is."""
    return tmp_path_factory.mktemp("conformance")


@pytest.fixture(scope="module")
def found(directory: Path) -> Any:
    """What becomes of a tenth of the suite."""
    return _run("write", directory)


def test_a_tenth_of_the_suite_passes_or_is_refused_with_a_reason(found: Any) -> None:
    outcomes = found["outcomes"]
    assert [o for o in outcomes if o["verdict"] in ("wrong", "crashed")] == []
    applicable = [o for o in outcomes if o["verdict"] != "not applicable"]
    refused = [o for o in applicable if o["verdict"] == "refused"]
    assert len(applicable) > 180
    assert len(refused) <= 0.03 * len(applicable)
    assert [o for o in refused if "; " not in o["reason"]] == []  # a reason and a way out


@pytest.mark.exhaustive
def test_a_wheel_of_them_returns_what_the_suite_expects(
    found: Any, directory: Path, modelwheel: Modelwheel
) -> None:
    assert found["merged"] > 160
    spec = directory / "spec.yaml"
    spec.write_text(_SPEC, encoding="utf-8")
    modelwheel.build(spec, "--out", directory / "dist")
    for wheel in (directory / "dist").glob("*.whl"):
        unpack(wheel, directory / "packages")
    wrong = _run("compare", directory, directory / "packages", *EXTREMES)
    assert wrong == {level: {} for level in EXTREMES}
