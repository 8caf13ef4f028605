"""Weights that are stored in fewer bytes: the wheel is smaller, its error is measured, and it is refused if that is too large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelwheel.util.words import size_text
from modelwheel.wheelfile.wheel import open_wheel
from tests.support.commands import Modelwheel
from tests.support.static_arena import run_trapped
from tests.support.tools import path_without_python
from tests.support.wheels import LOWEST

pytestmark = pytest.mark.slow

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {models}/cms_simple}}
targets: [{level}]
package: {{bindings: shared, weights_storage: {storage}}}
verify: {{tolerance: {{rtol: {rtol}}}}}
"""
_CASES = {
    "half": ("float16", 2e-3),
    "eighth": ("int8", 0.1),
    "coarse": ("int8", 1e-5),
}
_WEIGHTS = 4 * 128 * 128
"""Bytes of the model's one large matrix, which all its layers share."""


@pytest.fixture(scope="module")
def built(
    modelwheel: Modelwheel, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    work = tmp_path_factory.mktemp("storage")
    for name, (storage, rtol) in _CASES.items():
        text = _SPEC.format(name=name, models=models, level=LOWEST, storage=storage, rtol=rtol)
        (work / f"{name}.yaml").write_text(text)
    results = modelwheel.build(work, "--out", work / "dist", code=9)
    return {result["model"].partition("-")[0]: result for result in results}


@pytest.mark.parametrize(("name", "share", "least"), [("half", 2, 1e-6), ("eighth", 4, 1e-4)])
def test_the_wheel_is_smaller_and_its_error_is_known(
    modelwheel: Modelwheel, built: dict[str, dict[str, Any]], name: str, share: int, least: float
) -> None:
    storage = _CASES[name][0]
    report = built[name]["report"]
    assert report["passed"]
    assert report["weights_storage"] == storage
    worst = max(comparison["absolute"] for comparison in report["comparisons"])
    assert worst > least
    manifest = open_wheel(Path(built[name]["wheel"])).manifest
    expanded = manifest.sizes.expanded_weights
    assert expanded is not None
    saved = _WEIGHTS - _WEIGHTS // share
    assert abs(expanded - manifest.sizes.weights - saved) < 1024
    shown = modelwheel("inspect", built[name]["wheel"]).out
    assert f"stored as {storage}, {size_text(expanded)} in memory" in shown


def test_an_error_beyond_the_tolerance_is_refused_with_its_reason(
    built: dict[str, dict[str, Any]],
) -> None:
    (error,) = built["coarse"]["errors"]
    assert error["step"] == "coarse-1.0.0/verify"
    assert "the weights are stored as int8; choose a package.weights_storage" in error["message"]


@pytest.mark.exhaustive
def test_expanding_allocates_nothing(
    modelwheel: Modelwheel, built: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """In a static library, whose programs may create instances before its weights are expanded."""
    modelwheel("bundle", built["eighth"]["spec"], "--static-arena", "--out", tmp_path)
    (tmp_path / "path").mkdir()
    path = path_without_python(tmp_path / "path")
    assert "\npassed\n" in run_trapped(tmp_path / "model_eighth-1.0.0", tmp_path, path)
