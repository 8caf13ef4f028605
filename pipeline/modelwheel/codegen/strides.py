"""Converts views into the few strides that the hand-written kernels take. All strides are in elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

from ..dtypes import ElementType
from ..errors import UnsupportedProgramError
from ..program.ops import Convolution, Dot, Sort
from ..program.steps import Step
from ..program.view import View

_Value = TypeVar("_Value")

_BYTES = (ElementType.INT8, ElementType.INT8, ElementType.INT32)
"""The factors and the sums of products of bytes."""


@dataclass(frozen=True)
class Axis:
    """One or several axes of an array as one: `size` elements, `stride` elements apart."""

    size: int
    stride: int


def merge(view: View, axes: Sequence[int]) -> Axis:
    """Merges axes into one; they are given from the slowest varying to the fastest.

    Raises:
        UnsupportedProgramError: No single stride leads through all their elements.
    """
    # An axis of extent 1 may have any stride: its index is always 0.
    wide = [axis for axis in axes if view.shape[axis] != 1]
    if not wide:
        return Axis(1, 1)
    for outer, inner in pairwise(wide):
        if view.strides[outer] != view.strides[inner] * view.shape[inner]:
            raise UnsupportedProgramError(
                f"axes {tuple(axes)} of an array of shape {view.shape} with strides "
                f"{view.strides} cannot be merged"
            )
    size = 1
    for axis in wide:
        size *= view.shape[axis]
    return Axis(size, view.strides[wide[-1]])


class ProductViews(NamedTuple):
    """The operands of a product or convolution."""

    lhs: View
    rhs: View
    sums: View
    """Where the kernel adds up: the accumulator, or the result if there is none."""

    @classmethod
    def of(cls, step: Step) -> ProductViews:
        """The operands of a step whose operation is a product or convolution."""
        roles = ("lhs", "rhs") if isinstance(step.op, Dot) else ("input", "kernel")
        lhs, rhs = (step.inputs[role] for role in roles)
        return cls(lhs, rhs, step.outputs.get("accumulator", step.outputs["out"]))


@dataclass(frozen=True)
class DotAxes:
    """A matrix product out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]."""

    lhs: tuple[Axis, Axis, Axis]
    """Batch, m, k."""
    rhs: tuple[Axis, Axis, Axis]
    """Batch, k, n."""
    out: tuple[Axis, Axis, Axis]
    """Batch, m, n."""


def dot_axes(step: Step, op: Dot) -> DotAxes:
    """The axes of a dot. The result has the batch axes first, then the free axes of lhs, then those of rhs
    (DotGeneral in https://openxla.org/xla/operation_semantics)."""
    lhs, rhs, out = ProductViews.of(step)
    lhs_free = _free_axes(lhs, op.lhs_batch, op.lhs_contracting)
    rhs_free = _free_axes(rhs, op.rhs_batch, op.rhs_contracting)
    batch, m = len(op.lhs_batch), len(lhs_free)
    out_axes = tuple(range(len(out.shape)))
    return DotAxes(
        lhs=(merge(lhs, op.lhs_batch), merge(lhs, lhs_free), merge(lhs, op.lhs_contracting)),
        rhs=(merge(rhs, op.rhs_batch), merge(rhs, op.rhs_contracting), merge(rhs, rhs_free)),
        out=(
            merge(out, out_axes[:batch]),
            merge(out, out_axes[batch : batch + m]),
            merge(out, out_axes[batch + m :]),
        ),
    )


def is_of_bytes(step: Step) -> bool:
    """Whether a product is of 8-bit integers, summed in 32 bits."""
    return tuple(view.element_type for view in ProductViews.of(step)) == _BYTES


def _free_axes(view: View, *taken: Sequence[int]) -> list[int]:
    used = {axis for axes in taken for axis in axes}
    return [axis for axis in range(len(view.shape)) if axis not in used]


def pick(values: Sequence[_Value], axes: Sequence[int]) -> tuple[_Value, ...]:
    """The values of some axes."""
    return tuple(values[axis] for axis in axes)


def in_features(step: Step, op: Convolution) -> int:
    """The input features of a convolution, over all groups."""
    return step.inputs["input"].shape[op.input_axes.feature]


def sort_extents(step: Step, op: Sort) -> tuple[int, int, int]:
    """(outer, size, inner) of a sort: the extents before, of and after the sorted axis, in the order of memory.

    Raises:
        UnsupportedProgramError: Not all operands have one layout.
    """
    first, *others = step.inputs_of("operand")
    if any(view.strides != first.strides for view in others):
        raise UnsupportedProgramError("a sort over arrays of different layouts is not supported")
    # The kernel walks memory, not axes: what varies slower than the sorted axis is outer, what varies
    # faster is inner.
    outer = inner = 1
    seen = False
    for axis in reversed(first.order):
        if axis == op.axis:
            seen = True
        elif seen:
            inner *= first.shape[axis]
        else:
            outer *= first.shape[axis]
    return outer, first.shape[op.axis], inner
