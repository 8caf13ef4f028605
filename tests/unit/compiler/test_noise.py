"""What rounding makes of the rows of an output, and what of them decides nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from modelwheel.compiler.reference.truth.noise import Case, conversion_error, find_noise
from modelwheel.compiler.reference.truth.nudge import nudge

Array = np.ndarray[Any, Any]

EXACT = np.random.default_rng(1).uniform(0.5, 1.0, (8, 4))


def case(errors: Array | float, spread: Array | float) -> Case:
    """An output `y` of eight rows, with errors of the framework and what was measured, for each row."""
    by_row = np.ones((8, 4)) * np.reshape(errors, (-1, 1))
    moved = np.ones((8, 4)) * np.reshape(spread, (-1, 1))
    ours = {"y": (EXACT + by_row).astype(np.float32)}
    return Case(ours, {"y": EXACT}, {"y": moved}, {"y": 1})


def rows(changed: int, value: float, other: float = 1e-6) -> Array:
    """`other` for all rows but the first few."""
    return np.where(np.arange(8) < changed, value, other)


def test_a_row_is_allowed_what_it_moves_and_no_other() -> None:
    noise = find_noise(case(rows(1, 3e-4), rows(1, 2e-4)), "y", "ONNX Runtime")
    assert noise.allowed.shape == (8, 1)
    assert noise.allowed[0] == pytest.approx(3e-4, rel=1e-2)
    assert (noise.allowed[1:] < 2e-6).all()
    assert (noise.clause, noise.sensitive) == (None, None)


def test_an_error_of_the_framework_that_is_no_rounding_is_not_allowed_to_others() -> None:
    noise = find_noise(case(0.02, 1e-6), "y", "TensorFlow")
    assert noise.allowed.max() < 2e-3


def test_a_row_that_changes_in_its_first_digits_decides_nothing() -> None:
    noise = find_noise(case(rows(2, 0.1), rows(2, 0.1)), "y", "ONNX Runtime")
    assert np.isinf(noise.allowed[:2]).all()
    assert np.isfinite(noise.allowed[2:]).all()
    assert (
        noise.clause == "2 of 8 rows, which change if weights and inputs change in their last place"
    )


def test_most_rows_cannot_be_left_out() -> None:
    noise = find_noise(case(rows(5, 0.1), rows(5, 0.1)), "y", "ONNX Runtime")
    assert np.isfinite(noise.allowed).all()
    assert noise.allowed.max() < 2e-3
    assert str(noise.sensitive).startswith("5 of 8 rows")


def test_nan_of_the_framework_decides_nothing_and_neither_do_integers_of_its_row() -> None:
    logits = EXACT.astype(np.float32)
    logits[3] = np.nan
    chosen = logits.argmax(1)
    given = Case({"y": logits, "best": chosen}, {}, {}, {"y": 1, "best": 1})
    assert np.isinf(find_noise(given, "y", "ONNX Runtime").allowed[3]).all()
    noise = find_noise(given, "best", "ONNX Runtime")
    assert np.flatnonzero(np.isinf(noise.allowed)).tolist() == [3]
    assert noise.clause == "1 of 8 values, in rows with NaN in ONNX Runtime"


def test_integers_that_rounding_changes_decide_nothing() -> None:
    chosen = np.arange(8)
    changed = {"best": np.arange(8) == 2}
    given = Case({"best": chosen}, {"best": chosen}, changed, {"best": 1})
    noise = find_noise(given, "best", "TensorFlow")
    assert np.flatnonzero(np.isinf(noise.allowed)).tolist() == [2]


def error_of(given: Case) -> str | None:
    return conversion_error(given, "y", find_noise(given.without_exact("y"), "y", "ORT"), "ORT")


def test_only_what_rounding_does_not_explain_is_an_error_of_the_conversion() -> None:
    assert error_of(case(5e-6, 1e-8)) is None
    assert error_of(case(3e-4, 1e-4)) is None
    assert "more than rounding explains" in str(error_of(case(3e-4, 1e-7)))
    # A sigmoid whose values are small here: float32 has units of 1 in it.
    ours = {"y": (EXACT * 1e-3 + 2e-7).astype(np.float32)}
    tiny = Case(ours, {"y": EXACT * 1e-3}, {}, {"y": 1}, {"y": 1.0})
    assert error_of(tiny) is None
    assert error_of(Case(tiny.ours, tiny.exact, {}, {"y": 1})) is not None
    lost = Case({"y": np.zeros((8, 4), np.float32)}, {"y": np.full((8, 4), np.nan)}, {}, {"y": 1})
    assert error_of(lost) == "ORT and float64 are finite in other places"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_move_by_a_unit_in_their_last_place(dtype: Any) -> None:
    values = np.array([0.3, -1.7, 3.0, 0.0, np.inf], dtype)
    moved = nudge(values, "w", 1)
    assert moved.dtype == dtype
    steps = np.abs(moved[:2].astype(np.float64) - values[:2]) / np.spacing(np.abs(values[:2]))
    assert ((steps >= 1) & (steps <= 2)).all()
    assert (moved[2:] == values[2:]).all()
    assert (moved != nudge(values, "w", 2)).any() or (moved != nudge(values, "w", 3)).any()
