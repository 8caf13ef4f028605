"""Every kind of step that XLA emits, from TensorFlow to the installed wheel, at several CPU levels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from modelwheel.compiler.program import Program, walk
from tests.support.commands import Modelwheel
from tests.support.laboratory import run_script

pytestmark = pytest.mark.slow

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}}}
targets: {targets}
compilation: {{batch_sizes: {sizes}}}
verify: {{ranges: {{n: [-20, 20]}}}}
package: {{bindings: shared}}
"""

STEPS = {
    "kernel", "dot", "convolution", "sort", "fft", "while", "conditional", "top_k",
}  # fmt: skip
"""What the two models contain between them; copies and random states are tested in C++ alone."""


@pytest.fixture(scope="module")
def built(
    modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """The outcome of building both models, and the directory with every step's files."""
    work = tmp_path_factory.mktemp("operations")
    run_script("operations", work)
    specs = {
        "batched": _SPEC.format(
            name="batched",
            directory=work / "batched",
            targets="[x86-64, x86-64-v4]",
            sizes="[1, 4]",
        ),
        "fixed": _SPEC.format(
            name="fixed", directory=work / "fixed", targets="[x86-64-v3]", sizes="null"
        ).replace("verify: {ranges: {n: [-20, 20]}}", "verify: {ranges: {k: [0, 4]}}"),
        "types": _SPEC.format(
            name="types", directory=work / "types", targets="[x86-64-v3]", sizes="[2]"
        ).replace("n: [-20, 20]", "seed: [-1000, 1000]"),
    }
    for name, text in specs.items():
        (work / f"{name}.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "modelwheel", "build", "--json"]
    command += [str(work / f"{name}.yaml") for name in specs]
    command += ["--out", str(work / "dist"), "--keep-work-dir", str(work / "steps")]
    environment = {**os.environ, "MODELWHEEL_CACHE_DIR": str(modelwheel.cache)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    outcome = {entry["model"]: entry for entry in json.loads(done.stdout)}
    return outcome, work / "steps"


@pytest.mark.parametrize("model", ["batched-1.0.0", "fixed-1.0.0", "types-1.0.0"])
def test_every_operation_agrees_with_tensorflow(
    built: tuple[dict[str, Any], Path], model: str
) -> None:
    outcome, _ = built
    assert outcome[model]["errors"] == []
    report = outcome[model]["report"]
    assert report["passed"], [c for c in report["comparisons"] if not c["passed"]]
    outputs = {comparison["output"] for comparison in report["comparisons"]}
    assert len(outputs) == {"batched-1.0.0": 41, "fixed-1.0.0": 6, "types-1.0.0": 28}[model]


def test_the_models_contain_every_kind_of_step(built: tuple[dict[str, Any], Path]) -> None:
    _, steps = built
    found = {
        thunk.kind
        for path in steps.rglob("program.json")
        for thunk in walk(Program.load(path).thunks)
    }
    assert found >= STEPS
