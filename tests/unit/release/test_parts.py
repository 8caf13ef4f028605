"""Whose part of an error is whose, as cells and as a plot."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.accuracy import Deviation, Truth
from modelwheel.release.parts import PART_COLUMNS, Parts, part_cells, parts_of, plot_parts
from modelwheel.wheelfile.reports import Comparison, Report


def deviate(relative: float, output: str = "y", **changes: object) -> Deviation:
    fields = {"output": output, "rows": 4, "absolute": relative, "relative": relative}
    return Deviation.model_validate({**fields, **changes})


def compare(relative: float, level: str, **changes: object) -> Comparison:
    fields = {
        "output": "y", "rows": 4, "absolute": relative, "relative": relative, "level": level,
        "rule": "4:4", "limit": 1.0, "passed": True, "exact": True,
    }  # fmt: skip
    return Comparison.model_validate({**fields, **changes})


REPORT = Report(
    passed=True,
    skipped={},
    comparisons=(
        compare(4e-6, "x86-64"),
        compare(8e-6, "x86-64-v3"),
        compare(0.5, "x86-64", circumstance="highest"),
        compare(0.1, "x86-64", output="inexact", exact=False),
    ),
    truth=Truth(
        framework=(deviate(2e-6), deviate(0.3, circumstance="highest")), xla=(deviate(6e-6),)
    ),
)


def test_parts_are_those_of_ordinary_rows() -> None:
    (parts,) = parts_of("digits", REPORT)
    assert parts == Parts("digits", "y", 2e-6, 6e-6, 8e-6, "x86-64-v3")
    assert parts.shares == pytest.approx((0.25, 0.5, 0.25))
    assert part_cells(parts) == (
        *("digits", "y", "2.0e-06", "6.0e-06", "8.0e-06", "x86-64-v3"),
        *("25%", "50%", "25%"),
    )
    assert len(part_cells(parts)) == len(PART_COLUMNS)


def test_a_wheel_may_be_more_exact_than_tensorflow() -> None:
    assert Parts("a", "y", 2e-6, 3e-6, 1e-6, "x86-64").shares == (1.0, 0.0, 0.0)
    assert Parts("a", "y", 0.0, None, 0.0, "x86-64").shares == (0.0, None, 0.0)
    unmeasured = Parts("a", "y", 1e-7, None, 4e-7, "x86-64")
    assert unmeasured.shares[1] is None
    assert part_cells(unmeasured)[7:] == ("", "75%")


def test_the_plot_has_every_output(tmp_path: Path) -> None:
    parts = [*parts_of("digits", REPORT), Parts("exact", "z", 0.0, None, 0.0, "x86-64")]
    plot_parts(parts, tmp_path / "errors.svg")
    text = (tmp_path / "errors.svg").read_text(encoding="utf-8")
    assert all(words in text for words in ("digits: y", "exact: z", "TensorFlow with XLA"))
