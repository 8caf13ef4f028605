"""Published models that nobody here made compile, and their wheels compute what the framework does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.corpus.table import read_table
from tests.corpus.visit import Corpus
from tests.support.commands import Modelwheel
from tests.support.wheels import LOWEST

pytestmark = pytest.mark.slow

FAST = [model for model in read_table() if model.fast]


def test_a_dozen_is_fast() -> None:
    assert len(FAST) == 12
    assert len({model.kind for model in FAST}) >= 6


def test_published_models_are_proven(modelwheel: Modelwheel, tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    try:
        specs = [corpus.write_spec(model, levels=[LOWEST], batch_sizes=[1, 4]) for model in FAST]
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the package index cannot be reached: {error}")
    built = modelwheel.build(*specs, "--out", tmp_path / "dist")
    assert {result["model"]: result["errors"] for result in built if result["errors"]} == {}
    assert len(list((tmp_path / "dist").glob("*.whl"))) == len(FAST)
