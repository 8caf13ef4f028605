"""Converts arrays with XLA layouts into the few strides that the hand-written kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from ..errors import UnsupportedProgramError
from ..program.arrays import Array
from ..program.program import Convolution, Dot, Sort

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Axis:
    """One or several axes of an array as one: `size` elements, `stride` elements apart."""

    size: int
    stride: int


def merge(array: Array, axes: Sequence[int]) -> Axis:
    """Merges axes into one; they are given from the slowest varying to the fastest.

    Raises:
        UnsupportedProgramError: No single stride leads through all their elements.
    """
    strides = array.strides
    # An axis of extent 1 may have any stride: its index is always 0.
    wide = [axis for axis in axes if array.shape[axis] != 1]
    if not wide:
        return Axis(1, 1)
    for outer, inner in pairwise(wide):
        if strides[outer] != strides[inner] * array.shape[inner]:
            raise UnsupportedProgramError(
                f"axes {tuple(axes)} of an array of shape {array.shape} with layout "
                f"{array.minor_to_major} cannot be merged"
            )
    size = 1
    for axis in wide:
        size *= array.shape[axis]
    return Axis(size, strides[wide[-1]])


@dataclass(frozen=True)
class DotAxes:
    """A matrix product out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]."""

    lhs: tuple[Axis, Axis, Axis]
    """Batch, m, k."""
    rhs: tuple[Axis, Axis, Axis]
    """Batch, k, n."""
    out: tuple[Axis, Axis, Axis]
    """Batch, m, n."""


def dot_axes(dot: Dot) -> DotAxes:
    """The axes of a dot. The result has the batch axes first, then the free axes of lhs, then those of rhs
    (DotGeneral in https://openxla.org/xla/operation_semantics)."""
    lhs_free = _free_axes(dot.lhs, dot.lhs_batch, dot.lhs_contracting)
    rhs_free = _free_axes(dot.rhs, dot.rhs_batch, dot.rhs_contracting)
    batch, m = len(dot.lhs_batch), len(lhs_free)
    out = tuple(range(len(dot.out.shape)))
    return DotAxes(
        lhs=(
            merge(dot.lhs, dot.lhs_batch),
            merge(dot.lhs, lhs_free),
            merge(dot.lhs, dot.lhs_contracting),
        ),
        rhs=(
            merge(dot.rhs, dot.rhs_batch),
            merge(dot.rhs, dot.rhs_contracting),
            merge(dot.rhs, rhs_free),
        ),
        out=(
            merge(dot.out, out[:batch]),
            merge(dot.out, out[batch : batch + m]),
            merge(dot.out, out[batch + m :]),
        ),
    )


def _free_axes(array: Array, *taken: Sequence[int]) -> list[int]:
    used = {axis for axes in taken for axis in axes}
    return [axis for axis in range(len(array.shape)) if axis not in used]


def pick(values: Sequence[_Value], axes: Sequence[int]) -> tuple[_Value, ...]:
    """The values of some axes."""
    return tuple(values[axis] for axis in axes)


def in_features(convolution: Convolution) -> int:
    """The input features of a convolution, over all groups."""
    return convolution.input.shape[convolution.input_axes.feature]


def sort_extents(sort: Sort) -> tuple[int, int, int]:
    """(outer, size, inner) of a sort: the extents before, of and after the sorted axis, in the order of memory."""
    first = sort.operands[0]
    if any(operand.minor_to_major != first.minor_to_major for operand in sort.operands):
        raise UnsupportedProgramError("a sort over arrays of different layouts is not supported")
    # The kernel walks memory, not axes: what varies slower than the sorted axis is outer, what varies
    # faster is inner.
    outer = inner = 1
    seen = False
    for axis in reversed(first.minor_to_major):
        if axis == sort.axis:
            seen = True
        elif seen:
            inner *= first.shape[axis]
        else:
            outer *= first.shape[axis]
    return outer, first.shape[sort.axis], inner
