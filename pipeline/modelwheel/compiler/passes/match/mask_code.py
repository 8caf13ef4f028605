"""Reads what is added to scores of attention, or decides which of them count, as straight-line code on its elements.

XLA computes masks in the kernels of the softmax: from what is in memory, from indices and from constants, moved and repeated along
axes. Each of these is a function of the indices of the mask itself, with a distance in memory for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ....dtypes import ElementType
from ....program import expr
from ....program.view import View
from ...ir.graph import Operand
from ...ir.hlo import Instruction, Shape
from ...ir.match import Value, integer_of, row_major, same_layout, scalar_of
from ...ir.views import Strides, strides_through

Steps: TypeAlias = "tuple[int, int, int, int]"
"""How far apart neighbours are along both axes of heads, queries and keys."""

_AXES = 4
_MOVES = frozenset({"bitcast", "broadcast", "copy", "reshape", "slice", "transpose"})
_INTEGERS = (ElementType.INT32, ElementType.INT64)
_TYPES = (ElementType.BOOL, *_INTEGERS, ElementType.FLOAT32)
_ARITHMETIC = (*_INTEGERS, ElementType.FLOAT32)
_OPCODES: dict[str, tuple[expr.Opcode, tuple[ElementType, ...]]] = {
    "add": ("add", _ARITHMETIC),
    "subtract": ("subtract", _ARITHMETIC),
    "multiply": ("multiply", _ARITHMETIC),
    "negate": ("negate", _ARITHMETIC),
    "and": ("and", (ElementType.BOOL,)),
    "or": ("or", (ElementType.BOOL,)),
    "not": ("not", (ElementType.BOOL,)),
    "select": ("select", _TYPES),
}
"""With the types of their results."""
_COMPARISONS: dict[str, expr.Opcode] = {
    "EQ": "eq",
    "NE": "ne",
    "LT": "lt",
    "LE": "le",
    "GT": "gt",
    "GE": "ge",
}
_MOST_OPERATIONS = 32


@dataclass(frozen=True)
class MaskRead:
    """An array that a mask is computed from."""

    argument: Operand
    """Of the kernel that computes it."""
    element_type: ElementType
    start: int
    steps: Steps

    def view(self, extents: Sequence[int]) -> View:
        """Its elements for a mask of these extents."""
        return View(
            slice=self.argument.view.slice,
            element_type=self.element_type,
            shape=tuple(extents),
            strides=self.steps,
            start=self.start,
        )


@dataclass(frozen=True)
class MaskCode:
    """The arrays that a mask is computed from, and how; its value is that of the last operation."""

    reads: tuple[MaskRead, ...]
    expression: expr.Expression

    @property
    def last(self) -> expr.Operation:
        """The operation whose value it is."""
        return self.expression.operations[-1]

    def negated(self) -> MaskCode:
        """The opposite of a condition."""
        return replace(self, expression=self.expression.negated())

    def changes(self, axis: int) -> bool:
        """Whether it is not the same everywhere along an axis."""
        indices = (
            operation.strides
            for operation in self.expression.operations
            if operation.opcode == "index"
        )
        return any(steps[axis] for steps in (*(read.steps for read in self.reads), *indices))


def mask_code(value: Value, arguments: Sequence[Operand], shape: Sequence[int]) -> MaskCode | None:
    """The code for the elements of a value in a fusion; None if it is anything else.

    Args:
        value: The value.
        arguments: What the kernel of the fusion reads, in the order of its parameters.
        shape: That of the scores.
    """
    if value.fusion is None or len(arguments) != len(value.fusion.operands):
        return None
    node = value.node
    extents = [extent for extent in node.shape.dimensions if extent != 1]
    if extents != [extent for extent in shape if extent != 1] or not row_major(node.shape):
        return None
    reader = _Reader(arguments, tuple(shape))
    last = reader.number(node, ())
    if last is None:
        return None
    code = expr.Expression(operations=tuple(reader.operations), results=(last,))
    return MaskCode(tuple(reader.reads), code)


@dataclass
class _Reader:
    arguments: Sequence[Operand]
    shape: tuple[int, ...]
    reads: list[MaskRead] = field(default_factory=list)
    operations: list[expr.Operation] = field(default_factory=list)
    _known: dict[expr.Operation, int] = field(default_factory=dict)

    def number(self, node: Instruction, moves: tuple[Instruction, ...]) -> int | None:
        """The number of the operation with the value of an instruction, after moves; the last one comes first."""
        operands = node.operands
        if node.opcode in _MOVES:
            return self.number(operands[0], (*moves, node))
        element = node.shape.element_type
        if element not in _TYPES:
            return None
        match node.opcode:
            case "parameter":
                return self._read(node, element, moves)
            case "iota":
                return self._index(node, element, moves)
            case "constant":
                return self._constant(node, element)
        opcode = self._opcode(node, element, operands)
        if opcode is None or any(
            not same_layout(operand.shape, node.shape) for operand in operands
        ):
            return None
        numbers = [self.number(operand, moves) for operand in operands]
        known = tuple(number for number in numbers if number is not None)
        if len(known) != len(numbers):
            return None
        return self._operation(expr.Operation(opcode=opcode, element_type=element, operands=known))

    def _opcode(
        self, node: Instruction, element: ElementType, operands: Sequence[Instruction]
    ) -> expr.Opcode | None:
        if node.opcode == "compare":
            if node.comparison == "TOTALORDER":
                return None
            return _COMPARISONS.get(node.direction)
        if node.opcode == "convert":
            # Not every float is an integer.
            source = operands[0].shape.element_type
            whole = source in (ElementType.BOOL, *_INTEGERS)
            return "convert" if whole and element in _ARITHMETIC else None
        opcode, elements = _OPCODES.get(node.opcode, (None, ()))
        return opcode if element in elements else None

    def _read(
        self, node: Instruction, element: ElementType, moves: tuple[Instruction, ...]
    ) -> int | None:
        argument = self.arguments[node.parameter_number]
        strides, where = self._strides(node.shape, moves), argument.view.slice
        if strides is None or where.step or where.size != node.shape.elements * element.item_bytes:
            return None
        read = MaskRead(argument, element, strides.start, _steps(strides))
        if read not in self.reads:
            self.reads.append(read)
        number = self.reads.index(read)
        return self._operation(expr.Operation(opcode="read", element_type=element, input=number))

    def _index(
        self, node: Instruction, element: ElementType, moves: tuple[Instruction, ...]
    ) -> int | None:
        """An index is the place of an element in memory where they follow each other along its axis alone."""
        (axis,) = node.dimensions
        if element not in _INTEGERS:
            return None
        strides = self._strides(node.shape, moves, axis)
        if strides is None:
            return None
        return self._operation(
            expr.Operation(
                opcode="index", element_type=element, start=strides.start, strides=_steps(strides)
            )
        )

    def _constant(self, node: Instruction, element: ElementType) -> int | None:
        if node.shape.dimensions:
            return None
        value = scalar_of(node)
        if element != ElementType.FLOAT32:
            whole = integer_of(node)
            # Larger ones are not exact as a float.
            value = None if whole is None or abs(whole) > 1 << 31 else float(whole)
        if value is None or math.isnan(value) or value == math.inf:
            return None
        number = value if value > -math.inf else None
        return self._operation(
            expr.Operation(opcode="constant", element_type=element, value=number)
        )

    def _strides(
        self, shape: Shape, moves: tuple[Instruction, ...], axis: int | None = None
    ) -> Strides | None:
        """Distances for both axes of heads, queries and keys."""
        strides = strides_through(shape, moves, self.shape, axis)
        if strides is None:
            return None
        return Strides(strides.start, (*[0] * (_AXES - len(strides.steps)), *strides.steps))

    def _operation(self, made: expr.Operation) -> int | None:
        """The number of an operation, equal ones having one; None if there are too many."""
        if made not in self._known:
            if len(self.operations) == _MOST_OPERATIONS:
                return None
            self._known[made] = len(self.operations)
            self.operations.append(made)
        return self._known[made]


def _steps(strides: Strides) -> Steps:
    outer, inner, queries, keys = strides.steps
    return outer, inner, queries, keys
