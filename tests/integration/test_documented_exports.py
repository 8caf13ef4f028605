"""Each export line of docs/formats/, run with its framework, becomes a wheel with the framework's numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.documented_exports import EXPORTS, PAGES, Export
from tests.support.commands import Modelwheel
from tests.support.laboratory import run_script
from tests.support.wheels import LOWEST, unpack

pytestmark = pytest.mark.slow


def _write_spec(one: Export, directory: Path) -> Path:
    path = directory / f"{one.name}.yaml"
    path.write_text(
        f'model: {{name: documented_{one.name}, version: "1.0.0"}}\n'
        f"source: {{directory: {one.name}, path: {one.file}{one.source}}}\n"
        f"targets: [{LOWEST}]\n"
        "package: {bindings: shared}\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture(scope="module")
def missing(
    modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """What the lines of each framework miss; wheels of the others can be imported."""
    work = tmp_path_factory.mktemp("exports")
    # PyTorch prints, too.
    found = json.loads(run_script("documented_exports", work).splitlines()[-1])
    specs = [_write_spec(one, work) for one in EXPORTS if not found[one.name]]
    modelwheel.build(*specs, "--out", work / "dist")
    for wheel in (work / "dist").glob("*.whl"):
        unpack(wheel, work / "packages")
    sys.path.append(str(work / "packages"))
    yield {**found, "work": work}
    sys.path.remove(str(work / "packages"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("one", EXPORTS, ids=lambda one: one.name)
def test_the_wheel_computes_what_the_framework_does(one: Export, missing: dict[str, Any]) -> None:
    if missing[one.name]:
        pytest.skip(missing[one.name])
    with np.load(missing["work"] / one.name / "rows.npz") as arrays:
        rows, expected = arrays["x"], arrays["y"]
    found = __import__(f"model_documented_{one.name}").Model()(rows)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_every_line_is_run() -> None:
    """Paddle is too large to install for one line."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert text.count("```python") == 5
    assert text.count("\n| framework | ") == 2
    rows = text.count("\n| Flax") + text.count("\n| Equinox")
    assert rows + text.count("`torch.onnx.export(") + text.count("skl2onnx.to_onnx(") == 5
