"""What is known about models before anything is compiled: errors of a conversion, rows that decide nothing, scales."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.support.laboratory import run_script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    """What `tests/models/judged.py` finds."""
    said: dict[str, Any] = json.loads(run_script("judged"))
    return said


def test_a_conversion_that_loses_a_finite_row_is_an_error(judged: dict[str, Any]) -> None:
    lost = judged["lost"]
    assert lost["converted"] == {
        "y": "on rows of zeros, Another and float64 are finite in other places"
    }
    # The wheel is compared with the framework there, not with its own conversion.
    assert "zeros" not in lost["undefined"]
    assert "out/1@zeros/y" in lost["defined"]
    assert "exact/1@zeros/y" not in lost["defined"]
    assert judged["kept"]["converted"] == {}
    assert "exact/1@zeros/y" in judged["kept"]["defined"]


def test_a_conversion_with_other_weights_is_an_error(judged: dict[str, Any]) -> None:
    said = judged["weights"]["converted"]["y"]
    assert said == judged["weights"]["without"]["y"]
    assert "more than rounding explains" in said
    for name in ("right", "half", "shares", "nan"):
        assert judged[name]["converted"] == {}


def test_rounding_in_between_is_no_error_of_the_conversion(judged: dict[str, Any]) -> None:
    loudness = judged["loudness"]
    assert loudness["converted"] == {}
    assert loudness["undefined"]["zeros"] == "rounding decides what they are"
    assert loudness["without"] == {}


def test_nan_that_a_maximum_leaves_out_is_no_error_of_the_conversion(
    judged: dict[str, Any],
) -> None:
    spectrum = judged["spectrum"]
    assert spectrum["converted"] == {}
    assert spectrum["undefined"]["zeros"] == (
        "Another returns finite numbers where float64 does not"
    )


def test_nan_decides_nothing(judged: dict[str, Any]) -> None:
    nan = judged["nan"]
    assert nan["undecided"] == {
        "shares": "4 of 16 values, which are NaN in Another",
        "best": "1 of 4 values, in rows with NaN in Another",
    }
    assert np.isinf(nan["noise"]["noise/4/best"]).tolist() == [False, False, True, False]
    assert np.isinf(nan["noise"]["noise/4/shares"]).any(1).tolist() == [False, False, True, False]
    assert nan["without"] == {}
    # Boundary rows are full of ties, which the framework and float64 decide alike.
    assert {"out/1@lowest/best", "out/1@highest/best"} <= set(nan["defined"])
    assert not any(name.endswith("/best") and "noise" in name for name in nan["defined"])


def test_outputs_say_what_they_can_be(judged: dict[str, Any]) -> None:
    for name in ("shares", "half", "lost", "chosen"):
        assert judged[name]["scales"] == {"y": 1.0}
    assert judged["right"]["scales"] == {}
    assert judged["half"]["narrow"] == {"y": "float16"}
    # Some units of float16, measured by weights and inputs that differ by one.
    (moved,) = judged["half"]["moved"]
    assert 2.0**-12 < moved["absolute"] < 2.0**-6
    assert {rows["output"] for rows in judged["shares"]["framework"]} == {"y"}


def test_float64_says_whether_rows_are_independent(judged: dict[str, Any]) -> None:
    assert judged["independence"] == [True, False]


def test_a_right_library_may_add_long_sums_in_any_order(judged: dict[str, Any]) -> None:
    # Far more than the usual tolerance, and a small part of what rounding may move.
    assert judged["long"]["of tolerance"] > 2
    assert 0.03 < judged["long"]["of allowed"] < 0.25


def test_rows_of_large_models_are_evaluated_a_few_at_a_time(judged: dict[str, Any]) -> None:
    assert judged["fits"] == {
        "same": True,
        "leading": {"y": 1},
        "mixed": True,
        "small": 19,
        "large": 4,
        "at_once": 4,
    }


def test_a_graph_is_read_and_compiled_once(judged: dict[str, Any]) -> None:
    assert judged["sessions"] == {
        "module": True,
        "same": True,
        "other": False,
        "right": [True, True],
        "outside": False,
    }
