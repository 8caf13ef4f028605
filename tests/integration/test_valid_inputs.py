"""Inputs that make sense: valid values from the graph, rows of real data, and what failures say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.accuracy import notes_on
from modelwheel.compiler.reference.samples import read_calls
from modelwheel.errors import UnsupportedModelError
from modelwheel.model.inspection import Inspection, Mask, SignatureInfo, TensorInfo
from modelwheel.model.readings import GraphDefReading
from modelwheel.model.reference_result import Reference
from modelwheel.workers.jobs import InspectRequest, ReferenceRequest
from tests.support.commands import Modelwheel
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow

VALID = {
    "array": "0 <= x < 40 (ResourceGather in 'scan/while')",
    "branch": "0 <= x < 40 (ResourceGather in 'cond')",
    "cast_from_float": "0 <= x < 40 (ResourceGather in 'words')",
    "choice": "0 <= x < 3 (StatelessCase in 'switch_case')",
    "clipped": "-1 <= x < 41 (ResourceGather in 'words')",
    "clipped_below": "-1 <= x < 40 (ResourceGather in 'words')",
    "column": "0 <= x[1] < 40 (ResourceGather in 'words')",
    "columns": "0 <= x[1] < 40, 0 <= x[2] < 10, 0 <= x[3] < 40 (ResourceGather in 'words')",
    "constant_table": "0 <= x < 10 (GatherV2 in 'GatherV2')",
    "doubled": "0 <= x < 20 (ResourceGather in 'words')",
    "float_only": "None",
    "function": "0 <= x < 40 (ResourceGather in 'words')",
    "joined": "0 <= x[0:2] < 40, 0 <= x[3:6] < 40 (ResourceGather in 'words')",
    "lengths": "1 <= x < 10 (Less in 'SequenceMask')",
    "long_lengths": "1 <= x < 701 (Less in 'SequenceMask')",
    "open_lengths": "1 <= x < 9 (Less in 'Less')",
    "loop": "0 <= x < 40 (ResourceGather in 'while')",
    "modulo": "-40 <= x < 80 (ResourceGather in 'words')",
    "no_index": "0 <= x < 10 (Cast in 'Cast')",
    "offsets": "0 <= x < 15 (ResourceGather in 'words')",
    "one_hot": "0 <= x < 7 (OneHot in 'one_hot')",
    "one_minus": "0 <= x < 40 (ResourceGather in 'words')",
    "padding_masked": "0 <= x < 40, mask 3 (ResourceGather in 'words')",
    "plus_one": "-1 <= x < 39 (ResourceGather in 'words')",
    "relu_then_index": "None",
    "reshaped": "0 <= x < 40 (ResourceGather in 'words')",
    "rounded_float": "-0.5 <= x < 39.5 (ResourceGather in 'words')",
    "rows_masked": "mask -1 (NotEqual in 'NotEqual')",
    "scattered": "0 <= x < 12 (ScatterNd in 'ScatterNd')",
    "second_axis": "0 <= x < 10 (GatherV2 in 'GatherV2')",
    "small_type": "0 <= x < 128 (GatherV2 in 'GatherV2')",
    "two_tables": "0 <= x < 10 (GatherV2 in 'GatherV2')",
    "variable_table": "0 <= x < 40 (ResourceGather in 'words')",
    "wrapped": "0 <= x < 40 (ResourceGather in 'words')",
    "wrapped_float": "0 <= x < 40 (ResourceGather in 'words')",
    "pixels": "0 <= x < 255 (Sub in 'sub')",
    "bytes": "None",
    "halved_in_turns": "None",
    "squared": "None",
    "added": "0 <= x < 10 (Cast in 'Cast')",
    "divisor": "1 <= x < 256 (FloorDiv in 'floordiv')",
    "shifted": "0 <= x < 8 (RightShift in 'RightShift')",
    "threshold": "mask 100, 101 (Greater in 'Greater')",
    "turns": "1 <= x < 4 (Less in 'while')",
    "mask_added": "0 <= x < 2 (Mul in 'mul')",
    "logarithm": "0.0009765625 <= x < 1 (Log in 'Log')",
    "hashed": "None",
    "compared_floats": "-2 <= x < 125 (Greater in 'Greater')",
    "clipped_floats": "-2 <= x < 7.5 (Minimum in 'clip_by_value')",
    "pairs": "-4 <= x < 8 (GatherNd in 'GatherNd')",
}
"""What follows for the input of each signature of `tests/models/index_inputs.py`."""

_SPEC = """\
model: {{name: {name}, version: "1.0.0", serving_key: {key}}}
source: {{directory: {directory}}}
targets: [x86-64]
compilation: {{batch_sizes: [1, 4]}}
verify: {verify}
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of all signatures, with files of rows beside its own."""
    directory = tmp_path_factory.mktemp("tables") / "model"
    run_script("index_inputs", directory)
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 40, (5, 6)).astype(np.int32)
    np.savez(directory / "rows.npz", x=rows)
    np.savez(directory / "misnamed.npz", y=rows)
    np.savez(directory / "more.npz", x=rows, y=rows)
    np.savez(directory / "wide.npz", x=rows.astype(np.int64))
    np.savez(directory / "short.npz", x=rows[:, :5])
    np.savez(directory / "single.npz", x=rows[:1])
    np.savez(directory / "outside.npz", x=rows + 20)
    np.savez(directory / "objects.npz", x=np.array([[{}] * 6] * 5, dtype=object))
    (directory / "damaged.npz").write_bytes((directory / "rows.npz").read_bytes()[:-30])
    return directory


@pytest.fixture(scope="module")
def inspected(tables: Path, laboratory: Laboratory) -> Inspection:
    """What is known about the model before it is loaded."""
    out = laboratory.run(InspectRequest().job(tables, laboratory.new_directory()))
    return Inspection.load(out / "inspection.json")


def refer(laboratory: Laboratory, tables: Path, key: str, **fields: Any) -> dict[str, Any]:
    """The arrays of a reference."""
    fields = {"signature": key, "batch_sizes": (1, 4), **fields}
    request = ReferenceRequest.model_validate(fields)
    out = laboratory.run(request.job(tables, laboratory.new_directory()))
    with np.load(out / "reference.npz") as arrays:
        return dict(arrays)


def test_valid_values_follow_from_the_graph(inspected: Inspection) -> None:
    found = {s.key: str(s.inputs[0].valid) for s in inspected.signatures}
    columns = found.pop("standardised")
    assert found == VALID
    tables = {s.key: s.tables for s in inspected.signatures}
    assert {(t.rows, t.input) for t in tables["hashed"]} == {(40, "x")}
    assert [(t.rows, t.input) for t in tables["pairs"]] == [(40, "")]
    # Each column has its own mean and deviation.
    assert columns.startswith("5.53589838486225 <= x[0] < 12.4641016151378, -5.866")


def test_integers_are_drawn_from_their_whole_type(laboratory: Laboratory, tables: Path) -> None:
    arrays = refer(laboratory, tables, "squared", rows=(200,))
    assert len(np.unique(arrays["in/x"])) > 250
    assert {-128, 127} <= set(np.unique([arrays[f"in@{kind}/x"] for kind in ("lowest", "highest")]))


def test_integers_that_tensorflow_refuses_are_0_and_1_and_the_reference_says_so(
    laboratory: Laboratory, tables: Path
) -> None:
    request = ReferenceRequest(signature="hashed", batch_sizes=(1, 4))
    out = laboratory.run(request.job(tables, laboratory.new_directory()))
    summary = Reference.load(out / "reference.json")
    assert summary.ranges == {"x": (0, 2)}
    assert "TensorFlow fails in layer 'words'" in summary.truth.narrowed["x"]
    (said, *_) = [line for line in notes_on(summary.truth) if "'x'" in line]
    assert said.startswith("Input 'x' is compared on the integers 0 and 1 only: TensorFlow fails")


def test_valid_values_of_a_frozen_graph(laboratory: Laboratory, tables: Path) -> None:
    feeds, fetches = {"tokens": "tokens:0"}, {"rows": "rows:0"}
    reading = GraphDefReading(file="graph.pb", feeds=feeds, fetches=fetches)
    request = InspectRequest(reading=reading)
    out = laboratory.run(request.job(tables, laboratory.new_directory()))
    (signature,) = Inspection.load(out / "inspection.json").signatures
    assert str(signature.inputs[0].valid) == "2 <= x < 19 (GatherV2 in 'rows')"


def test_random_rows_hold_masked_values(laboratory: Laboratory, tables: Path) -> None:
    masks = {"x": (Mask(value=-1.0, axes=1),)}
    given = refer(laboratory, tables, "rows_masked", masks=masks)["in/x"]
    held = np.all(given == -1.0, axis=-1)
    assert 0 < held.sum() < held.size
    assert np.array_equal(held, np.any(given == -1.0, axis=-1))


def test_rows_of_a_file_are_repeated(laboratory: Laboratory, tables: Path) -> None:
    arrays = refer(laboratory, tables, "variable_table", samples="rows.npz")
    with np.load(tables / "rows.npz") as file:
        assert np.array_equal(arrays["in/x"], np.resize(file["x"], arrays["in/x"].shape))
    assert len(arrays["out/7/y"]) == 7


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("absent.npz", "it is not among the model's files"),
        ("misnamed.npz", "it has no array for the input 'x'"),
        ("more.npz", "'y' is not an input of the signature (its inputs: 'x')"),
        ("wide.npz", "input 'x' has the type int64, but the model takes int32"),
        ("short.npz", "input 'x' has the shape [5, 5], but the model takes [rows, 6]"),
        ("single.npz", "it has less than 2 rows"),
        ("objects.npz", "holds Python objects"),
        ("damaged.npz", "it is damaged or not an .npz file"),
    ],
)
def test_other_files_are_refused(
    laboratory: Laboratory, tables: Path, file: str, said: str
) -> None:
    with pytest.raises(
        UnsupportedModelError, match=f"verify.samples: .{re.escape(file)}"
    ) as caught:
        refer(laboratory, tables, "variable_table", samples=file)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((1, 2, 6), "it has 1 calls in a row (axis 0 of every array), but 2 to 64 are needed"),
        ((65, 2, 6), "it has 65 calls in a row"),
        ((3, 0, 6), "it has no rows"),
        ((3, 6), "input 'x' has the shape [6], but the model takes [rows, 6]"),
    ],
)
def test_other_calls_are_refused(tmp_path: Path, shape: tuple[int, ...], said: str) -> None:
    np.savez(tmp_path / "calls.npz", x=np.zeros(shape, np.int32))
    x = TensorInfo(name="x", dtype="int32", shape=(None, 6))
    signature = SignatureInfo(key="call", inputs=(x,), outputs=())
    with pytest.raises(UnsupportedModelError) as caught:
        read_calls(tmp_path / "calls.npz", signature, {"x": (4, 6)}, ["x"])
    assert said in str(caught.value)


def test_a_failure_names_the_value_and_the_row(laboratory: Laboratory, tables: Path) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        refer(laboratory, tables, "variable_table", samples="outside.npz")
    assert re.fullmatch(
        r"TensorFlow fails in layer 'words': the value \d+ at \[0, \d\] of input 'x' is not one of the valid "
        r"ones, 0 <= x < 40 \(ResourceGather in 'words'\); correct the rows of verify.samples",
        str(caught.value),
    )


@pytest.fixture(scope="module")
def built(
    modelwheel: Modelwheel, tables: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """Builds one wheel with derived ranges and masks, one with rows of a file, and one that fails."""
    work = tmp_path_factory.mktemp("built")
    for name, key, verify in (
        ("derived", "padding_masked", '{rows: 20, ranges: {"x[0]": [0, 9], "x[4:6]": [1, 5]}}'),
        ("sampled", "variable_table", "{samples: rows.npz}"),
        ("failing", "variable_table", "{ranges: {x: [90, 99]}}"),
    ):
        text = _SPEC.format(name=name, key=key, directory=tables, verify=verify)
        (work / f"{name}.yaml").write_text(text, encoding="utf-8")
    results = modelwheel.build(work, "--out", work / "dist", code=UnsupportedModelError.exit_code)
    return {entry["model"]: entry for entry in results}, work


@pytest.mark.parametrize("name", ["derived", "sampled"])
def test_a_wheel_tests_itself_with_the_same_inputs(
    built: tuple[dict[str, Any], Path], tmp_path: Path, name: str
) -> None:
    outcome = built[0][f"{name}-1.0.0"]
    assert outcome["errors"] == []
    assert outcome["report"]["passed"]
    # In another store: only the sample in the wheel is there to compare with.
    (verified,) = Modelwheel(tmp_path / "cache")("verify", "--json", outcome["wheel"]).json
    assert verified["report"]["passed"]
    assert verified["whole_reference"] is False


def test_nothing_is_compiled_for_inputs_that_tensorflow_refuses(
    built: tuple[dict[str, Any], Path],
) -> None:
    outcome = built[0]["failing-1.0.0"]
    (error,) = outcome["errors"]
    assert error["step"] == "failing-1.0.0/reference"
    assert "set verify.ranges.x: [0, 40] in the spec" in error["message"]
    assert not any("linux-x86_64" in step for step in outcome["run"])
