"""Which elements of sorted outputs decide nothing, because rounding makes their scores equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from modelwheel.compiler.reference.ranked import find_disputed
from modelwheel.compiler.reference.truth.noise import Case, conversion_error, find_noise

Array = np.ndarray[Any, Any]

PLACES = 16
SCORES = np.linspace(0.9, 0.1, PLACES)
BOXES = np.random.default_rng(1).uniform(0.0, 640.0, (2, PLACES, 4))


def detections(scores: Array, boxes: Array = BOXES) -> Array:
    """Two images' boxes, each with its score and its place in the first list as a class: [2, 16, 6]."""
    columns = np.broadcast_to(np.stack([scores, np.arange(PLACES)], axis=-1), (2, PLACES, 2))
    return np.asarray(np.concatenate([boxes, columns], axis=-1), np.float32)


def swapped(values: Array, place: int) -> Array:
    """With the boxes and classes of two places the other way round; the scores of both are sorted in either order."""
    order = np.arange(PLACES)
    order[[place, place + 1]] = place + 1, place
    columns = values[:, order, :4], values[:, :, 4:5], values[:, order, 5:]
    return np.asarray(np.concatenate(columns, axis=-1))


def near(place: int) -> Array:
    """Scores of which two are equal but for their last place."""
    scores: Array = SCORES.copy()
    scores[place + 1] = np.nextafter(np.float32(scores[place]), np.float32(0))
    return scores


def test_what_stands_beside_equal_scores_decides_nothing_and_the_scores_do() -> None:
    values = detections(near(5))
    mask = find_disputed({"y": values}, {"y": values}, {}, "y")
    assert mask is not None
    places = [5, 6, PLACES - 1]  # what follows the last one is not known
    assert sorted(set(np.nonzero(mask)[1])) == places
    assert mask[:, places][:, :, [0, 1, 2, 3, 5]].all()
    assert not mask[:, :, 4].any()


def test_boxes_follow_the_scores_of_another_output() -> None:
    values = detections(near(5))
    outputs = {"boxes": values[:, :, :4], "scores": values[:, :, 4], "classes": values[:, :, 5] > 4}
    for name, count in (("boxes", 2 * 3 * 4), ("classes", 2 * 3), ("scores", 0)):
        mask = find_disputed(outputs, outputs, {}, name)
        assert mask is not None
        assert np.count_nonzero(mask) == count, name


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((2, PLACES, 6), np.float32),
        detections(np.random.default_rng(2).permutation(SCORES)),
        detections(SCORES)[:, :4],
        detections(SCORES)[0, :, 4],
    ],
    ids=["all the same", "in no order", "too few", "one axis"],
)
def test_what_no_score_sorts(values: Array) -> None:
    # The class is sorted too where scores are not: what stands beside it is as decided as it is.
    mask = find_disputed({"y": values[..., :5] if values.ndim > 1 else values}, {}, {}, "y")
    assert mask is None


def test_two_places_that_rounding_swaps_are_no_error_of_the_conversion() -> None:
    ours = {"y": detections(near(5))}
    exact = {"y": swapped(ours["y"].astype(np.float64), 5)}
    moved = {"y": np.abs(ours["y"] - exact["y"])}
    assert moved["y"].max() > 10
    given = Case(ours, exact, moved, {"y": 1}).sorted_by_scores()
    noise = find_noise(given.without_exact("y"), "y", "ONNX Runtime")
    assert conversion_error(given, "y", noise, "ONNX Runtime") is None
    assert noise.sensitive is None
    assert str(noise.clause).startswith(f"{2 * 3 * 5} of {2 * PLACES * 6} values")
    assert noise.allowed[np.isfinite(noise.allowed)].max() < 1e-3


def test_two_places_that_rounding_does_not_swap_are_one() -> None:
    ours = {"y": detections(SCORES)}
    exact = {"y": swapped(ours["y"].astype(np.float64), 5)}
    moved = {"y": np.full(ours["y"].shape, 1e-6)}
    given = Case(ours, exact, moved, {"y": 1}).sorted_by_scores()
    noise = find_noise(given.without_exact("y"), "y", "ONNX Runtime")
    assert conversion_error(given, "y", noise, "ONNX Runtime") is not None


def test_a_score_that_differs_is_one() -> None:
    ours = {"y": detections(near(5))}
    exact = {"y": ours["y"].astype(np.float64)}
    exact["y"][1, 5, 4] += 0.02
    given = Case(ours, exact, {"y": np.full(ours["y"].shape, 1e-6)}, {"y": 1}).sorted_by_scores()
    noise = find_noise(given.without_exact("y"), "y", "ONNX Runtime")
    assert conversion_error(given, "y", noise, "ONNX Runtime") is not None
