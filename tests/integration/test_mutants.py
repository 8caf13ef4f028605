"""Wrong weights in a finished wheel are found: a row of its table, a channel, a bias, a single value."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.levels import cpu_level
from tests.mutants.__main__ import Outcome, run_mutants
from tests.mutants.page import score, write_page
from tests.support.commands import Modelwheel
from tests.support.laboratory import run_script

pytestmark = pytest.mark.slow

_SPEC = """\
model: {{name: wrapped, version: "1.0.0", serving_key: wrapped}}
source: {{directory: {directory}}}
targets: [{level}]
compilation: {{batch_sizes: [1, 4]}}
"""


def test_overwritten_rows_of_a_table_are_found(modelwheel: Modelwheel, tmp_path: Path) -> None:
    run_script("index_inputs", tmp_path / "model")
    spec = tmp_path / "wrapped.yaml"
    spec.write_text(_SPEC.format(directory=tmp_path / "model", level=cpu_level().name))
    counts = {"row": 8, "channel": 2, "value": 4, "digit": 4}
    outcomes = run_mutants(spec, modelwheel, tmp_path, counts)
    assert len(outcomes) == sum(counts.values())
    for name in ("verify", "selftest"):
        caught, counted = score(outcomes, name)
        assert caught == counted == len(outcomes)


def test_the_page_counts_misses_that_have_an_effect() -> None:
    outcomes = [
        Outcome("a", "row", verify=True, selftest=False, effect="large"),
        Outcome("a", "row", verify=False, selftest=False, effect="none"),
        Outcome("a", "row", verify=False, selftest=False, effect="rare"),
    ]
    assert score(outcomes, "verify") == (1, 1)
    assert score(outcomes, "verify", rare=True) == (1, 2)
    assert score(outcomes, "selftest") == (0, 1)
    page = write_page(outcomes)
    assert "| a | row | 3 | 1 | 0 | 1 | 0 | 1 | 1 |" in page
    assert page.endswith("The self-test: **0 of 1** (0.0%; 0.0% of 2).\n")
