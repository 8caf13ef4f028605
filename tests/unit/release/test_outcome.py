"""The outcome of a build: an expected error becomes part of it, any other is a bug and gets through."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.errors import WheelError
from modelwheel.release.outcome import record_outcome
from modelwheel.util.records import as_json

SDIST = Path("model_a-1.0.tar.gz")


def fail_with(error: Exception) -> tuple[Path, ...]:
    raise error


def test_wheels() -> None:
    outcome = record_outcome(SDIST, lambda: (Path("a.whl"),))
    assert (outcome.wheels, outcome.error) == ((Path("a.whl"),), None)


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
