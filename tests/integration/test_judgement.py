"""What a hostile model asks for is refused from its file alone, before TensorFlow executes anything."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.check import Expected, check_signature
from tests.models.hostile import ATTACKS, Attack, Attacks
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow

_HARMLESS = Path(__file__).with_name("harmless_operations.txt")


@pytest.fixture(scope="module")
def hostile(attacks: Attacks, laboratory: Laboratory) -> Laboratory:
    """Inspects the hostile models."""
    return Laboratory(attacks.models, laboratory.new_directory(), laboratory.pool)


def _errors(hostile: Laboratory, attack: Attack) -> list[str]:
    try:
        found = hostile.inspect(attack.name)
    except UnsupportedModelError as error:
        return [str(error)]
    findings = check_signature(found, Expected())
    return [str(finding) for finding in findings if finding.severity == "error"]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_every_attack_is_refused_with_its_node(
    hostile: Laboratory, attacks: Attacks, attack: Attack
) -> None:
    before = sorted(attacks.victim.directory.rglob("*"))
    errors = _errors(hostile, attack)
    assert errors
    assert attack.node in "\n".join(errors)
    for error in errors:
        assert str(attacks.models) not in error
        assert "TensorFlow failed" not in error
        # One sentence and its remedy.
        assert re.search(r"; \w+", error)
    assert sorted(attacks.victim.directory.rglob("*")) == before


@pytest.fixture(scope="module")
def registry(attacks: Attacks) -> dict[str, Any]:
    """What the judgement says about every operation."""
    said: dict[str, Any] = json.loads(run_script("registry", attacks.models / "write_in_branch"))
    return said


def test_every_stateful_operation_of_tensorflow_was_reviewed(registry: dict[str, Any]) -> None:
    assert registry["unreviewed"] == []


def test_the_harmless_operations_are_those_that_were_reviewed(registry: dict[str, Any]) -> None:
    """A new version of TensorFlow may add operations: look at each, then change the file."""
    assert set(registry["harmless"]) == set(_HARMLESS.read_text().split())


def test_an_operation_with_an_effect_is_refused_wherever_it_is(registry: dict[str, Any]) -> None:
    assert registry["missed"] == []
    assert registry["plain"] == ""
