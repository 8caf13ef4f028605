"""Whether rows depend on each other, where float32 is noisy: float64 says it."""

from __future__ import annotations

from typing import Any

import numpy as np

from modelwheel.compiler.worker.rows import Arrays, Rows, check_again, check_rows

_RANDOM = np.random.default_rng(2)
ROWS, OTHER = (
    Rows({"x": _RANDOM.normal(size=(8, 3)).astype(np.float32)}, frozenset({"x"})) for _ in "ab"
)


def noisy(inputs: Arrays) -> Arrays:
    """The number of rows changes results by far more than one rounding, as another order of sums may."""
    x = inputs["x"]
    return {"y": (x * (1 + 1e-2 * np.sin(len(x)))).astype(np.float32)}


def test_the_noise_of_float32_is_no_dependence() -> None:
    verdict = check_rows(noisy, ROWS, OTHER, {8: noisy(ROWS.arrays)}, ())
    assert verdict.by_values
    assert "when it is alone" in str(verdict.reason)
    assert check_again(lambda inputs: {"y": inputs["x"].astype(np.float64)}, ROWS, OTHER) is None


def test_what_depends_in_float64_depends() -> None:
    def mixed(inputs: Arrays) -> Arrays:
        x: Any = inputs["x"].astype(np.float64)
        return {"y": x + 1e-5 * x.mean()}

    assert "a row of output 'y' changes" in str(check_again(mixed, ROWS, OTHER))


def test_shapes_that_do_not_follow_the_rows_are_no_noise() -> None:
    def constant(inputs: Arrays) -> Arrays:
        return {"y": np.zeros((3, 1), np.float32) + inputs["x"].max()}

    verdict = check_rows(constant, ROWS, OTHER, {8: constant(ROWS.arrays)}, ())
    assert (verdict.reason is not None, verdict.by_values) == (True, False)


def test_without_float64_rows_may_change_by_what_rounding_moves() -> None:
    def mixed(inputs: Arrays) -> Arrays:
        return {"y": noisy(inputs)["y"] + np.float32(0.1) * inputs["x"].mean()}

    moves = {"y": np.full((4, 3), 0.03)}
    assert check_again(noisy, ROWS, OTHER, moves) is None
    assert check_again(mixed, ROWS, OTHER, moves) is not None
    assert check_again(noisy, ROWS, OTHER, {"y": np.full((4, 3), 1e-6)}) is not None
