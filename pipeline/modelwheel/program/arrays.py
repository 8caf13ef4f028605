"""Arrays in the memory of a program: the allocations, parts of them, and how elements lie there."""

from __future__ import annotations

import math
from typing import Literal

from ..dtypes import ElementType
from ..util.records import JsonRecord

ALIGNMENT = 64
"""Bytes. XLA's kernels may assume that buffers have up to this alignment (xla/backends/cpu/alignment.h)."""


class Slice(JsonRecord):
    """Part of an allocation, in bytes."""

    allocation: int
    offset: int
    size: int
    step: int = 0
    """In a loop: how much further it begins in each turn."""
    turns: int = 1
    """The number of turns, where it is not the same part in all of them."""

    @property
    def whole(self) -> Slice:
        """What it is a part of in any turn."""
        way = self.step * (self.turns - 1)
        return Slice(
            allocation=self.allocation, offset=self.offset + min(way, 0), size=self.size + abs(way)
        )


class Array(JsonRecord):
    """A slice seen as a dense array."""

    slice: Slice
    element_type: ElementType
    shape: tuple[int, ...]
    minor_to_major: tuple[int, ...]
    """Axes from the fastest varying to the slowest (XLA's layout)."""
    row_step: int | None = None
    """If the array is part of the rows of a larger one: how far apart its rows, the elements along the fastest axis, are."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance, in elements, between neighbours along each axis."""
        strides = [0] * len(self.shape)
        step = 1
        for number, axis in enumerate(self.minor_to_major):
            strides[axis] = step
            step *= self.shape[axis] if number or self.row_step is None else self.row_step
        return tuple(strides)


class ArrayShape(JsonRecord):
    """What a constant holds: the element type, shape and layout of an array."""

    element_type: ElementType
    shape: tuple[int, ...]
    minor_to_major: tuple[int, ...]


AllocationKind = Literal["parameter", "constant", "output", "temporary", "thread_local"]


class Allocation(JsonRecord):
    """One piece of memory that the program uses; `kind` says who provides it."""

    index: int
    size: int
    kind: AllocationKind
    parameter: int | None = None
    """For a parameter: its number."""
    constant_offset: int | None = None
    """For a constant: where its bytes begin in `constants.bin`."""
    sha256: str | None = None
    """For a constant: the SHA-256 of its bytes, to find equal constants."""
    array: ArrayShape | None = None
    """For a constant: what it holds."""


def overlap(a: Slice, b: Slice) -> bool:
    """Whether two slices have a byte in common, in whatever turns of a loop."""
    if a.step or b.step:
        a, b = a.whole, b.whole
    return (
        a.allocation == b.allocation
        and a.offset < b.offset + b.size
        and b.offset < a.offset + a.size
    )


def covers(whole: Slice, part: Slice) -> bool:
    """Whether a slice has all of another."""
    return (
        whole.allocation == part.allocation
        and whole.offset <= part.offset
        and part.offset + part.size <= whole.offset + whole.size
    )
