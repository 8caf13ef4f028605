"""Readers of model files, with a few changed files each; `python -m tests.fuzz` tries more."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.model_targets import MODEL_TARGETS
from tests.fuzz.target import CORPUS, target_of

pytestmark = pytest.mark.slow

INPUTS = int(os.environ.get("MODELWHEEL_FUZZ_INPUTS", "20"))
"""For each target."""


@pytest.mark.parametrize("name", MODEL_TARGETS)
def test_a_reader_returns_a_value_or_a_sentence(name: str, tmp_path: Path) -> None:
    target, random = MODEL_TARGETS[name], Random(7)
    seeds = target.prepare()
    # A seed that is refused would reach nothing.
    for seed in seeds:
        target.run(seed, tmp_path)
    contents = [target.mutate(random, random.choice(seeds), seeds) for _ in range(INPUTS)]
    assert len(set(contents)) > INPUTS // 2
    assert list(target.check_all(contents, tmp_path)) == []


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(CORPUS.iterdir()) if target_of(path) in MODEL_TARGETS],
    ids=lambda path: path.name,
)
def test_what_once_broke_a_reader(path: Path, tmp_path: Path) -> None:
    target = MODEL_TARGETS[target_of(path)]
    target.prepare()
    target.check(path.read_bytes(), tmp_path)
