"""Attention with masks: one step for each, and wheels that compute what the model does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from modelwheel.levels import cpu_level, host_levels
from modelwheel.program.ops import While
from modelwheel.program.program import Program
from modelwheel.program.walk import walk
from tests.support.commands import Modelwheel
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow

_LEVEL = host_levels()[-1].name
_MASKS = 7
_SPEC = """\
model: {{name: masks, version: "1.0.0", description: A test.}}
source: {{directory: {directory}}}
targets: [{level}]
compilation: {{batch_sizes: [1, 4]}}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel with attention of every kind."""
    directory = tmp_path_factory.mktemp("attention") / "masks"
    run_script("attention", directory)
    return directory


@pytest.mark.parametrize("batch", [1, 4])
def test_every_attention_is_one_step(
    laboratory: Laboratory, model: Path, tmp_path: Path, batch: int
) -> None:
    here = Laboratory(model.parent, tmp_path, laboratory.pool)
    out = here.compile("masks", here.freeze("masks", batch=batch), _LEVEL)
    steps = Program.load(out / "program.json").steps
    assert Counter(step.op.kind for step in steps)["attention"] == _MASKS
    # Layers may be a loop, each iteration of which finds the mask that is before it.
    (loop,) = (step for step in steps if isinstance(step.op, While))
    kinds = Counter(step.op.kind for step in walk(loop.regions[-1]))
    assert kinds["attention"] == 1
    assert not kinds["mask"]


def test_a_wheel_computes_what_the_model_does(
    modelwheel: Modelwheel, model: Path, tmp_path: Path
) -> None:
    spec = tmp_path / "masks.yaml"
    spec.write_text(_SPEC.format(directory=model, level=cpu_level().name), encoding="utf-8")
    (result,) = modelwheel("build", "--json", "--out", tmp_path / "dist", spec).json
    assert result["report"]["passed"]
