"""A tensor in a module that is being written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .types import Array, DType

if TYPE_CHECKING:
    from .builder import Builder

Scalar: TypeAlias = "bool | int | float | complex | np.generic"


OPERATORS: dict[str, Callable[..., Value]] = {}
"""What Python's operators write; `elementwise` enters its functions, as this module is below it."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor: the result of an operation, an argument, or known.

    Transposes are not written: a value remembers them in `order`, and operations that can do so
    compute on the axes as they are in memory. `Builder.operand` writes what is left.
    """

    builder: Builder = field(repr=False)
    dtype: DType
    shape: tuple[int, ...]
    name: str = ""
    """In the text of the module; empty for a known value."""
    known: Array | None = None
    order: tuple[int, ...] = ()
    """The axis in memory of each axis; empty where they are the same."""

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis in memory of each axis."""
        return self.order or tuple(range(self.rank))

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The extents in the order of memory."""
        return in_memory(self.shape, self.axes)

    def __add__(self, other: Value | Scalar) -> Value:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: Scalar) -> Value:
        return OPERATORS["add"](other, self)

    def __sub__(self, other: Value | Scalar) -> Value:
        return OPERATORS["subtract"](self, other)

    def __rsub__(self, other: Scalar) -> Value:
        return OPERATORS["subtract"](other, self)

    def __mul__(self, other: Value | Scalar) -> Value:
        return OPERATORS["multiply"](self, other)

    def __rmul__(self, other: Scalar) -> Value:
        return OPERATORS["multiply"](other, self)

    def __truediv__(self, other: Value | Scalar) -> Value:
        return OPERATORS["divide"](self, other)

    def __rtruediv__(self, other: Scalar) -> Value:
        return OPERATORS["divide"](other, self)

    def __neg__(self) -> Value:
        return OPERATORS["negate"](self)

    def __and__(self, other: Value | Scalar) -> Value:
        return OPERATORS["and_"](self, other)

    def __or__(self, other: Value | Scalar) -> Value:
        return OPERATORS["or_"](self, other)

    def __invert__(self) -> Value:
        return OPERATORS["not_"](self)

    def __lt__(self, other: Value | Scalar) -> Value:
        return OPERATORS["compare"]("LT", self, other)

    def __le__(self, other: Value | Scalar) -> Value:
        return OPERATORS["compare"]("LE", self, other)

    def __gt__(self, other: Value | Scalar) -> Value:
        return OPERATORS["compare"]("GT", self, other)

    def __ge__(self, other: Value | Scalar) -> Value:
        return OPERATORS["compare"]("GE", self, other)


def in_memory(logical: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """What belongs to each axis, such as extents, in the order of memory."""
    stored = [0] * len(logical)
    for value, axis in zip(logical, axes, strict=True):
        stored[axis] = value
    return tuple(stored)


def identity(axes: tuple[int, ...]) -> bool:
    """Whether a permutation moves nothing."""
    return axes == tuple(range(len(axes)))


def as_array(value: Scalar, dtype: DType) -> Array:
    """A scalar of the type, wrapped around if it does not fit."""
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)
