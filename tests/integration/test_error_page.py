"""docs/errors.md: what it says of each model is what modelwheel says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from modelwheel.model.check import Expected, check_signature
from modelwheel.model.fusions.registry import registered
from modelwheel.model.inspection import Inspection
from modelwheel.model.supported_operations import SUPPORTED, Supported
from modelwheel.workers.jobs import InspectRequest, SupportedRequest
from tests.support.laboratory import SHARED_MODELS, Laboratory, run_script
from tests.support.outcomes import outcome

pytestmark = pytest.mark.slow

_PAGE = Path(__file__).parents[2] / "docs" / "errors.md"

_EXPECTED = {
    "fusion_interface": Expected(registered=registered(())),
    "fusion_nowhere": Expected(fusions=["pattern.softmax"], registered=registered(())),
    "fusion_unknown": Expected(fusions=["acme.softmax"], registered=registered(())),
    "gather": Expected(ranges={"x": (90.0, 99.0)}),
    "not_a_number": Expected(ranges={"x": (-2.0, -1.0)}),
    "unknown_signature": Expected(signature="serving"),
}
"""Specs, where the model alone does not show the message."""


class Row(NamedTuple):
    """One row of the page."""

    elsewhere: str
    said: str
    advice: str
    model: str


def _read() -> Iterator[Row]:
    for line in _PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| elsewhere"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            elsewhere, said, advice, model = cells
            yield Row(elsewhere, said, advice, model.strip("` "))


ROWS = list(_read())


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the model of every row."""
    directory = tmp_path_factory.mktemp("refused")
    run_script("refused", directory)
    return directory


def test_every_row_has_a_model_and_every_model_a_row(refused: Path) -> None:
    others = {"tf1_loop"}  # of tests/models/make_models.py
    names = {path.name for path in refused.iterdir()}
    assert sorted(row.model for row in ROWS) == sorted(names | others)
    assert all(row.elsewhere and row.advice for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.model)
def test_the_page_says_what_modelwheel_says(
    refused: Path, laboratory: Laboratory, row: Row
) -> None:
    found = refused / row.model
    model = found if found.exists() else laboratory.models / row.model
    lines = outcome(laboratory, model, _EXPECTED.get(row.model))
    parts = row.said.strip("`").split("...")
    pattern = ".*".join(re.escape(part) for part in parts)
    assert any(re.fullmatch(rf"\w+: {pattern}(;.*)?", line) for line in lines), lines
    assert not any("{{" in line or "Graph execution error" in line for line in lines)


def test_supported_operations_are_those_of_the_compiler(laboratory: Laboratory) -> None:
    out = laboratory.run(SupportedRequest().job(laboratory.new_directory()))
    found = Supported.load(out / SUPPORTED)
    ops = {op.op: op for op in found.ops}
    assert len(ops) == len(found.ops) > 400
    assert {"float32", "float64"} <= set(ops["MatMul"].types["T"])
    assert "string" not in ops["MatMul"].types["T"]
    assert ops["ReadVariableOp"].removed
    assert "BesselJ0" not in ops


@pytest.mark.parametrize(
    "name", ["mhcnuggets_a0201", "fer_emotion", "basic_pitch", "half_plus_two"]
)
def test_published_models_have_no_such_findings(laboratory: Laboratory, name: str) -> None:
    if not SHARED_MODELS.is_dir():
        pytest.skip("../shared is not there")
    model = SHARED_MODELS / name / "saved_model"
    out = laboratory.run(InspectRequest().job(model, laboratory.new_directory()))
    found = Inspection.load(out / "inspection.json")
    assert "not-constant" not in {f.kind for f in check_signature(found, Expected())}
