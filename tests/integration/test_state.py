"""Models whose calls write variables, from TensorFlow to the installed wheel: state in each object."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.accuracy import BOUNDARIES
from tests.support.commands import Modelwheel
from tests.support.laboratory import SHARED_MODELS, run_script
from tests.support.pages import ROOT, blocks
from tests.support.static_arena import run_trapped
from tests.support.tools import path_without_python
from tests.support.wheels import LOWEST, unpack

pytestmark = pytest.mark.slow

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}}}
targets: [{level}]
keep_state: true
"""

_MORE = {
    "places": "compilation: {batch_sizes: [1, 3]}\n",
    "stream": "verify: {samples: calls.npz}\n",
}
_CALLS = {"places": 6, "stream": 9}
_DTLN = SHARED_MODELS / "dtln"


@pytest.fixture(scope="module")
def built(
    modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """The outcome of building all models, by name; their packages can be imported."""
    work = tmp_path_factory.mktemp("state")
    run_script("stateful", work)
    models = {"places": work / "places", "stream": work / "stream"}
    frames = np.random.default_rng(7).normal(size=(_CALLS["stream"], 1, 6, 3)).astype(np.float32)
    np.savez(work / "stream" / "calls.npz", frames=frames)
    if _DTLN.is_dir():
        models["dtln"] = _DTLN / "saved_model"
    for name, directory in models.items():
        text = _SPEC.format(name=name, directory=directory, level=LOWEST) + _MORE.get(name, "")
        (work / f"{name}.yaml").write_text(text, encoding="utf-8")
    results = modelwheel.build("--out", work / "dist", *(work / f"{name}.yaml" for name in models))
    outcome = {entry["model"].removesuffix("-1.0.0"): entry for entry in results}
    for entry in outcome.values():
        if entry["wheel"]:
            unpack(Path(entry["wheel"]), work / "packages")
    sys.path.append(str(work / "packages"))
    yield outcome
    sys.path.remove(str(work / "packages"))


@pytest.mark.parametrize("name", ["places", "stream"])
def test_calls_in_a_row_are_as_in_tensorflow(built: dict[str, Any], name: str) -> None:
    report = built[name]["report"]
    assert report["passed"]
    ordinary = [one for one in report["comparisons"] if one["circumstance"] is None]
    outputs = [one for one in ordinary if not one["state"]]
    assert {one["call"] for one in outputs} == set(range(_CALLS[name]))
    states = [one for one in ordinary if one["state"]]
    expected = {spec.name for spec in __import__(f"model_{name}").Model.states}
    assert {one["output"] for one in states} == expected
    assert {one["call"] for one in states} == {_CALLS[name] - 1}


@pytest.mark.usefixtures("built")
def test_the_document_describes_state() -> None:
    """The block of docs/consumers.md, with the model `places`."""
    page = ROOT / "docs" / "consumers.md"
    (block,) = (one for one in blocks(page, "python") if "model_denoiser" in one.text)
    spec = __import__("model_places").Model.inputs[0]
    shape = [3 if extent is None else extent for extent in spec.shape]
    names: dict[str, Any] = {"stream": [np.ones(shape, spec.dtype)] * 2}
    names["model_places"] = __import__("model_places")
    exec(block.text.replace("model_denoiser", "model_places"), names)  # noqa: S102 - of a document
    for name, value in names["twin"].state.items():
        np.testing.assert_array_equal(value, names["saved"][name])


def test_errors_of_calls_in_a_row_are_attributed(built: dict[str, Any]) -> None:
    """XLA starts from the same first state, and keeps its own from call to call."""
    report = built["places"]["report"]
    truth = report["truth"]
    assert (truth["missing"], truth["xla_missing"], truth["without"]) == (None, None, {})
    for who in (truth["framework"], truth["xla"], report["comparisons"]):
        errors = {
            one["call"]: one["relative"]
            for one in who
            # XLA compiles the largest batch size.
            if (one["output"], one["rows"], one["circumstance"]) == ("coarse", 3, None)
        }
        assert errors.keys() == set(range(_CALLS["places"]))
        assert all(1e-7 < error < 1e-2 for error in errors.values())  # far less than another state


_SIDE = """
import sys
import numpy as np
from modelwheel.bench.sides.tensorflow import TensorFlowSide
frames = {"frames": np.ones((1, 6, 3), np.float32)}
side = TensorFlowSide(sys.argv[1], 1, jit=sys.argv[2] == "jit")
results = []
for number in range(4):
    call, read = side.bind(frames) if number < 2 else side.plain()
    given = () if number < 2 else (frames,)
    results.append(read(call(*given)))
    assert any((read(call(*given))[name] != value).any() for name, value in results[-1].items())
for other in results[1:]:
    assert all((other[name] == value).all() for name, value in results[0].items())
"""


@pytest.mark.parametrize("kind", ["plain", "jit"])
def test_tensorflow_begins_with_the_first_state_in_benchmarks(
    kind: str, built: dict[str, Any]
) -> None:
    model = Path(built["stream"]["wheel"]).parents[1] / "stream"
    command = [sys.executable, "-c", _SIDE, str(model), kind]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["places", "stream"])
