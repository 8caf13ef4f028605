"""Finds images that XLA copies only to put padding around them, for a pooling that needs no copy."""

from __future__ import annotations

from dataclasses import dataclass

from ....dtypes import ElementType
from ....program.arrays import Slice
from ...ir.emitted import thunks as p
from ...ir.hlo import Instruction
from ...ir.match import behind_bitcasts, row_major, scalar_of
from .pooling import sides


@dataclass(frozen=True)
class Padding:
    """Values with pixels of one number around them."""

    values: Instruction
    """The instruction that they are of."""
    number: float
    low: tuple[int, int]
    """Rows above and columns to the left."""
    in_size: tuple[int, int]
    """Rows and columns of the values."""

    def without(self, pool: p.Pooling, source: Slice) -> p.Pooling:
        """`pool`, of the values themselves."""
        changes = {"input": source, "in_size": self.in_size, "pad_low": self.low}
        return pool.model_copy(update={**changes, "padding": self.number})


def padding_of(fusion: Instruction, pool: p.Pooling) -> Padding | None:
    """The padding around images that a fusion computes, for a pooling of them; None if it does anything else."""
    if fusion.opcode != "fusion":
        return None
    root = behind_bitcasts(fusion.called_root)
    if root.opcode != "pad":
        return None
    values, filler = root.operands
    number, last = scalar_of(filler, finite=True), root.shape.rank - 1
    axes = root.padding
    pooled = range(1, last)
    plain = (
        number is not None
        and last in (2, 3)
        and row_major(values.shape, root.shape)
        and root.shape.element_type == ElementType.FLOAT32
        and all(axis.interior == 0 for axis in axes)
        and all(min(axis.low, axis.high) >= 0 for axis in axes)
        and all(values.shape.dimensions[n] == root.shape.dimensions[n] for n in (0, last))
    )
    if not plain or number is None:
        return None
    padded = sides([root.shape.dimensions[n] for n in pooled], 1)
    reached = tuple(
        (count - 1) * stride + window
        for count, stride, window in zip(pool.out_size, pool.stride, pool.window, strict=True)
    )
    fits = (
        pool.padding is None
        and pool.reducer == "maximum"
        and pool.in_step is None
        and (pool.batch, pool.features) == (root.shape.dimensions[0], root.shape.dimensions[last])
        and pool.in_size == padded
        and pool.pad_low == (0, 0)
        and all(end <= size for end, size in zip(reached, padded, strict=True))
    )
    if not fits:
        return None
    low = sides([axes[n].low for n in pooled], 0)
    return Padding(values, number, low, sides([values.shape.dimensions[n] for n in pooled], 1))
