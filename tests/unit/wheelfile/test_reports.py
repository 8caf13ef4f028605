"""What is stored beside a wheel: written, read again, and refused where it is not valid."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from modelwheel.errors import WheelError
from modelwheel.wheelfile.reports import (
    BENCH_SUFFIX,
    MAX_REPORT,
    REPORT_SUFFIX,
    Comparison,
    Report,
    Timing,
    fastest,
    read_companions,
    read_report,
    read_timings,
    write_report,
    write_timings,
)


def compare(absolute: float, limit: float) -> Comparison:
    return Comparison(
        level="x86-64", rows=4, rule="4:4", output="scores", absolute=absolute, relative=0.5,
        limit=limit, passed=absolute <= limit,
    )  # fmt: skip


def time(rows: int, nanoseconds: float) -> Timing:
    return Timing(level="x86-64", rows=rows, rule=f"{rows}:{rows}", nanoseconds=nanoseconds)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    wheel = tmp_path / "model_a-1-py3-none-any.whl"
    assert (read_report(wheel), read_timings(wheel), read_companions(wheel)) == (None, (), {})
    report = Report(passed=True, comparisons=(compare(0.1, 1.0),), skipped={"x86-64-v4": "no"})
    timings = (time(1, 10.5), time(4, 20.0))
    write_report(report, wheel)
    write_timings(timings, wheel)
    assert read_report(wheel) == report
    assert read_timings(wheel) == timings
    assert list(read_companions(wheel)) == [REPORT_SUFFIX, BENCH_SUFFIX]


def test_infinite_errors_are_read_again(tmp_path: Path) -> None:
    wheel = tmp_path / "model_a-1-py3-none-any.whl"
    # As the self-test reports an output where only one side is NaN.
    report = Report(passed=False, comparisons=(compare(math.inf, 1.0),), skipped={})
    write_report(report, wheel)
    assert read_report(wheel) == report


def test_a_report_of_any_size_is_not_read(tmp_path: Path) -> None:
    wheel = tmp_path / "model_a-1-py3-none-any.whl"
    with (tmp_path / f"{wheel.name}{REPORT_SUFFIX}").open("wb") as file:
        file.truncate(MAX_REPORT + 1)
    with pytest.raises(WheelError, match=r"has more than 16\.8 MB"):
        read_report(wheel)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Invalid JSON"),
        ('[{"level": "x", "rows": 1, "rule": "1:1", "nanoseconds": NaN}]', "0.nanoseconds: "),
        ('[{"level": "x", "rows": 1}]', "0.rule: Field required"),
        ('[{"level": "x", "rows": 1, "rule": "", "nanoseconds": 1, "more": 2}]', "0.more: "),
    ],
)
def test_files_that_are_not_valid(tmp_path: Path, text: str, said: str) -> None:
    wheel = tmp_path / "model_a-1-py3-none-any.whl"
    path = tmp_path / f"{wheel.name}{BENCH_SUFFIX}"
    path.write_text(text)
    with pytest.raises(WheelError) as caught:
        read_timings(wheel)
    assert f"{path}: {said}" in str(caught.value)
    assert "`modelwheel report`" in str(caught.value)


def test_the_worst_comparison_is_the_one_closest_to_its_limit() -> None:
    compared = (compare(5.0, 100.0), compare(0.5, 1.0), compare(0.0, 0.0))
    assert Report(passed=True, comparisons=compared, skipped={}).worst == compared[1]
    exact = (*compared, compare(1e-9, 0.0))  # a limit of 0 allows no error at all
    assert Report(passed=False, comparisons=exact, skipped={}).worst == exact[-1]
    assert Report(passed=False, comparisons=(), skipped={}).worst is None


def test_the_fastest_of_several_rounds() -> None:
    rounds = [(time(1, 5.0), time(4, 9.0)), (time(1, 6.0), time(4, 7.0))]
    assert fastest(rounds) == (time(1, 5.0), time(4, 7.0))
    assert fastest([]) == ()


def test_a_variable_is_told_from_an_output_of_its_name() -> None:
    output = compare(0.1, 1.0)
    variable = output.model_copy(update={"state": True})
    assert (output.label, variable.label) == ("scores", "state scores")
