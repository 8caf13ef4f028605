"""Signatures in training mode are refused, and writes that no output depends on are left out."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.check import Expected, check_signature
from modelwheel.model.findings import Finding
from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.model.inspection import Inspection
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def training(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    """The workers of all tests, and the models."""
    directory = tmp_path_factory.mktemp("training")
    run_script("training_mode", directory)
    return Laboratory(directory, tmp_path_factory.mktemp("jobs"), laboratory.pool)


def _inspect(training: Laboratory, name: str) -> Inspection:
    if name.endswith((".keras", ".h5")):
        return training.inspect(".", reading={"format": "keras", "file": name})
    return training.inspect(name)


def _errors(inspection: Inspection, **expected: Any) -> list[Finding]:
    found = check_signature(inspection, Expected(**expected))
    return [finding for finding in found if finding.severity == "error"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("augmented", ["draws random numbers in 'functional", "moves averages of the batch in '"]),
        ("dropout", ["draws random numbers in 'functional"]),
        ("batch", ["moves averages of the batch in '"]),
        ("batch2.h5", ["moves averages of the batch in 'model"]),
        ("renorm", ["moves averages of the batch in '"]),
        ("spectral", ["normalises weights again in 'functional"]),
    ],
)
@pytest.mark.parametrize("keep_state", [False, True])
def test_training_mode_is_refused_and_is_no_state(
    training: Laboratory, name: str, shown: list[str], *, keep_state: bool
) -> None:
    if name == "batch2.h5" and importlib.util.find_spec("tf_keras") is None:
        pytest.skip("tf_keras is missing: pip install 'modelwheel[keras]'")
    (error,) = _errors(_inspect(training, name), keep_state=keep_state)
    assert error.kind == "training-mode"
    assert error.message.startswith("the signature is in training mode: it ")
    assert all(words in error.message for words in shown)
    assert ("averages" in error.message) == any("averages" in words for words in shown)
    assert "keep_state" not in str(error)
    way_out = "layers that are called with training=True" if "." in name else "as a .keras file"
    assert way_out in error.fix


@pytest.mark.parametrize(
    "name", ["augmented.keras", "dropout.keras", "batch.keras", "spectral.keras", "inference"]
)
def test_both_ways_out_lead_to_a_model_for_inference(training: Laboratory, name: str) -> None:
    assert _errors(_inspect(training, name)) == []


def test_a_state_that_moves_by_itself_is_not_training(training: Laboratory) -> None:
    inspection = _inspect(training, "pendulum")
    assert [error.kind for error in _errors(inspection)] == ["state"]
    assert _errors(inspection, keep_state=True) == []


def test_writes_are_kept_if_an_output_of_any_call_depends_on_them(training: Laboratory) -> None:
    inspection = _inspect(training, "variables")
    assert [error.kind for error in _errors(inspection)] == ["state"]
    assert _errors(inspection, keep_state=True) == []
    frozen = training.freeze("variables", keep_state=True)
    signature = FrozenSignature.load(frozen / "signature.json")
    kept = ["decides", "feeds", "in_loop", "read_later", "times"]
    assert [tensor.name for tensor in signature.state] == kept


def test_a_model_whose_writes_nothing_reads_has_no_state(training: Laboratory) -> None:
    inspection = _inspect(training, "counts")
    assert _errors(inspection) == []
    (note,) = (f for f in check_signature(inspection, Expected()) if f.kind == "unread-writes")
    assert "AssignAddVariableOp in '" in note.message
    (error,) = _errors(inspection, keep_state=True)
    assert error.kind == "no-state"
    assert FrozenSignature.load(training.freeze("counts") / "signature.json").state == ()
    with pytest.raises(UnsupportedModelError, match="keeps state in variables between calls"):
        training.freeze("variables")
