"""Orders of axes in memory."""

from __future__ import annotations


def in_memory(logical: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Values of each axis, such as extents, in the order of memory."""
    stored = [0] * len(logical)
    for value, axis in zip(logical, axes, strict=True):
        stored[axis] = value
    return tuple(stored)


def identity(axes: tuple[int, ...]) -> bool:
    """Whether a permutation moves nothing."""
    return axes == tuple(range(len(axes)))
