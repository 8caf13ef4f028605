"""What `build` and `verify` print of a wheel's errors."""

from __future__ import annotations

import pytest

from modelwheel.accuracy import Deviation, Truth
from modelwheel.cli.display import comparisons
from modelwheel.wheelfile.reports import Comparison, Report


def compared(level: str, absolute: float, limit: float = 1e-6, **changes: object) -> Comparison:
    values = {
        "output": "y",
        "rows": 7,
        "level": level,
        "rule": "7:7",
        "absolute": absolute,
        "relative": absolute,
        "limit": limit,
        "passed": absolute <= limit,
        **changes,
    }
    return Comparison.model_validate(values)


def report_of(*found: Comparison) -> Report:
    truth = Truth(
        framework=(Deviation(output="y", rows=7, absolute=1e-7, relative=1e-7),),
        undefined={"infinity": "XLA returns finite numbers where TensorFlow does not"},
    )
    return Report(passed=all(c.passed for c in found), comparisons=found, skipped={}, truth=truth)


FINE = report_of(
    compared("x86-64-v2", 1e-9),
    compared("x86-64-v3", 2e-9),
    compared("x86-64-v3", 1.2e-8, rows=1),
)


def test_one_line_for_each_level(capsys: pytest.CaptureFixture[str]) -> None:
    comparisons.print_comparisons(FINE)
    assert capsys.readouterr().out.splitlines() == [
        "  x86-64-v2 ok, 0.1 % of the tolerance",
        "  x86-64-v3 ok, 1.2 % of the tolerance",
        "  note Rows of infinity were not compared: XLA returns finite numbers where TensorFlow does not",
    ]


def test_the_whole_table_is_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    comparisons.print_comparisons(FINE, table=True)
    shown = capsys.readouterr().out
    assert "max abs error" in shown
    assert "TensorFlow" in shown
    assert "of the tolerance" not in shown


def test_what_is_exceeded_is_named() -> None:
    found = [
        compared("x86-64-v3", 1e-9),
        compared("x86-64-v3", 3.4e-6, circumstance="highest"),
        compared("x86-64-v3", 2e-6, output="z"),
    ]
    assert comparisons.level_text(found) == (
        "340 % of the tolerance (y and 1 other output, 7 rows, highest)"
    )


@pytest.mark.parametrize(
    ("absolute", "limit", "text"),
    [
        (0.0, 0.0, "no difference"),
        (1.0, 0.0, "1, and no difference is allowed"),
        (float("inf"), 1.0, "only one of two values is finite"),
        (1e-12, 1e-6, "less than 0.01 % of the tolerance"),
        (0.5, 1.0, "50.0 % of the tolerance"),
    ],
)
def test_shares_that_are_no_ordinary_percentage(absolute: float, limit: float, text: str) -> None:
    assert comparisons.share_text(compared("x86-64", absolute, limit)) == text
