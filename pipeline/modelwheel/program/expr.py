"""Scalar expressions: straight-line code on one element of each operand, as elementwise steps and masks have it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..dtypes import ElementType
from ..util.records import JsonRecord, omitted

Opcode: TypeAlias = Literal[
    "read",
    "index",
    "constant",
    "convert",
    "add",
    "subtract",
    "multiply",
    "divide",
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
    "tanh",
    "sigmoid",
    "gated_tanh",
    "maximum",
    "minimum",
    "nearest",
    "round_even",
]

OPERANDS: dict[Opcode, int] = {
    "read": 0,
    "index": 0,
    "constant": 0,
    "convert": 1,
    "negate": 1,
    "not": 1,
    "nearest": 1,
    "round_even": 1,
    "tanh": 1,
    "sigmoid": 1,
    "add": 2,
    "subtract": 2,
    "multiply": 2,
    "divide": 2,
    "and": 2,
    "or": 2,
    "eq": 2,
    "ne": 2,
    "lt": 2,
    "le": 2,
    "gt": 2,
    "ge": 2,
    "gated_tanh": 2,
    "maximum": 2,
    "minimum": 2,
    "select": 3,
}
"""How many operands each operation has; `gated_tanh` is the sigmoid of the first times the tanh of the second, and `nearest`
the nearest 32-bit integer, ties to even."""

ACTIVATIONS: frozenset[Opcode] = frozenset({"tanh", "sigmoid", "gated_tanh"})
"""The operations that are more than an instruction of the CPU."""


class Operation(JsonRecord):
    """One operation on scalars, with the type of its result."""

    opcode: Opcode
    element_type: ElementType = omitted(ElementType.FLOAT32)
    operands: tuple[int, ...] = omitted(())
    """The numbers of operations before; of a selection the condition, and the results where it is true and false."""
    value: float | None = omitted(None)
    """Of a constant; None is minus infinity, which JSON does not have."""
    input: int = omitted(0)
    """Of what is read: the number of the operand of the step."""
    start: int = omitted(0)
    """Of an index, the first one."""
    strides: tuple[int, ...] = omitted(())
    """Of an index: how much it grows from neighbour to neighbour along each axis of the step."""


class Expression(JsonRecord):
    """Straight-line code: each operation takes the results of some before it."""

    operations: tuple[Operation, ...]
    results: tuple[int, ...]
    """The numbers of the operations whose values are the results."""

    def negated(self) -> Expression:
        """The opposite of a condition, which is the only result."""
        (last,) = self.results
        opposite = Operation(opcode="not", element_type=ElementType.BOOL, operands=(last,))
        return Expression(operations=(*self.operations, opposite), results=(len(self.operations),))

    @property
    def is_condition(self) -> bool:
        """Whether its only result is true or false."""
        (last,) = self.results
        return self.operations[last].element_type == ElementType.BOOL
