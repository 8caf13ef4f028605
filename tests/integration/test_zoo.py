"""The zoo: models of every kind, compiled and compared with TensorFlow, or refused in one sentence."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from modelwheel.levels import cpu_level, host_levels
from tests.models.zoo.cases import CASES, SUBSET
from tests.models.zoo.page import PAGE, write_page
from tests.models.zoo.visit import Visit, visit
from tests.support.commands import Modelwheel

# Not imported: two copies of LLVM in one process stop it.
_MISSING = [name for name in ("jax", "onnx", "onnxruntime", "tf_keras") if find_spec(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(_MISSING), reason=f"{' and '.join(_MISSING)} is not installed"),
]

STEPS = {
    "kernel", "dot", "convolution", "sort", "fft", "while", "conditional", "top_k",
}  # fmt: skip
"""What the models contain between them; copies and random states are tested in C++ alone."""

EXTREMES = tuple(dict.fromkeys(level.name for level in (host_levels()[0], cpu_level())))
"""The levels of the quick test; `make exhaustive` has all."""


_INTEGERS = (
    *("all_kinds", "only_bools", "random_by_state", "tfcompile_top_k"),
    *(f"tfcompile_add{name}" for name in ("", "_with_ckpt", "_with_ckpt_saver")),
    *(f"tfcompile_{name}" for name in ("assert_eq", "cond", "cond_v1", "function")),
)
WITHOUT_TRUTH = {
    **dict.fromkeys(_INTEGERS, "it does not compute in float32"),
    "half": "Cast computes in float16, whose rounding is part of the model",
    "jax_types": "Placeholder computes in bfloat16, whose rounding is part of the model",
    "random_by_seed": "it uses the bits of float32 numbers (Bitcast)",
    "tf1_saved_again": "RandomUniform draws other numbers in float64",
    "operations": "only bfloat16, float16, matmul_float16",
    "nothing_learned": "only half",
    "element_types": "only first_version, loop, normal_bfloat16, normal_float16, normal_float32, out_bfloat16, "
    "out_float16, uniform_bfloat16, uniform_float16, uniform_float32",
}
"""Why cases, or which of their outputs, are compared with float32 alone."""


@pytest.fixture(scope="module")
def quick(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """What becomes of the subset at the lowest and the highest level."""
    return visit(SUBSET, tmp_path_factory.mktemp("subset"), modelwheel, EXTREMES)


def test_models_of_every_format_agree_with_tensorflow(quick: Visit) -> None:
    assert [result for result in quick.results if not result.as_expected] == []
    assert {result.levels for result in quick.results} == {EXTREMES}
    outputs = {result.case.name: len(result.outputs) for result in quick.results}
    assert (outputs["operations"], outputs["control_flow"], outputs["element_types"]) == (41, 6, 28)


def test_the_models_contain_every_kind_of_step(quick: Visit) -> None:
    assert quick.projects.kinds >= STEPS


def require_truths(visit: Visit) -> None:
    truths = {name: report.truth for name, report in visit.reports.items()}
    found = {
        name: t.missing or f"only {', '.join(sorted(t.without))}" for name, t in truths.items()
    }
    expected = {name: WITHOUT_TRUTH.get(name, "only ") for name in truths}
    assert found == expected


def test_most_outputs_have_a_float64_truth(quick: Visit) -> None:
    require_truths(quick)


@pytest.mark.exhaustive
def test_every_operation_agrees_in_an_installed_wheel(
    quick: Visit, modelwheel: Modelwheel, tmp_path: Path
) -> None:
    """The libraries above are linked without CMake: here is the whole way, with what is compiled already."""
    spec = quick.projects.results["operations"].request.spec.path
    (built,) = modelwheel.build(spec, "--out", tmp_path)
    assert built["report"]["passed"]
    assert not [step for step in built["run"] if "linux" in step]


@pytest.fixture(scope="module")
def whole(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """What becomes of every case at every level."""
    return visit(CASES, tmp_path_factory.mktemp("zoo"), modelwheel)


@pytest.mark.exhaustive
def test_every_case_is_compared_or_refused_as_it_must_be(whole: Visit) -> None:
    assert [result for result in whole.results if not result.as_expected] == []
    for result in whole.results:
        assert "internal error" not in result.refusal, result
        assert "Traceback" not in result.refusal, result
    require_truths(whole)


@pytest.mark.exhaustive
def test_the_page_is_what_became_of_them(whole: Visit) -> None:
    assert sum(max(1, len(result.outputs)) for result in whole.results) >= 120
    assert write_page(whole.results) == PAGE.read_text(encoding="utf-8")
