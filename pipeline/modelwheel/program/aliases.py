"""Which outputs of a step may be where its inputs are, and what a step surely writes."""

from __future__ import annotations

from dataclasses import dataclass

from .arrays import overlap
from .ops import Alias, AnyOp, Mask
from .steps import Step, role_of
from .view import View


def alias_of(op: AnyOp, output: str, source: str) -> Alias | None:
    """The declaration of an operation about an output and an input; None if they are apart."""
    for alias in op.ALIASES:
        if (alias.output, alias.input) == (role_of(output), role_of(source)):
            same_number = output.removeprefix(alias.output) == source.removeprefix(alias.input)
            if same_number or not alias.must:
                return alias
    return None


def may_be_apart(step: Step, output: str) -> bool:
    """Whether an output could as well be elsewhere: where it meets an input, it is there element for element."""
    written = step.outputs[output]
    for name, read in step.inputs.items():
        if overlap(read.slice, written.slice):
            alias = alias_of(step.op, output, name)
            if alias is None or alias.must or not alias.exact or not is_same(read, written):
                return False
    return True


def is_same(a: View, b: View) -> bool:
    """Whether two views have each element at the same place."""
    places = [
        (v.slice.allocation, v.slice.offset, v.slice.step, v.start, v.strides) for v in (a, b)
    ]
    return places[0] == places[1] and a.element_type == b.element_type and a.shape == b.shape


@dataclass(frozen=True)
class Rows:
    """Bytes of a slice in runs of one length, one after the other at equal distances."""

    start: int
    length: int
    period: int
    """From the start of one run to that of the next."""
    count: int


def rows_of(view: View) -> Rows | None:
    """The bytes that a view has in its slice; None if they are no such rows."""
    size = view.element_type.item_bytes
    axes = [axis for axis in view.order if view.shape[axis] != 1]
    if any(view.shape[axis] == 0 for axis in axes):
        return Rows(0, 0, 0, 0)
    length, count, period = 1, 1, 0
    for axis in axes:
        stride, extent = view.strides[axis], view.shape[axis]
        if count == 1 and stride == length:
            length *= extent
        elif count == 1 and stride > length:
            period, count = stride, extent
        elif count > 1 and stride == period * count:
            count *= extent
        else:
            return None
    return Rows(view.start * size, length * size, (period or length) * size, count)


def fills(step: Step, output: str) -> bool:
    """Whether a step writes every byte of the slice of an output that anybody may read, in one iteration."""
    if isinstance(step.op, Mask) or output == "accumulator":
        # What is behind a row of a mask changes no score, and sums are of no use afterwards.
        return True
    view = step.outputs[output]
    return not view.slice.step and has_all_bytes(view)


def has_all_bytes(view: View) -> bool:
    """Whether the elements of a view are all of its slice, as it is in one iteration."""
    rows = rows_of(view)
    if rows is None:
        return False
    return rows.count <= 1 and (rows.start, rows.length) == (0, view.slice.size)
