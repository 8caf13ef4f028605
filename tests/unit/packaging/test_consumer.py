"""What a wheel offers beyond calls: its description, labels, signatures and files of arrays; over a runtime in Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from modelwheel.signature import Signature, Tensor, ValidRange
from tests.support.index_wheels import make_manifest
from tests.support.projects import render_model
from tests.unit.packaging.test_package import RUNTIME, run_python


def _tensor(name: str, identifier: str, dtype: str, shape: tuple[int | None, ...]) -> Tensor:
    return Tensor(name=name, c_name=identifier, dtype=dtype, shape=shape, leading_per_row=1)


_X = _tensor("x", "x", "float32", (None, 2))
_N = _tensor("n 1", "n_1", "int32", (None,)).model_copy(
    update={"valid": (ValidRange(low=1, high=9),)}
)
_Y = _tensor("y", "y", "float32", (None, 2)).model_copy(update={"labels": ("left", "right")})


def _render(directory: Path, *outputs: Tensor, runtime: str = RUNTIME) -> Path:
    signature = Signature(inputs=(_X, _N), outputs=outputs)
    described = make_manifest("digits").model_copy(
        update={"levels": ("x86-64",), "signature": signature}
    )
    project = render_model(directory, "shared", described)
    (project / "python" / "modelwheel_runtime.py").write_text(runtime, encoding="utf-8")
    return project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with one output, whose values have labels."""
    return _render(tmp_path_factory.mktemp("project"), _Y)


def _command(project: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(project / "python")}
    command = [sys.executable, "-m", "model_digits", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


# --- what the package says of itself ----------------------------------------------------------------------


def test_the_description_has_the_interface_and_the_labels(project: Path) -> None:
    script = "import json, model_digits; print(json.dumps(model_digits.about()))"
    about = json.loads(run_python(project / "python", script))
    printed = json.loads(_command(project, "--json").stdout)
    assert about.items() < printed.items()
    assert printed["level"] == "x86-64"
    assert printed["library"].endswith(".so")
    assert [one["name"] for one in about["inputs"]] == ["x", "n 1"]
    assert about["inputs"][1]["valid"] == [{"low": 1.0, "high": 9.0, "columns": None}]
    (output,) = about["outputs"]
    assert (output["shape"], output["labels"]) == ([None, 2], ["left", "right"])


def test_labels_are_a_part_of_the_model(project: Path) -> None:
    script = "from model_digits import Model; print(Model.labels['y'][1], Model().labels is Model.labels)"
    assert run_python(project / "python", script) == "right True\n"
    readme = (project / "README.md").read_text()
    assert "- `y`: left, right" in readme
    assert 'model.labels["y"][row.argmax()]' in readme


def test_signatures_have_the_names_of_the_model(project: Path) -> None:
    script = (
        "import inspect, model_digits as m\n"
        "for one in (m.Model(), m.Model().bind, m.Model.__call__): print(inspect.signature(one))\n"
        "print(m.Model.__call__.__doc__)"
    )
    call, bind, unbound, *doc = run_python(project / "python", script).splitlines()
    assert call == bind == "(x, n_1, *, out=None)"
    assert unbound == "(self, /, x, n_1, *, out=None)"
    assert "    1: n 1: int32 [batch]; 1 <= x < 9" in doc


def test_results_of_several_outputs_have_a_type(tmp_path: Path) -> None:
    project = _render(tmp_path, _Y, _tensor('a "b"', "a_b", "int64", (None,)))
    script = "import typing, model_digits\nprint(list(typing.get_type_hints(model_digits.Outputs)))"
    assert run_python(project / "python", script) == "['y', 'a \"b\"']\n"
    stub = (project / "python/model_digits/__init__.pyi").read_text()
    fields = '{"y": NDArray[np.float32], "a \\"b\\"": NDArray[np.int64]}'
    assert f'Outputs = TypedDict("Outputs", {fields})' in stub
    assert "n_1: ArrayLike, *, out: Outputs | None = None) -> Outputs:" in stub


def test_the_project_says_what_it_is_and_where_it_runs(project: Path) -> None:
    text = (project / "pyproject.toml").read_text()
    assert '[project.entry-points."modelwheel.models"]\n"digits" = "model_digits"\n' in text
    for classifier in ("Programming Language :: C++", "Operating System :: POSIX :: Linux"):
        assert f'"{classifier}"' in text
    assert '"Model source" = "https://example.org/data"' in text


# --- files of arrays --------------------------------------------------------------------------------------


def test_arrays_of_a_file(project: Path, tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.savez(tmp_path / "in.npz", **{"n 1": np.ones(3, np.int32), "x": x})  # type: ignore[arg-type]
    done = _command(project, "run", tmp_path / "in.npz", tmp_path / "out.npz")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'out.npz'}: y [3, 2]\n"
    with np.load(tmp_path / "out.npz") as found:
        assert found.files == ["y"]
        assert np.array_equal(found["y"], 2 * x + 1)
    assert _command(project, "run", tmp_path / "in.npz", tmp_path / "out.npy").returncode == 0
    assert np.array_equal(np.load(tmp_path / "out.npy"), 2 * x + 1)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("lacks.npz", "out.npz", "lacks.npz lacks the input 'n 1'; it has 'm'"),
        ("more.npz", "out.npz", "more.npz has 'm', which is not an input; the inputs are: x, n 1"),
        ("one.npy", "out.npz", "one.npy: the model has 2 inputs; use a file .npz"),
        ("junk.npz", "out.npz", "junk.npz is not a file of arrays; numpy.savez(...) writes"),
        ("cut.npz", "out.npz", "cut.npz cannot be read: "),
        ("objects.npz", "out.npz", "objects.npz cannot be read: Object arrays cannot be loaded"),
        ("absent.npz", "out.npz", "[Errno 2] No such file or directory: 'absent.npz'"),
        ("in.txt", "out.npz", "in.txt: the name of a file of arrays ends in .npz or .npy"),
        ("good.npz", "no/out.npz", "no/out.npz: there is no directory no"),
        ("good.npz", "out.json", "out.json: the name of a file of arrays ends in"),
    ],
)
def test_files_that_cannot_be_used(
    project: Path, tmp_path: Path, source: str, target: str, message: str
) -> None:
    x, n = np.ones((1, 2), np.float32), np.ones(1, np.int32)
    files = {
        "good": {"x": x, "n 1": n},
        "lacks": {"x": x, "m": n},
        "more": {"x": x, "n 1": n, "m": n},
        "objects": {"x": np.array([{}], object), "n 1": n},
    }
    for name, arrays in files.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    np.save(tmp_path / "one.npy", x)
    (tmp_path / "junk.npz").write_bytes(b"x")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "good.npz").read_bytes()[:100])
    (tmp_path / "out.npz").write_bytes(b"before")
    environment = {**os.environ, "PYTHONPATH": str(project / "python")}
    command = [sys.executable, "-m", "model_digits", "run", source, target]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {message}"), done.stderr
    assert (tmp_path / "out.npz").read_bytes() == b"before"
    assert not list(tmp_path.glob("**/*.part"))
