"""Copies between views as loops: the axes of both, as few as there can be."""

from __future__ import annotations

from typing import NamedTuple

from .view import View

MAX_LOOPS = 6
"""More are not copied by the kernels."""


class Loop(NamedTuple):
    """An axis of a copy."""

    extent: int
    source: int
    """How far apart neighbours are in the source, in elements."""
    target: int
    """How far apart they are in the result."""


def loops_of(source: View, target: View) -> tuple[Loop, ...]:
    """The axes of a copy between two views of one shape, the one that varies fastest in the result last.

    Axes of one element are left out, and axes whose elements follow each other in both views are one.
    """
    loops: list[Loop] = []
    axes = map(Loop, source.shape, source.strides, target.strides)
    for axis in sorted((axis for axis in axes if axis.extent != 1), key=lambda axis: -axis.target):
        before = loops[-1] if loops else None
        if before is not None and before[1:] == (
            axis.extent * axis.source,
            axis.extent * axis.target,
        ):
            loops[-1] = axis._replace(extent=before.extent * axis.extent)
        else:
            loops.append(axis)
    return tuple(loops)


def is_contiguous(loops: tuple[Loop, ...]) -> bool:
    """Whether a copy is one of bytes that follow each other in both views."""
    return all(loop[1:] == (1, 1) for loop in loops) and len(loops) < 2
