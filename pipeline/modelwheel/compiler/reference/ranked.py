"""Finds what of sorted outputs decides nothing: which of two scores that rounding makes equal comes first.

Detectors that need no suppression (YOLOv10, YOLO26) return the best K of all boxes, the best first. Most of the K are
next to nothing, and two of these that differ in their last place change places from one right program to another, with
all that stands beside them. The scores themselves do not: the second largest number is as large in either order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...model.measuring import widen
from .rows import Arrays

Array = np.ndarray[Any, Any]

_LEAST = 8
"""Of fewer scores, or fewer different ones, chance sorts some."""

_APART = 8
"""So many times what rounding moves, two scores are apart whatever it does to both: a draw seldom moves one the furthest."""


def find_disputed(ours: Arrays, exact: Arrays, spread: Arrays, name: str) -> Array | None:
    """The elements of an output that stand beside scores that are equal but for rounding; None if no score sorts it.

    Args:
        ours: All outputs, by the framework.
        exact: In float64, as far as it is known.
        spread: See `measure_spread`.
        name: The output, of which axis 1 is the place.
    """
    values = ours[name]
    scores = max(_scores(ours, values.shape[:2]), key=lambda found: found.distinct, default=None)
    if scores is None:
        return None
    moved = np.spacing(np.abs(scores.of(ours)).astype(np.float32)).astype(np.float64)
    if scores.output in spread:
        moved = np.maximum(moved, scores.of(spread))
    if scores.output in exact:
        moved = np.maximum(moved, np.abs(scores.of(ours) - scores.of(exact)))
    sure = np.abs(np.diff(scores.of(ours))) > _APART * _largest_nearby(moved)[:, 1:]
    rows = len(values)
    # Who follows the last one is not known.
    first, last = np.ones((rows, 1), bool), np.zeros((rows, 1), bool)
    unsure = ~(np.hstack((first, sure)) & np.hstack((sure, last)))
    mask = np.zeros(values.shape, bool)
    mask[unsure] = True
    if scores.output == name:
        mask.reshape(*values.shape[:2], -1)[:, :, scores.column] = False
    return mask


@dataclass(frozen=True)
class _Scores:
    """The scores that sort the places of an output: a column of it or of another one."""

    output: str
    column: int
    distinct: int

    def of(self, arrays: Arrays) -> Array:
        """Its values, by row and place."""
        values = widen(arrays[self.output])
        column: Array = values.reshape(*values.shape[:2], -1)[:, :, self.column]
        return column


def _scores(ours: Arrays, places: tuple[int, ...]) -> Iterator[_Scores]:
    """The columns of floats that are sorted in every row."""
    if len(places) < 2 or places[1] < _LEAST or not places[0]:
        return
    for name, values in ours.items():
        if values.shape[:2] != places or values.dtype.kind in "biu":
            continue
        columns = widen(values).reshape(*places, -1)
        with np.errstate(invalid="ignore"):  # infinity less infinity
            steps = np.diff(columns, axis=1)
        distinct = 1 + np.count_nonzero(steps, axis=1).min(axis=0)
        falls, rises = (steps <= 0).all(axis=(0, 1)), (steps >= 0).all(axis=(0, 1))
        for column in np.flatnonzero((falls | rises) & (distinct >= _LEAST)):
            yield _Scores(name, int(column), int(distinct[column]))


def _largest_nearby(moved: Array) -> Array:
    """For each place, the most that a score moves at it or at one of those beside it: few draws are made."""
    padded = np.pad(moved, ((0, 0), (_LEAST, _LEAST)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _LEAST + 1, axis=1)
    largest: Array = windows.max(axis=-1)
    return largest
