"""A race of real processes whose runtimes are small modules: turns, outputs that differ, failures."""

from __future__ import annotations

import shutil
import sys
import weakref
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from modelwheel.bench import side
from modelwheel.bench.compare import FORMATS
from modelwheel.bench.process import Program, SideError
from modelwheel.bench.race import Race, first_difference, run_race
from modelwheel.bench.results import (
    OURS,
    Kind,
    Timing,
    after_silence,
    itself,
    new_arrays,
)
from modelwheel.bench.usage import trace_of
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Policy

_MODULE = """\
import numpy as np

class Spec:
    def __init__(self, name):
        self.name = name

class Model:
    version, inputs, outputs, level = "1.0", (Spec("x"),), (Spec("y"),), "x86-64"

    def __init__(self, level, threads):
        pass

    def reset(self):
        self.calls = 0

    def bind(self, x):
        self.bound = x
        return lambda: self.evaluate(x)

    def __call__(self, x):
        return self.evaluate(x)

    def evaluate(self, x):
        self.calls += 1
        {body}
"""


@pytest.fixture
def race(tmp_path: Path) -> Race:
    """The wheel, and others that are given as modules too: their files would need their runtimes."""
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for rows in (1, 4):
        np.savez(inputs / f"{rows}.npz", x=np.arange(rows * 3, dtype=np.float32).reshape(rows, 3))
    return Race(
        {},
        {"openvino": "not installed"},
        inputs,
        (1, 4),
        {1: "1:1", 4: "4:4"},
        {4: 24},
        None,
        0.02,
        2,
    )


def with_sides(race: Race, directory: Path, **bodies: str) -> Race:
    """Sides whose models compute this. All are of the kind `wheel`, and are called something else in the results."""
    programs: dict[Kind, Program] = {}
    for name, body in bodies.items():
        path = directory / f"bench_{name}.py"
        path.write_text(_MODULE.format(body=body), encoding="utf-8")
        # The module is found because its directory is put on the path first; -I takes PYTHONPATH away.
        starter = directory / f"start_{name}.py"
        arguments = ("wheel", path.stem, "1", "", race.inputs, "1")
        starter.write_text(
            f"import runpy, sys\nsys.path.insert(0, {str(directory)!r})\n"
            f"runpy.run_path({side.__file__!r}, run_name='__main__')\n"
        )
        read = (directory, Path(side.__file__), race.inputs)
        programs[name] = Program(Path(sys.executable), starter, arguments, read, {})  # type: ignore[index]
    fields = {**vars(race), "programs": programs}
    return Race(**fields)


SANDBOX = choose_sandbox(Policy.PREFERRED)


def test_sides_take_turns_and_what_differs_is_not_compared(race: Race, tmp_path: Path) -> None:
    race = with_sides(
        race,
        tmp_path,
        wheel="return x * 2",
        onnxruntime="return x + x",
        litert="return x * 2 + (len(x) == 4) * 0.5",
        xla="raise ValueError('too large\\x1b[31m')",
    )
    finish = run_race(race, SANDBOX, tmp_path / "work")
    found = {one.kind: one for one in finish.sides}
    assert found["openvino"].error == "not installed"
    assert found["xla"].error == r"ValueError: too large\x1b[31m"
    assert found[OURS].version == "1.0"
    assert found[OURS].first_ms is not None
    first, second = finish.cases
    assert finish.trace is None
    assert [cell.kind for cell in first.cells] == [OURS, "onnxruntime", "litert"]
    for cell in first.cells:
        assert cell.us is not None
        assert cell.latency is not None
        assert 0 < cell.us.low <= cell.us.median <= cell.us.high
        assert (cell.ratio is None) == (cell.kind == OURS)
        assert cell.new_arrays is None
    other = second.cell("litert")
    assert other is not None
    assert other.us is None
    assert other.error == "outputs differ: y by 5.0e-01, of 2.2e+01"
    assert second.work == 24
    ours = second.cell(OURS)
    assert ours is not None
    assert ours.gflops is not None


def test_outputs_of_models_with_state_are_those_of_the_first_call(
    race: Race, tmp_path: Path
) -> None:
    race = replace(race, as_programs=True)
    race = with_sides(race, tmp_path, wheel="return x * self.calls", litert="return x")
    for case in run_race(race, SANDBOX, tmp_path / "work").cases:
        other = case.cell("litert")
        assert other is not None
        assert (other.error, other.new_arrays and other.new_arrays.error) == (None, None)


def test_a_wheel_that_fails_ends_the_race(race: Race, tmp_path: Path) -> None:
    race = with_sides(race, tmp_path, wheel="raise MemoryError", litert="return x")
    with pytest.raises(SideError, match="MemoryError"):
        run_race(race, SANDBOX, tmp_path / "work")


