"""Damaged files of every format end `modelwheel check` with one sentence about the file, and with nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from modelwheel.model.readings import OnnxReading
from modelwheel.workers.endings import WorkerError
from modelwheel.workers.jobs import ReferenceRequest
from tests.models.damaged import Damaged, damaged_files, spec_name, write_specs
from tests.support.commands import Modelwheel
from tests.support.laboratory import Laboratory
from tests.support.onnx_models import model_of

pytestmark = pytest.mark.slow

FILES = list(damaged_files())
_BUGS = re.compile(
    r"internal error|TensorFlow failed|onnx failed|Traceback|in user code|0x[0-9a-f]{6}|process"
)
"""What is said of a failure that nobody expected."""


@pytest.fixture(scope="module")
def said(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `check` says about each file, by its name."""
    specs = write_specs(tmp_path_factory.mktemp("damaged"), FILES)
    rows = modelwheel("check", specs, "--json", code=5).json["models"]
    return {row["model"].removesuffix("-1.0.0"): _text(row) for row in rows}


def _text(row: dict[str, Any]) -> str:
    errors = [finding for finding in row["findings"] if finding["severity"] == "error"]
    return row["error"] or (str(errors[0]["message"]) if errors else "")


@pytest.mark.parametrize("one", FILES, ids=lambda one: one.file)
def test_a_damaged_file(one: Damaged, said: dict[str, str]) -> None:
    text = said[spec_name(one.file)]
    assert one.says in text
    assert not _BUGS.search(text)
    assert "\n" not in text


def test_every_file_is_another(tmp_path: Path) -> None:
    assert len({spec_name(one.file) for one in FILES}) == len(FILES)
    assert len(list(write_specs(tmp_path / "x", FILES).iterdir())) == len(FILES)


def test_a_crash_of_what_evaluates_a_model_names_the_node(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    # ONNX Runtime ends its process where Split leaves an output out.
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="first"),
        helper.make_node("Split", ["r"], ["y", ""], name="halves", axis=1),
    ]
    model = model_of(nodes, {"x": np.zeros((2, 4), np.float32)}, opset=13)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    request = ReferenceRequest(
        reading=OnnxReading(file="m.onnx"), signature="serving_default", batch_sizes=()
    )
    with pytest.raises(WorkerError) as caught:
        laboratory.run(request.job(tmp_path, laboratory.new_directory()))
    assert re.fullmatch(
        r"while the ONNX model was evaluated, the worker process crashed with signal \d+ \(SIG\w+\) at Split "
        r"'halves'.*; ONNX Runtime itself fails at this file: correct Split 'halves', or export the model again",
        str(caught.value),
    )