def test_other_orders_resets_and_copies_change_nothing(built: dict[str, Any], name: str) -> None:
    report = built[name]["report"]
    ways = [one for one in report["comparisons"] if one["circumstance"] not in (None, *BOUNDARIES)]
    half = _CALLS[name] // 2
    calls = {
        "in reverse order": set(range(half)),
        "after a reset": {0},
        "on a copy": set(range(half, _CALLS[name])),
    }
    for way, expected in calls.items():
        assert {one["call"] for one in ways if one["circumstance"] == way} == expected
    assert {one["circumstance"] for one in ways if one["state"]} == {"on a copy"}
    # Zeros are the first call in a row from the first state on.
    assert "zeros" in {one["circumstance"] for one in report["comparisons"]}


def test_a_copy_that_shares_its_state_is_noticed(built: dict[str, Any]) -> None:
    assert built["stream"]["wheel"]
    selftest = __import__("model_stream._selftest")._selftest

    class Shared(selftest.Model):  # type: ignore[misc,name-defined]
        def copy(self) -> Any:
            return self

    model = Shared()
    found = [
        one
        for copy, sample in selftest.other_orders(model, selftest.load_samples())
        for one in selftest._compare(copy, sample)
    ]
    assert {one.circumstance for one in found if not one.passed} == {"on a copy"}


def test_another_state_than_tensorflows_is_noticed(built: dict[str, Any], tmp_path: Path) -> None:
    assert built["stream"]["wheel"]
    selftest = __import__("model_stream._selftest")._selftest
    carried = Path(selftest.__file__).with_name("_reference.npz")
    with np.load(carried) as file:
        arrays = dict(file)
    # The wheel carries the inputs of every call, as there are few.
    comparisons, _ = selftest.compare_all()
    assert {one.call for one in comparisons if one.circumstance not in BOUNDARIES} == set(
        range(_CALLS["stream"])
    )
    assert all(one.passed for one in comparisons)
    arrays["sample/state/1/cell/Variable_2"][3] += 1e-3
    np.savez(tmp_path / "changed.npz", **arrays)
    comparisons, _ = selftest.compare_all(reference=tmp_path / "changed.npz")
    failed = [one for one in comparisons if not one.passed]
    assert [(one.output, one.state, one.call, one.circumstance) for one in failed] == [
        ("cell/Variable_2", True, 8, None),
        ("cell/Variable_2", True, 8, "on a copy"),
    ]


def test_every_written_variable_that_outputs_depend_on_is_state(built: dict[str, Any]) -> None:
    assert built["places"]["wheel"]
    model = __import__("model_places").Model()
    before = model.state
    # Not the one that no output depends on; the weights are constants.
    assert {name: array.shape for name, array in before.items() if array.shape} == {
        name: before[name].shape for name in before if before[name].ndim
    }
    assert sorted(array.shape for array in before.values()) == [
        (), (), (), (2,), (2,), (4,), (5, 4),
    ]  # fmt: skip
    model(np.ones((3, 4), np.float32))
    assert all(not np.array_equal(before[name], array) for name, array in model.state.items())
    with pytest.raises(
        ValueError, match="only its compiled batch sizes, not 2 rows: it keeps state"
    ):
        model(np.ones((2, 4), np.float32))


def test_variables_of_one_name_are_told_apart(built: dict[str, Any]) -> None:
    assert built["stream"]["wheel"]
    model = __import__("model_stream").Model()
    assert list(model.state) == ["cell/Variable", "cell/Variable_2"]
    frames = np.random.default_rng(1).normal(size=(4, 1, 6, 3)).astype(np.float32)
    whole = [model(frame) for frame in frames]
    model.reset()
    model(frames[0])
    other = model.copy()
    other.state = dict(model.state)
    assert other(frames[1]).tobytes() == whole[1].tobytes() == model(frames[1]).tobytes()


@pytest.mark.skipif(not _DTLN.is_dir(), reason=f"{_DTLN} is absent")
def test_a_published_stream_gives_its_recorded_outputs(built: dict[str, Any]) -> None:
    assert built["dtln"]["report"]["passed"]
    model = __import__("model_dtln").Model()
    with np.load(_DTLN / "io.npz") as arrays:
        given, expected = arrays["stream/in"], arrays["stream/out"]
    found = np.stack([model(frame) for frame in given])
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_the_tests_in_the_source_pass_on_a_stateful_wheel(
    built: dict[str, Any], tmp_path: Path
) -> None:
    """Those of state and of all other calls, which travel with every source distribution."""
    assert built["places"]["wheel"]
    template = Path(__file__).parents[2] / "wheel_template/package/tests"
    for name in ("test_model.py", "test_process.py", "test_state.py"):
        (tmp_path / name).write_bytes((template / name).read_bytes())
    conftest = (template / "conftest.py.in").read_text(encoding="utf-8")
    conftest = conftest.replace("{{ module }}", "model_places")
    conftest = conftest.replace('{{ interfaces | join(" ") }}', "c cpp python")
    (tmp_path / "conftest.py").write_text(conftest)
    environment = {**os.environ, "PYTHONPATH": sys.path[-1]}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.exhaustive
def test_state_with_a_static_arena_allocates_nothing(
    modelwheel: Modelwheel, built: dict[str, Any], tmp_path: Path
) -> None:
    modelwheel("bundle", built["places"]["spec"], "--static-arena", "--out", tmp_path)
    (tmp_path / "path").mkdir()
    path = path_without_python(tmp_path / "path")
    printed = run_trapped(tmp_path / "model_places-1.0.0", tmp_path, path)
    assert "\npassed\n" in printed
    assert printed.count("  hash ") >= _CALLS["places"]
