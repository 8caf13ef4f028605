"""Valid values of inputs in what a wheel says, and `Model(check_values=True)`, over a runtime written in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.signature import Signature, Tensor, ValidRange
from tests.support.index_wheels import make_manifest
from tests.support.projects import render_model
from tests.unit.packaging.test_package import RUNTIME, run_python

IMPORTS = "import pickle\nimport numpy as np\nfrom model_digits import Model\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of a model with bounds for all of `n 1`, and for a column of x."""
    x = Tensor(
        name="x",
        c_name="x",
        dtype="float32",
        shape=(None, 2),
        leading_per_row=1,
        valid=(ValidRange(low=0, high=8, columns=(1, 2)),),
    )
    n = Tensor(
        name="n 1",
        c_name="n_1",
        dtype="int32",
        shape=(None,),
        leading_per_row=1,
        valid=(ValidRange(low=0, high=9000),),
        special=(-1,),
    )
    y = Tensor(name="y", c_name="y", dtype="float32", shape=(None, 2), leading_per_row=1)
    described = make_manifest("digits").model_copy(
        update={"levels": ("x86-64",), "signature": Signature(inputs=(x, n), outputs=(y,))}
    )
    made = render_model(tmp_path_factory.mktemp("project"), "shared", described)
    (made / "python" / "modelwheel_runtime.py").write_text(RUNTIME, encoding="utf-8")
    return made


def _run(project: Path, script: str) -> str:
    return run_python(project / "python", IMPORTS + script)


def test_the_readme_and_the_header_say_what_is_valid(project: Path) -> None:
    readme = (project / "README.md").read_text()
    assert "- `n 1`: `0 <= x < 9000 or x = -1`" in readme
    assert "- `x`: `0 <= x[..., 1] < 8`" in readme
    assert "check_values=True" in readme
    header = next(project.rglob("model_digits.h")).read_text()
    assert "valid: 0 <= x < 9000 or x = -1;" in header


def test_specs_have_the_bounds(project: Path) -> None:
    found = _run(project, "print([spec.valid for spec in (*Model.inputs, *Model.outputs)])")
    assert found == (
        "[(ValidRange(low=0.0, high=8.0, columns=(1, 2)),), "
        "(ValidRange(low=0.0, high=9000.0, columns=None),), ()]\n"
    )


def test_help_says_what_is_valid(project: Path) -> None:
    found = _run(project, "print(Model.__doc__)")
    assert "0: x: float32 [batch, 2]; 0 <= x[..., 1] < 8\n" in found
    assert "1: n 1: int32 [batch]; 0 <= x < 9000\n" in found


@pytest.mark.parametrize(
    ("x", "n", "said"),
    [
        ("[[1, 2]]", "[9000]", "input 'n 1' holds 9000 at [0]; valid values are 0 <= x < 9000 or x = -1"),
        ("[[1, 2], [1, 2]]", "[5, -2]", "input 'n 1' holds -2 at [1]; valid values are 0 <= x < 9000 or x = -1"),
        ("[[1, 2], [1, 8]]", "[5, 5]", "input 'x' holds 8.0 at [1, 1]; valid values are 0 <= x[..., 1] < 8"),
        ("[[np.nan, 2]]", "[5]", "input 'x' holds nan at [0, 0]; valid values are finite"),
        ("[[1, np.inf]]", "[5]", "input 'x' holds inf at [0, 1]; valid values are finite"),
    ],
)  # fmt: skip
def test_calls_refuse_other_values_if_asked_to(project: Path, x: str, n: str, said: str) -> None:
    found = _run(
        project,
        f"given = (np.array({x}, np.float32), np.array({n}, np.int32))\n"
        "Model()(*given)\n"
        "checked = Model(check_values=True)\n"
        "calls = [checked, pickle.loads(pickle.dumps(checked)), checked.copy(),\n"
        "    lambda *a: checked(*(one.tolist() for one in a)),\n"
        "    lambda *a: checked.predict({'x': a[0], 'n 1': a[1]}),\n"
        "    lambda *a: checked(*a, out=np.zeros_like(a[0])),\n"
        "    lambda *a: checked.bind(*a)()]\n"
        "for call in calls:\n"
        "    try:\n"
        "        call(*given)\n"
        "    except ValueError as error:\n"
        "        print(error)\n",
    )
    assert found.splitlines() == [f"digits: {said}"] * 7


def test_valid_values_pass(project: Path) -> None:
    """Also special ones, other columns, and what only the evaluator refuses."""
    found = _run(
        project,
        "checked = Model(check_values=True)\n"
        "x, n = np.array([[-99, 7.5]], np.float32), np.array([-1], np.int32)\n"
        "print(checked(x, n).tolist(), checked.level, checked.batch_rule(2))\n"
        "print(checked(x[:0], n[:0]).shape)\n",
    )
    assert found == "[[-199.0, 14.0]] x86-64 2:1,1\n(0, 2)\n"


def test_nothing_is_checked_unless_asked_for(project: Path) -> None:
    assert _run(project, "print(type(Model()._evaluator).__name__)") == "Evaluator\n"