def test_calls_are_timed_as_programs_make_them(race: Race, tmp_path: Path) -> None:
    race = replace(race, as_programs=True, trace=(1, 4, 1))
    race = with_sides(
        race,
        tmp_path,
        wheel="return x * 2",
        onnxruntime="return x + x",
        # Right with the array that is bound alone.
        litert="return x * 2 + (x is not self.bound)",
        xla="if x is not self.bound: raise ValueError('bound arrays alone')\n        return x * 2",
    )
    finish = run_race(race, SANDBOX, tmp_path / "work")
    for case in finish.cases:
        ours, theirs = case.cell(OURS), case.cell("onnxruntime")
        assert ours is not None
        assert theirs is not None
        for part in (new_arrays, after_silence):
            own, other = part(ours), part(theirs)
            assert own is not None
            assert other is not None
            assert own.us is not None
            assert own.ratio is None
            assert other.ratio is not None
            assert case.best_ratio(part) == other.ratio
    assert finish.trace is not None
    assert finish.trace.rows == (1, 4, 1)
    assert finish.trace.best == finish.trace.cell("onnxruntime")
    for cells, part in (
        (finish.cases[0], new_arrays),
        (finish.cases[1], after_silence),
        (finish.trace, itself),
    ):
        said = [(part(cell) or Timing()).error for cell in cells.cells[2:]]
        assert said[0] is not None
        assert said[0].startswith("outputs differ: y by 1.0e+00")
        assert said[1] == "ValueError: bound arrays alone"


def test_each_call_gets_arrays_of_its_own() -> None:
    seen: list[side.Arrays] = []
    side.time_new_arrays(seen.append, [{"x": ONES}, {"x": ONES[:1]}, {"x": ONES}])
    arrays = [ONES, *(given["x"] for given in seen)]
    assert [len(array) for array in arrays[1:]] == [2, 1, 2]
    assert not any(np.shares_memory(*pair) for pair in combinations(arrays, 2))


def test_a_trace_has_few_and_many_rows_alike_in_no_order() -> None:
    trace = trace_of(64)
    assert sorted(trace) == sorted([1, 2, 3, 6, 11, 20, 35, 64] * 2)
    assert list(trace) not in (sorted(trace), sorted(trace, reverse=True))
    assert trace == trace_of(64)
    assert trace_of(1) == ()
    assert set(trace_of(64, possible=(1, 16))) == {1, 16}
    assert trace_of(64, possible=(16,)) == ()


ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"y": ONES}, None),
        ({"y": ONES * 1.0005}, None),
        ({"renamed": ONES}, None),
        ({"y": ONES * 1.002}, "outputs differ: y by 2.0e-03, of 1.0e+00"),
        ({"y": ONES[:1]}, "outputs differ: y has shape (1, 3), not (2, 3)"),
        ({"y": ONES * np.nan}, "outputs differ: y is not finite in the same places"),
        ({"z": ONES, "w": ONES}, "it has no output y"),
    ],
)
def test_outputs_that_differ_are_named(theirs: dict[str, object], said: str | None) -> None:
    assert first_difference({"y": ONES}, theirs) == said  # type: ignore[arg-type]


def test_inputs_keep_their_order_where_a_converter_has_renamed_them() -> None:
    inputs = {"b": ONES, "a": ONES * 2}
    assert list(side.named(inputs, {"a": 2, "b": 2})) == ["a", "b"]
    renamed = side.named(inputs, {"x:0": 2, "y:0": 2})
    assert [float(array[0, 0]) for array in renamed.values()] == [1, 2]


def test_other_runtimes_get_what_the_spec_makes_constant(tmp_path: Path) -> None:
    np.savez(tmp_path / "1.npz", wave=ONES)
    np.savez(tmp_path / "constants.npz", sr=np.asarray(16000))
    inputs = side.load(tmp_path, 1)
    of_file = side.named(inputs, {"wave:0": 2, "sr": 1})
    assert list(of_file) == ["wave:0", "sr"]
    assert of_file["sr"].shape == (1,)
    assert of_file["sr"].dtype == np.int64
    assert side.named(inputs, {"wave": 2, "sr": 0})["sr"].shape == ()


class Addresses:
    """Knows where its inputs are, as runtimes with bound buffers do, and keeps them no more than these."""

    version = "1"

    def bind(self, inputs: side.Arrays) -> side.Bound:
        self.seen = weakref.ref(inputs["x"])
        return (lambda: None), (lambda _: {"y": ONES})

    def plain(self) -> side.Plain:
        return (lambda inputs: inputs), (lambda result: result)


def test_inputs_stay_in_memory_until_they_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("4.npz", x=ONES)
    runtime = Addresses()
    server = side.Server(runtime, Path(shutil.copytree(tmp_path, tmp_path / "inputs")))
    server.bind(4)
    assert runtime.seen() is not None
    server.drop(4)
    assert runtime.seen() is None


def test_every_kind_of_side_can_be_started() -> None:
    kinds = {kind for several in FORMATS.values() for kind in several}
    assert {OURS, *kinds} == set(side.RUNTIMES)
