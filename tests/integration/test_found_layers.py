"""Attention, layer normalisation, GELU and softmax are found in the models of each front end: the table in docs/fusions.md."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modelwheel.levels import cpu_level, host_levels
from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.model.fusions.registry import registered
from modelwheel.model.inspection import Shape
from modelwheel.program.program import Program
from tests.support.commands import Modelwheel
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow

_FILES = {
    "jax": {"format": "stablehlo", "file": "jax.jax"},
    "jax_symbolic": {"format": "stablehlo", "file": "jax_symbolic.jax"},
    "jax_saved": {"format": "saved_model"},
    "onnx": {"format": "onnx", "file": "onnx.onnx"},
    "torch": {"format": "stablehlo", "file": "torch.mlir"},
}
"""How each is read; a SavedModel is a directory of its own."""
_FREE = frozenset({"jax_symbolic", "jax_saved"})
"""Whose batch is free."""
_OF_JAX = {
    "attention": 3,
    "masked_attention": 1,
    "gelu": 1,
    "gelu_tanh": 1,
    "layer_norm": 2,
    "rms_norm": 1,
    "softmax": 1,
}
_REPLACED: Mapping[str, Mapping[str, int]] = {
    **dict.fromkeys(("jax", "jax_symbolic", "jax_saved"), _OF_JAX),
    "onnx": {
        "attention": 3,
        "masked_attention": 2,
        "gelu": 2,
        "gelu_tanh": 2,
        "layer_norm": 2,
        "rms_norm": 2,
        "softmax": 2,
    },
    "torch": {"attention": 2, "gelu": 1, "gelu_tanh": 1, "layer_norm": 1, "softmax": 1},
}
"""By front end and pattern."""
_STEPS = {
    "jax": {"attention": 4, "gelu": 1, "gelu_tanh": 1},
    "jax_symbolic": {"attention": 4, "gelu": 1, "gelu_tanh": 1},
    "jax_saved": {"attention": 4, "gelu": 1, "gelu_tanh": 1},
    "onnx": {"attention": 5, "gelu": 2, "gelu_tanh": 2},
    "torch": {"attention": 2, "gelu": 1, "gelu_tanh": 1},
}
"""What is one step, or part of a product, in the machine code of any model."""
_LEVEL = host_levels()[-1].name
_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}, path: {file}}}
targets: [{level}]
compilation: {{{more}}}
package: {{bindings: shared}}
"""


def _is_here(front_end: str) -> bool:
    """Whether the packages that write its model are installed: those of all but one always are."""
    return front_end != "torch" or importlib.util.find_spec("torch_mlir") is not None


def _cell(front_end: str, what: str) -> Any:
    """The parameters of a test, which skips what needs a package that is not installed."""
    marks = pytest.mark.skipif(not _is_here(front_end), reason="torch-mlir is not installed")
    return pytest.param(front_end, what, marks=marks, id=f"{front_end}-{what}")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the models."""
    directory = tmp_path_factory.mktemp("layers")
    for front_end in ("jax", "onnx", "torch"):
        if _is_here(front_end):
            run_script("found_layers", front_end, directory)
    return directory


def _frozen(laboratory: Laboratory, work: Path, front_end: str, *fusions: str) -> Path:
    here = Laboratory(work.parent, work / "jobs", laboratory.pool)
    shapes: dict[str, Shape] = {"x": (2, 12, 24)} if front_end == "onnx" else {}
    changes: dict[str, Any] = {
        "batch": 2 if front_end in _FREE else None,
        "reading": _FILES[front_end],
        "shapes": shapes,
        "fusions": [registered(())[f"pattern.{name}"] for name in fusions],
    }
    model = f"{work.name}/{front_end}" if front_end == "jax_saved" else work.name
    return here.freeze(model, **changes)


@pytest.fixture(scope="module")
def replaced(laboratory: Laboratory, work: Path) -> dict[str, dict[str, int]]:
    """How many layers fusions replaced, by front end and pattern."""
    found = {}
    for front_end, patterns in _REPLACED.items():
        if not _is_here(front_end):
            continue
        frozen = FrozenSignature.load(
            _frozen(laboratory, work, front_end, *patterns) / "signature.json"
        )
        found[front_end] = {one.name.partition(".")[2]: one.calls for one in frozen.fusions}
    return found


@pytest.fixture(scope="module")
def steps(laboratory: Laboratory, work: Path) -> dict[str, Counter[str]]:
    """The steps of each front end's machine code without fusions, and the activations of its products."""
    found = {}
    here = Laboratory(work.parent, work / "jobs", laboratory.pool)
    for front_end in filter(_is_here, _STEPS):
        out = here.compile(front_end, _frozen(laboratory, work, front_end), _LEVEL)
        operations = [step.op for step in Program.load(out / "program.json").steps]
        epilogues = [getattr(op, "epilogue", None) for op in operations]
        found[front_end] = Counter(str(op.kind) for op in operations)
        found[front_end].update(str(one.activation) for one in epilogues if one is not None)
    return found


@pytest.mark.parametrize(
    ("front_end", "pattern"),
    [_cell(front_end, pattern) for front_end, row in _REPLACED.items() for pattern in row],
)
def test_fusions_find_a_layer(
    replaced: dict[str, dict[str, int]], front_end: str, pattern: str
) -> None:
    assert replaced[front_end][pattern] == _REPLACED[front_end][pattern]


@pytest.mark.parametrize(
    ("front_end", "step"),
    [_cell(front_end, step) for front_end, row in _STEPS.items() for step in row],
)
def test_the_compiler_finds_a_layer(
    steps: dict[str, Counter[str]], front_end: str, step: str
) -> None:
    assert steps[front_end][step] == _STEPS[front_end][step]


def test_wheels_compute_what_the_models_do(
    modelwheel: Modelwheel, work: Path, tmp_path: Path
) -> None:
    """With the steps that the compiler finds, and with fusions in their place."""
    asked = ", ".join(f"pattern.{name}" for name in _REPLACED["jax"])
    specs = []
    for name, front_end, more in (
        ("plain", "jax", ""),
        ("fused", "jax", f"fusions: [{asked}]"),
        ("torch", "torch", ""),
    ):
        if not _is_here(front_end):
            continue
        specs.append(tmp_path / f"{name}.yaml")
        file = _FILES[front_end]["file"]
        text = _SPEC.format(name=name, directory=work, file=file, level=cpu_level().name, more=more)
        specs[-1].write_text(text, encoding="utf-8")
    built = modelwheel("build", "--json", "--out", tmp_path / "dist", *specs).json
    assert [result["errors"] for result in built] == [[]] * len(specs)
    assert all(result["report"]["passed"] for result in built)
