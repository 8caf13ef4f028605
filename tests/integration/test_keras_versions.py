"""The tables of what means the same in Keras 2 and 3 are derived from both libraries, on every layer."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

from modelwheel.compiler.formats.keras.keras_versions import (
    OTHER_LAYERS,
    SAME_ACTIVATIONS,
    SAME_LAYERS,
)
from tests.support.laboratory import run_script

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

_CLOSE = 1e-5
"""Of the largest output: another order of sums."""
_NOT_READ = {"Hashing", "HashedCrossing", "RandomFourierFeatures"}
"""They work on texts; of the last one, Keras 2 does not read what it wrote."""


@pytest.fixture(scope="module")
def meanings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each layer and activation of Keras 2 becomes in Keras 3, and in what modelwheel reads."""
    if importlib.util.find_spec("tf_keras") is None:
        pytest.skip("tf_keras is missing: pip install 'modelwheel[keras]'")
    found: dict[str, Any] = json.loads(
        run_script("keras_meanings", tmp_path_factory.mktemp("meanings"))
    )
    return found


def _same(errors: dict[str, dict[str, float | None]]) -> set[str]:
    """What Keras 3 reads, and computes as Keras 2 does."""
    readers = ((name, found["keras"]) for name, found in errors.items())
    return {name for name, error in readers if error is not None and error < _CLOSE}


def test_every_layer_is_compared(meanings: dict[str, Any]) -> None:
    names = set(meanings["names"])
    assert len(names) > 100
    assert meanings["layers"].keys() | set(meanings["without"]) >= names
    assert names == SAME_LAYERS | OTHER_LAYERS
    assert not SAME_LAYERS & OTHER_LAYERS


def test_the_tables_hold_what_agrees(meanings: dict[str, Any]) -> None:
    assert _same(meanings["layers"]) == SAME_LAYERS
    assert _same(meanings["activations"]) == SAME_ACTIVATIONS
    # They would be empty tables if nothing differed.
    assert meanings["activations"]["hard_sigmoid"]["keras"] > 0.01


def test_every_file_is_read_as_keras_2_reads_it(meanings: dict[str, Any]) -> None:
    every = {**meanings["layers"], **meanings["activations"]}
    errors = {name: found["modelwheel"] for name, found in every.items()}
    assert {name for name, error in errors.items() if error is None} == _NOT_READ
    assert {name for name, error in errors.items() if error and not error < _CLOSE} == set()
