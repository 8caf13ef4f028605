"""Whether rows depend on each other, where float32 is noisy: float64 says it."""

from __future__ import annotations

from typing import Any

import numpy as np

from modelwheel.compiler.reference.rows import (
    Arrays,
    Change,
    Evaluate,
    Explain,
    Rows,
    check_rows,
    is_the_same,
)

_RANDOM = np.random.default_rng(2)
ROWS, OTHER = (
    Rows({"x": _RANDOM.normal(size=(8, 3)).astype(np.float32)}, frozenset({"x"})) for _ in "ab"
)


def noisy(inputs: Arrays) -> Arrays:
    """The number of rows changes results by far more than one rounding, as another order of sums may."""
    x = inputs["x"]
    return {"y": (x * (1 + 1e-2 * np.sin(len(x)))).astype(np.float32)}


def by_float64(evaluate: Evaluate) -> Explain:
    def explain(rows: Rows, whole: Arrays, change: Change, changed: Arrays) -> bool:
        assert whole["y"].dtype == changed["y"].dtype == np.float32
        return is_the_same(rows, evaluate(rows.arrays), change, evaluate(change.rows.arrays))

    return explain


def by_noise(noise: float) -> Explain:
    def explain(rows: Rows, whole: Arrays, change: Change, changed: Arrays) -> bool:
        return is_the_same(rows, whole, change, changed, {"y": np.full(whole["y"].shape, noise)})

    return explain


def reason(evaluate: Evaluate, explain: Explain | None = None) -> str | None:
    return check_rows(evaluate, ROWS, OTHER, {8: evaluate(ROWS.arrays)}, (3,), explain).reason


def test_the_noise_of_float32_is_no_dependence() -> None:
    assert "a row of output 'y' changes in a batch of 3 instead of 8" in str(reason(noisy))
    assert reason(noisy, by_float64(lambda inputs: {"y": inputs["x"].astype(np.float64)})) is None


def test_what_depends_in_float64_depends() -> None:
    def mixed(inputs: Arrays) -> Arrays:
        x: Any = inputs["x"].astype(np.float64)
        return {"y": x + 1e-5 * x.mean()}

    assert "a row of output 'y' changes" in str(reason(noisy, by_float64(mixed)))


def test_a_dependence_that_few_rows_show_is_seen_beside_noise() -> None:
    # Only among all of the other rows does the sum of a column have another sign.
    largest = float(OTHER.arrays["x"][::2].sum() + ROWS.arrays["x"][1::2].sum())

    def exact(inputs: Arrays) -> Arrays:
        x: Any = inputs["x"].astype(np.float64)
        return {"y": x + (abs(x.sum() - largest) < 1e-4)}

    def model(inputs: Arrays) -> Arrays:
        return {"y": noisy(inputs)["y"] + (exact(inputs)["y"] - inputs["x"]).astype(np.float32)}

    assert "when other rows are replaced" in str(reason(model, by_float64(exact)))


def test_shapes_that_do_not_follow_the_rows_are_no_noise() -> None:
    def constant(inputs: Arrays) -> Arrays:
        return {"y": np.zeros((3, 1), np.float32) + inputs["x"].max()}

    def never(rows: Rows, whole: Arrays, change: Change, changed: Arrays) -> bool:
        raise AssertionError((rows, whole, change, changed))

    assert "does not grow with the batch" in str(reason(constant, never))


def test_without_float64_rows_may_change_by_what_rounding_moves() -> None:
    def mixed(inputs: Arrays) -> Arrays:
        return {"y": noisy(inputs)["y"] + np.float32(0.5) * inputs["x"].mean()}

    assert reason(noisy, by_noise(0.1)) is None
    assert reason(mixed, by_noise(0.1)) is not None
    assert reason(noisy, by_noise(1e-6)) is not None


def test_noise_is_asked_about_once_for_each_kind_of_change() -> None:
    asked = []

    def explain(rows: Rows, whole: Arrays, change: Change, changed: Arrays) -> bool:
        asked.append((rows, whole, change, changed))
        return True

    assert reason(noisy, explain) is None
    # For fewer rows, and for one of three that are alone; nothing else changes them.
    assert len(asked) == 2
