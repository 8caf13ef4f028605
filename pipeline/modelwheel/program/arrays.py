"""Arrays in the memory of a program: the allocations, parts of them, and how elements lie there."""

from __future__ import annotations

from typing import Literal

from ..dtypes import ElementType
from ..util.records import JsonRecord, omitted

ALIGNMENT = 64
"""Bytes. XLA's kernels may assume that buffers have up to this alignment (xla/backends/cpu/alignment.h)."""


class Slice(JsonRecord):
    """Part of an allocation, in bytes."""

    allocation: int
    offset: int
    size: int
    step: int = omitted(0)
    """In a loop: how many bytes further it begins in each iteration."""
    iterations: int = omitted(1)
    """The trip count of that loop; 1 if the slice is the same in all iterations."""

    @property
    def whole(self) -> Slice:
        """All bytes that it is a part of in any iteration."""
        way = self.step * (self.iterations - 1)
        return Slice(
            allocation=self.allocation, offset=self.offset + min(way, 0), size=self.size + abs(way)
        )


class ArrayShape(JsonRecord):
    """The element type, shape and layout of an array."""

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
    """Whether two slices have a byte in common, in whatever iterations of a loop."""
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
