"""Rows that are evaluated a few at a time: the same outputs as at once, and no more memory than there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from modelwheel.compiler.reference.truth.missing import NoTruthError
from modelwheel.compiler.reference.truth.pieces import find_pieces
from modelwheel.model.reference_result import Reference

_LARGE = 1 << 25
"""Elements of a value of 256 MB in float64."""


def _summary(*, independent: bool = True) -> Reference:
    return Reference(
        independent=independent,
        reason=None if independent else "because",
        leading_per_row={"y": 1, "z": 2},
        batched_inputs=("x",),
        rows=(1, 7),
    )


def test_all_rows_of_calls_are_evaluated_in_pieces_of_the_same_shape() -> None:
    pieces = find_pieces(_LARGE, _summary(), 7)
    assert pieces.is_split
    seen: list[tuple[int, ...]] = []

    def evaluate(calls: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        seen.extend(call["x"].shape for call in calls)
        return [{"y": c["x"] * c["b"], "z": c["x"].repeat(2, 0)} for c in calls]

    calls = [{"x": np.arange(7.0) + 10 * n, "b": np.array([2.0])} for n in range(3)]
    found = pieces.run(evaluate, calls)
    assert set(seen) == {(3,)}
    for call, outputs in zip(calls, found, strict=True):
        np.testing.assert_array_equal(outputs["y"], 2 * call["x"])
        np.testing.assert_array_equal(outputs["z"], call["x"].repeat(2))
    assert pieces.first(calls[0])["x"].shape == (3,)


def test_rows_that_are_the_same_are_evaluated_once() -> None:
    pieces = find_pieces(_LARGE, _summary(), 7)
    seen: list[float] = []

    def evaluate(calls: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        seen.extend(value for call in calls for value in call["x"])
        return [{"y": c["x"] * 2, "z": c["x"].repeat(2, 0)} for c in calls]

    x = np.array([3.0, 5, 3, 4, 5, 3, 3])
    (found,) = pieces.run(evaluate, [{"x": x}])
    assert seen == [3, 5, 4]
    np.testing.assert_array_equal(found["y"], 2 * x)
    np.testing.assert_array_equal(found["z"], x.repeat(2))


@pytest.mark.parametrize(
    ("elements", "independent"), [(1 << 20, True), (_LARGE, False)], ids=["small", "dependent"]
)
def test_small_graphs_and_dependent_rows_are_evaluated_at_once(
    elements: int, independent: bool
) -> None:
    pieces = find_pieces(elements, _summary(independent=independent), 7)
    assert not pieces.is_split
    calls = [{"x": np.zeros(7)}]
    assert pieces.run(lambda given: given, calls) == calls


def test_more_memory_than_there_is_is_a_reason_and_not_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = "modelwheel.compiler.reference.truth.pieces._memory_left"
    monkeypatch.setattr(left, lambda: 1e8)
    with pytest.raises(
        NoTruthError, match=r"a row needs some 0\.5 GB in float64, and 0\.1 GB are left"
    ):
        find_pieces(_LARGE, _summary(), 7).run(lambda given: given, [{"x": np.zeros(7)}])
