"""Straight-line code on the elements of rows, as steps of a program have it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ....program.arrays import Slice
from ....util.records import JsonRecord

Opcode: TypeAlias = Literal[
    "add",
    "subtract",
    "multiply",
    "divide",
    "negate",
    "select",
    "constant",
    "tanh",
    "sigmoid",
    "gated_tanh",
]


class Operation(JsonRecord):
    """An operation on the elements of a row."""

    opcode: Opcode
    operands: tuple[int, ...] = ()
    """The numbers of values: first what is read, then the results of operations."""
    value: float = 0.0
    """Of a constant."""
    mask: int | None = None
    """Of a selection: where this mask is true, the first operand is taken."""


class Plane(JsonRecord):
    """Memory as rows of a matrix."""

    slice: Slice
    start: int
    """The element of the slice that comes first."""
    row_step: int
    """How far apart rows are, in elements; 0 if all are the same."""
