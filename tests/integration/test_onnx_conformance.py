"""A tenth of ONNX's conformance suite: compiled by XLA and compared, and as a wheel. `make onnx-conformance` runs all of it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from modelwheel.levels import host_levels
from tests.support.commands import Modelwheel
from tests.support.once import Once
from tests.support.wheels import unpack

if TYPE_CHECKING:
    from tests.conformance.run import Outcome

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("onnx") is None, reason="onnx is not installed"),
]

EXTREMES = tuple(dict.fromkeys(host_levels()[place].name for place in (0, -1)))

_SPEC = f"""\
model: {{name: onnx-cases, version: "1.0.0"}}
source: {{directory: cases, format: onnx}}
targets: [{", ".join(EXTREMES)}]
verify: {{rows: 1, samples: samples.npz}}
package: {{bindings: shared, interfaces: [python]}}
"""


@pytest.fixture(scope="module")
def outcomes(once: Once) -> list[Outcome]:
    """What becomes of a tenth of the suite."""
    from tests.conformance.cases import names
    from tests.conformance.run import run_cases

    return once("conformance", lambda _: list(run_cases(names()[::10])))


def test_a_tenth_of_the_suite_passes_or_is_refused_with_a_reason(outcomes: list[Outcome]) -> None:
    assert [o for o in outcomes if o.verdict in ("wrong", "crashed")] == []
    applicable = [o for o in outcomes if o.verdict != "not applicable"]
    refused = [o for o in applicable if o.verdict == "refused"]
    assert len(applicable) > 180
    assert len(refused) <= 0.03 * len(applicable)
    assert [o for o in refused if "; " not in o.reason] == []  # a reason and a way out


def test_a_wheel_of_them_returns_what_the_suite_expects(
    outcomes: list[Outcome], modelwheel: Modelwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.conformance.cases import read_case
    from tests.conformance.merge import can_be_wheel, merge

    constants = {o.name: o.constants for o in outcomes if o.verdict == "passed"}
    cases = [case for case in map(read_case, constants) if can_be_wheel(case)]
    assert len(cases) > 160
    merged = merge(cases, constants)
    (tmp_path / "cases").mkdir()
    merged.save(tmp_path / "cases")
    spec = tmp_path / "spec.yaml"
    spec.write_text(_SPEC, encoding="utf-8")
    modelwheel.build(spec, "--out", tmp_path / "dist")
    for wheel in (tmp_path / "dist").glob("*.whl"):
        unpack(wheel, tmp_path / "packages")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "packages")])
    package = import_module("model_onnx_cases")
    for level in EXTREMES:
        assert merged.wrong(cases, merged.run(package.Model(level))) == {}, level
