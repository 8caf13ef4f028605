"""Straight-line code on the elements of a mask, as steps of a program have it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ....dtypes import ElementType
from ....program.arrays import Slice
from ....util.records import JsonRecord

MaskOpcode: TypeAlias = Literal[
    "read",
    "index",
    "constant",
    "convert",
    "add",
    "subtract",
    "multiply",
    "negate",
    "and",
    "or",
    "not",
    "select",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
]
AXES = 4
"""Both axes of heads, queries and keys."""


class MaskRead(JsonRecord):
    """Memory that a mask is computed from."""

    slice: Slice
    element_type: ElementType


class MaskOperation(JsonRecord):
    """An operation, with the type of its result."""

    opcode: MaskOpcode
    element_type: ElementType
    operands: tuple[int, ...] = ()
    """The numbers of operations before."""
    value: float | None = None
    """Of a constant; None is minus infinity, which JSON does not have."""
    number: int = 0
    """Of what is read."""
    start: int = 0
    """Of what is read, the element that comes first; the first index."""
    steps: tuple[int, int, int, int] = (0, 0, 0, 0)
    """How far apart neighbours are along each axis: the element that is read, or the index."""


class MaskCode(JsonRecord):
    """What a mask is computed from, and how; its value is that of the last operation."""

    reads: tuple[MaskRead, ...]
    operations: tuple[MaskOperation, ...]

    def negated(self) -> MaskCode:
        """The opposite of a condition."""
        last = len(self.operations) - 1
        opposite = MaskOperation(opcode="not", element_type=ElementType.BOOL, operands=(last,))
        return MaskCode(reads=self.reads, operations=(*self.operations, opposite))

    @property
    def is_condition(self) -> bool:
        """Whether it is true or false; otherwise it is a 32-bit float."""
        return self.operations[-1].element_type == ElementType.BOOL
