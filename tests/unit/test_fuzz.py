"""Parsers of what comes from outside, with a few changed inputs each; `python -m tests.fuzz` tries more.

Those of model files are in tests/integration/test_fuzz_models.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.model_targets import MODEL_TARGETS
from tests.fuzz.target import CORPUS, clear, target_of
from tests.fuzz.targets import TARGETS

INPUTS = int(os.environ.get("MODELWHEEL_FUZZ_INPUTS", "12"))
"""For each target."""


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in MODEL_TARGETS])
def test_a_parser_returns_a_value_or_a_sentence(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target, scratch = TARGETS[name], tmp_path_factory.mktemp("scratch")
    seeds = target.prepare()
    for seed in seeds[:3]:
        target.check(seed, scratch)
        clear(scratch)

    @settings(
        max_examples=INPUTS,
        derandomize=INPUTS == 12,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(random=st.randoms(use_true_random=False))
    def check(random: Random) -> None:
        try:
            target.check(target.mutate(random, random.choice(seeds), seeds), scratch)
        finally:
            clear(scratch)

    check()


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(CORPUS.iterdir()) if target_of(path) not in MODEL_TARGETS],
    ids=lambda path: path.name,
)
def test_what_once_broke_a_parser(path: Path, tmp_path: Path) -> None:
    started = time.process_time()
    TARGETS[target_of(path)].check(path.read_bytes(), tmp_path)
    assert time.process_time() - started < 3
