"""The outcome of a build: an expected error becomes part of it, any other is a bug and gets through."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.errors import WheelError
from modelwheel.release.outcome import record_outcome
from modelwheel.util.records import as_json
from modelwheel.wheelfile.reports import Timing, read_timings, write_timings

SDIST = Path("model_a-1.0.tar.gz")


def fail_with(error: Exception) -> tuple[Path, ...]:
    raise error


def test_wheels() -> None:
    outcome = record_outcome(SDIST, lambda: (Path("a.whl"),))
    assert (outcome.wheels, outcome.error) == ((Path("a.whl"),), None)


def test_wheels_get_the_times_of_the_framework(tmp_path: Path) -> None:
    sdist, wheel = tmp_path / SDIST, tmp_path / "a.whl"
    ours = Timing(level="x86-64-v3", rows=1, rule="1:1", nanoseconds=5.0)
    theirs = Timing(level="", rows=1, rule="", nanoseconds=70.0, framework="TensorFlow 9")
    write_timings([theirs], sdist)
    write_timings([ours], wheel)
    assert record_outcome(sdist, lambda: (wheel,)).error is None
    assert read_timings(wheel) == (ours, theirs)


def test_times_that_are_damaged_are_an_error_before_anything_is_built(tmp_path: Path) -> None:
    sdist = tmp_path / SDIST
    sdist.with_name(f"{SDIST}.bench.json").write_text("{")
    outcome = record_outcome(sdist, lambda: fail_with(KeyError("built")))
    assert "Remove it" in str(outcome.error)


def test_an_error_is_part_of_the_outcome() -> None:
    outcome = record_outcome(SDIST, lambda: fail_with(WheelError("the compiler failed")))
    assert as_json(outcome) == {
        "sdist": "model_a-1.0.tar.gz",
        "wheels": [],
        "seconds": outcome.seconds,
        "error": "the compiler failed",
    }


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(KeyError):
        record_outcome(SDIST, lambda: fail_with(KeyError("x")))
