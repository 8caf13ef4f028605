"""Views: elements of an allocation as a strided array."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..dtypes import ElementType
from ..util.records import JsonRecord, omitted
from .arrays import Slice


class View(JsonRecord):
    """Some elements of a slice as an array, as NumPy has it: a start, and a stride for each axis.

    The memory itself is `slice`; in a loop, it may begin further on in each iteration (`Slice.step`).
    """

    slice: Slice
    """All bytes that may be read or written, and perhaps others between them."""
    element_type: ElementType = omitted(ElementType.UINT8)
    shape: tuple[int, ...]
    strides: tuple[int, ...] = omitted((1,))
    """Distance between neighbours along each axis, in elements; 0 where all are the same element."""
    start: int = omitted(0)
    """The element of the slice that comes first."""

    @classmethod
    def of_bytes(cls, part: Slice) -> View:
        """A slice whose elements do not matter to its reader."""
        return cls(slice=part, shape=(part.size,))

    @classmethod
    def dense(
        cls, part: Slice, element_type: ElementType, shape: Sequence[int], order: Sequence[int] = ()
    ) -> View:
        """An array without gaps.

        Args:
            part: Its memory.
            element_type: That of its elements.
            shape: Its extents.
            order: Its axes from the fastest varying to the slowest (XLA's layout); row-major by default.
        """
        strides = dense_strides(shape, order or row_major_order(len(shape)))
        return cls(slice=part, element_type=element_type, shape=tuple(shape), strides=strides)

    def ordered(self, order: Sequence[int]) -> View:
        """The array without gaps in another layout.

        Args:
            order: Its axes from the fastest varying to the slowest.
        """
        return self.model_copy(update={"strides": dense_strides(self.shape, order)})

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def order(self) -> tuple[int, ...]:
        """The axes from the fastest varying to the slowest; those of one element come before others of their stride."""
        axes = range(len(self.shape))
        return tuple(
            sorted(axes, key=lambda axis: (self.strides[axis], self.shape[axis] != 1, -axis))
        )

    def is_row_major(self, *, ignoring_unit_axes: bool = True) -> bool:
        """Whether the elements follow each other in memory, the last axis the fastest."""
        dense = dense_strides(self.shape, row_major_order(len(self.shape)))
        axes = zip(self.shape, self.strides, dense, strict=True)
        return all(
            stride == without_gaps or (ignoring_unit_axes and extent == 1)
            for extent, stride, without_gaps in axes
        )


def row_major_order(rank: int) -> tuple[int, ...]:
    """The axes from the last to the first."""
    return tuple(reversed(range(rank)))


def dense_strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of an array without gaps whose axes vary in this order, the fastest first."""
    strides = [0] * len(shape)
    step = 1
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)
