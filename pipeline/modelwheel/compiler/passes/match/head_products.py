"""Products of each head of attention, and memory as heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....dtypes import ElementType
from ....program import ops
from ....program.arrays import Slice
from ....program.view import View, dense_strides, row_major_order
from ...ir.graph import Node
from ...ir.hlo import Instruction
from ...ir.match import Value
from ...ir.views import source_of, strides_of

_MOST_HEAD_AXES = 2
_FLOAT = ElementType.FLOAT32


@dataclass(frozen=True)
class HeadProduct:
    """A product of floats for each head, with one contracted axis."""

    op: ops.Dot
    lhs: View
    rhs: View
    out: View
    """Inside of the value, as all views."""
    is_turned: bool = False
    """Whether its sides are exchanged: JAX writes the values first."""

    @classmethod
    def of(cls, node: Node) -> HeadProduct | None:
        """The product that a node computes; None if it is anything else, or more follows."""
        if not isinstance(node.op, ops.Dot) or node.op.epilogue is not None or len(node.inputs) > 2:
            return None
        op, result = node.op, node.outputs["out"]
        lhs, rhs, out = node.inputs["lhs"].view, node.inputs["rhs"].view, result.view
        plain = (
            all(view.element_type == _FLOAT and _is_dense(view) for view in (lhs, rhs, out))
            and len(op.lhs_batch) <= _MOST_HEAD_AXES
            and len(op.lhs_contracting) == 1
            and len(out.shape) == len(op.lhs_batch) + 2
            and len(rhs.shape) == len(op.rhs_batch) + 2
        )
        return cls(op, lhs, rhs, out) if plain else None

    @property
    def turned(self) -> HeadProduct:
        """With its sides exchanged."""
        order = last_two_exchanged(len(self.out.shape))
        op = self.op.model_copy(
            update={
                "lhs_batch": self.op.rhs_batch,
                "rhs_batch": self.op.lhs_batch,
                "lhs_contracting": self.op.rhs_contracting,
                "rhs_contracting": self.op.lhs_contracting,
            }
        )
        return HeadProduct(op, self.rhs, self.lhs, _permuted(self.out, order), is_turned=True)

    @property
    def lhs_axes(self) -> tuple[int, ...]:
        """The axes of the left side: batches, rows, what is contracted."""
        batch, contracting = self.op.lhs_batch, self.op.lhs_contracting
        return (*batch, *_free(self.lhs, batch, contracting), *contracting)

    def rhs_axes(self, *, contracting_first: bool) -> tuple[int, ...]:
        """The axes of the right side: batches, then columns and what is contracted, or the other way round."""
        batch, contracting = self.op.rhs_batch, self.op.rhs_contracting
        last = (*_free(self.rhs, batch, contracting), *contracting)
        return (*batch, *(reversed(last) if contracting_first else last))

    def rows_first(self, shares: Instruction) -> tuple[HeadProduct, Value]:
        """The product as if nothing had exchanged the rows and columns of its left side, and the value of that."""
        source, last = source_of(shares), len(self.lhs.shape) - 1
        strides = strides_of(source)
        if self.op.lhs_contracting != (last - 1,) or source.fusion is None or strides is None:
            return self, Value(shares)
        order = last_two_exchanged(last + 1)
        shape = [self.lhs.shape[axis] for axis in order]
        rows = dense_strides(shape, row_major_order(last + 1))
        steps = (strides.steps[axis] for axis in order)
        if strides.start or any(
            step not in (row, 0) for step, row in zip(steps, rows, strict=True)
        ):
            return self, Value(shares)
        op = self.op.model_copy(update={"lhs_contracting": (last,)})
        lhs = View.dense(self.lhs.slice, _FLOAT, shape)
        return replace(self, op=op, lhs=lhs), Value(source.node, source.fusion)


def follow(first: HeadProduct, second: HeadProduct) -> bool:
    """Whether the result of one product may be, element by element, the left side of the other."""
    left, rank = second.lhs, len(second.lhs.shape)
    return (
        first.out.shape == left.shape
        and first.out.is_row_major()
        and left.is_row_major()
        and second.op.lhs_batch == tuple(range(rank - 2))
        and second.op.lhs_contracting == (rank - 1,)
    )


def _is_dense(view: View) -> bool:
    return view.start == 0 and view.strides == dense_strides(view.shape, view.order)


def _permuted(view: View, order: Sequence[int]) -> View:
    """A view with its axes in another order."""
    shape = tuple(view.shape[axis] for axis in order)
    strides = tuple(view.strides[axis] for axis in order)
    return view.model_copy(update={"shape": shape, "strides": strides})


def _free(view: View, *taken: Sequence[int]) -> tuple[int, ...]:
    used = {axis for axes in taken for axis in axes}
    return tuple(axis for axis in range(len(view.shape)) if axis not in used)


def last_two_exchanged(rank: int) -> list[int]:
    """The order of the axes."""
    return [*range(rank - 2), rank - 1, rank - 2]


def heads_of(
    place: Slice, start: int, steps: Sequence[int], axes: Sequence[int], shape: tuple[int, ...]
) -> View:
    """Memory as heads: both axes of them, rows and columns."""
    *batch, row, column = (steps[axis] for axis in axes)
    outer, inner = [0] * (_MOST_HEAD_AXES - len(batch)) + batch
    return View(
        slice=place,
        element_type=_FLOAT,
        shape=shape,
        strides=(outer, inner, row, column),
        start=start,
    )
