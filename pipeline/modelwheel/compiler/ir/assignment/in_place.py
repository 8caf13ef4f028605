"""Which values may be where an operand is that nobody reads any more."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ....program.aliases import alias_of, has_all_bytes, is_same
from ....program.arrays import Slice
from ....program.ops import Dot
from ....program.view import View
from ....thresholds import WIDEST_LANES
from ..graph import INSIDE, Join, Node, Piece, Value

_SMALLEST = 64 * 1024
"""Bytes. Smaller results stay in the cache wherever they are."""


def in_place(node: Node) -> Iterator[tuple[Value, Piece]]:
    """The results that XLA has where an operand is that they may replace, each with these bytes of the operand."""
    if isinstance(node.op, Join):
        return
    for output, result in node.outputs.items():
        for name, operand in node.inputs.items():
            alias = alias_of(node.op, output, name)
            if alias is None or alias.must or not alias.exact or result.value.home is None:
                continue
            if operand.value.home is None:
                continue
            here = placed(result.view, result.value.home)
            there = placed(operand.view, operand.value.home)
            if is_same(here, there):
                part = operand.view.slice
                yield (
                    result.value,
                    Piece(operand.value, part.offset, part.size, result.view.slice.offset),
                )
                break


def over_addend(node: Node) -> tuple[Value, Piece] | None:
    """The result of a product that pays if it is where its addend is, such as a residual; with the addend.

    A large result is then read and written once where it would be read, fetched elsewhere and written. Its rows are whole
    vectors at each level, so that each element is finished once. XLA does not do so: what the next steps read it has planned
    as another value.
    """
    operand = node.inputs.get("addend")
    if not isinstance(node.op, Dot) or operand is None:
        return None
    result, source = node.outputs["out"], operand.view
    axes = (
        len(node.inputs["rhs"].view.shape) - len(node.op.rhs_batch) - len(node.op.rhs_contracting)
    )
    shape = result.view.shape
    if math.prod(shape[len(shape) - axes :]) % WIDEST_LANES or result.value.size < _SMALLEST:
        return None
    if result.base or result.near or result.view.slice.size != result.value.size:
        return None
    if not all(
        v.is_row_major() and has_all_bytes(v) and not v.slice.step for v in (result.view, source)
    ):
        return None
    if sum(other.value is operand.value for other in node.inputs.values()) > 1:
        return None
    return result.value, Piece(operand.value, source.slice.offset, source.slice.size)


def placed(view: View, place: Slice) -> View:
    """A view inside of a value that is somewhere."""
    part = view.slice
    assert part.allocation == INSIDE
    moved = {"allocation": place.allocation, "offset": place.offset + part.offset}
    return view.model_copy(update={"slice": part.model_copy(update=moved)})
