"""The record of errors, and its one form in tables."""

from __future__ import annotations

import math

from modelwheel.accuracy import (
    COLUMNS,
    Deviation,
    Truth,
    lines_of,
    notes_on,
    truth_lines,
    worst_of,
)


def deviate(
    output: str = "y", rows: int = 4, absolute: float = 0.25, **changes: object
) -> Deviation:
    fields = {"output": output, "rows": rows, "absolute": absolute, "relative": absolute / 2}
    return Deviation.model_validate({**fields, **changes})


def test_a_line_holds_the_largest_of_all_evaluations() -> None:
    found = [
        deviate(rows=1, ulp=3.0, changed=2),
        deviate(rows=2, absolute=0.5, ulp=1.5, changed=0),
        deviate(rows=3, absolute=0.1),
        deviate("z", rows=7),
    ]
    first, second = lines_of("TensorFlow", found)
    assert first == ("y", "TensorFlow", "1-3", "5.00e-01", "2.50e-01", "3", "2")
    assert second == ("z", "TensorFlow", "7", "2.50e-01", "1.25e-01", "", "")
    assert len(first) == len(COLUMNS)


def test_boundaries_and_ways_of_calling_have_lines_of_their_own() -> None:
    found = [
        deviate(rows=4),
        deviate(rows=1, circumstance="zeros", absolute=8.0),
        deviate(rows=1, circumstance="nan"),
        deviate(rows=16, circumstance="beside extreme rows", absolute=0.0),
    ]
    rows = [(line[2], line[3]) for line in lines_of("wheel", found)]
    assert rows == [
        ("4", "2.50e-01"), ("zeros, nan", "8.00e+00"), ("16 beside extreme rows", "0.00e+00"),
    ]  # fmt: skip
    assert worst_of(found)["y"].rows == 4
    assert worst_of(found, "zeros")["y"].absolute == 8
    note = "Rows of NaN were not compared: output 'y' differs"
    assert note in notes_on(Truth(undefined={"nan": "output 'y' differs"}))


def test_frameworks_and_xla_have_lines() -> None:
    truth = Truth(framework=(deviate(),), xla=(deviate(), deviate("z")))
    assert [line[:2] for line in truth_lines(truth)] == [
        ("y", "TensorFlow"), ("y", "TensorFlow with XLA"), ("z", "TensorFlow with XLA"),
    ]  # fmt: skip
    ((_, framework, *_),) = truth_lines(Truth(evaluator="ONNX Runtime", framework=(deviate(),)))
    assert framework == "ONNX Runtime"


def test_what_could_not_be_measured_is_a_sentence() -> None:
    truth = Truth(without={"z": "why not"}, xla_missing="it keeps state")
    assert list(notes_on(truth)) == [
        "Output 'z' is compared with float32: why not",
        "Not measured with XLA: it keeps state",
    ]
    assert list(notes_on(Truth())) == []
    assert "float64 reference: half" in next(notes_on(Truth(missing="half")))


def test_what_is_not_compared_is_a_sentence() -> None:
    truth = Truth(narrow={"y": "float16"}, undecided={"z": "1 of 4 rows, which change"})
    assert list(notes_on(truth)) == [
        "Values of output 'y' pass through float16: at least 4 units in the last place of float16 are allowed",
        "Part of output 'z' was not compared: 1 of 4 rows, which change",
    ]


def test_rounding_has_the_scale_of_what_an_output_can_be() -> None:
    truth = Truth(
        scales={"share": 1.0, "half": 1.0}, narrow={"half": "float16", "wide": "bfloat16"}
    )
    assert truth.least_allowed("share", 1e-5, 1e-3) == 2.0**-23
    # A spec that allows less allows less.
    assert truth.least_allowed("share", 1e-9, 1e-3) == 1e-9
    assert truth.least_allowed("half", 1e-5, 0.5) == 4 * 2.0**-10
    assert truth.least_allowed("wide", 1e-5, 8.0) == 8 * 4 * 2.0**-7
    assert truth.least_allowed("unknown", 1e-5, 8.0) == 0.0


def test_infinite_errors_are_read_again() -> None:
    infinite = deviate(absolute=math.inf, ulp=math.inf)
    assert Deviation.model_validate_json(infinite.to_json()) == infinite
