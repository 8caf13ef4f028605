"""Finds images that XLA copies only to put padding around them, for a pooling that needs no copy.

%3 = kernel %2 {symbol=padded}                           %4 f32[2,2,3,8] = pooling %2 f32[2,3,4,8]
%4 f32[2,2,3,8] = pooling %3 f32[2,5,7,8]         =>             {padding=0, pad_low=[1,2]}

padded:  ROOT padded = f32[2,5,7,8] pad(x, zero), padding=0_0x1_1x2_1x0_0
"""

from __future__ import annotations

from dataclasses import dataclass

from ....dtypes import ElementType
from ....program import ops
from ...ir.graph import Node
from ...ir.hlo import Instruction
from ...ir.match import behind_bitcasts, row_major, scalar_of
from .poolings import sides


@dataclass(frozen=True)
class Padding:
    """Values with pixels of one number around them."""

    values: Instruction
    """The instruction that they are of."""
    shape: tuple[int, int, int, int]
    """Of the values: batch, rows, columns, features."""
    pooling: ops.Pooling
    """The pooling of the values themselves."""


def padding_of(fusion: Instruction, pool: Node) -> Padding | None:
    """The padding around images that a fusion computes, for a pooling of them; None if it does anything else."""
    if not isinstance(pool.op, ops.Pooling):
        return None
    if fusion.opcode != "fusion":
        return None
    root = behind_bitcasts(fusion.called_root)
    if root.opcode != "pad":
        return None
    values, filler = root.operands
    number, last = scalar_of(filler, finite=True), root.shape.rank - 1
    images, result = pool.inputs["input"].view, pool.outputs["output"].view
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
        for count, stride, window in zip(
            result.shape[1:3], pool.op.stride, pool.op.window, strict=True
        )
    )
    batch, features = root.shape.dimensions[0], root.shape.dimensions[last]
    fits = (
        pool.op.padding is None
        and pool.op.reducer == "maximum"
        and pool.op.pad_low == (0, 0)
        and images.is_row_major()
        and images.shape == (batch, *padded, features)
        and all(end <= size for end, size in zip(reached, padded, strict=True))
    )
    if not fits:
        return None
    low = sides([axes[n].low for n in pooled], 0)
    op = pool.op.model_copy(update={"pad_low": low, "padding": number})
    own = sides([values.shape.dimensions[n] for n in pooled], 1)
    return Padding(values, (batch, *own, features), op)
