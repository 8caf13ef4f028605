"""Reads what is added to scores of attention, or decides which of them count, as straight-line code on its elements.

XLA computes masks in the kernels of the softmax: from what is in memory, from indices and from constants, moved and repeated along
axes. Each of these is a function of the indices of the mask itself, with a distance in memory for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ....dtypes import ElementType
from ....program.arrays import Slice
from ...ir.emitted import thunks as p
from ...ir.emitted.masks import AXES, MaskCode, MaskOpcode, MaskOperation, MaskRead
from ...ir.hlo import Instruction, Shape
from ...ir.match import Value, integer_of, row_major, same_layout, scalar_of
from ...ir.views import Strides, strides_through

_MOVES = frozenset({"bitcast", "broadcast", "copy", "reshape", "slice", "transpose"})
_INTEGERS = (ElementType.INT32, ElementType.INT64)
_TYPES = (ElementType.BOOL, *_INTEGERS, ElementType.FLOAT32)
_ARITHMETIC = (*_INTEGERS, ElementType.FLOAT32)
_OPCODES: dict[str, tuple[MaskOpcode, tuple[ElementType, ...]]] = {
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
_COMPARISONS: dict[str, MaskOpcode] = {
    "EQ": "eq",
    "NE": "ne",
    "LT": "lt",
    "LE": "le",
    "GT": "gt",
    "GE": "ge",
}
_MOST_OPERATIONS = 32


def mask_code(value: Value, kernel: p.Kernel, shape: Sequence[int]) -> MaskCode | None:
    """The code for the elements of a value in a fusion; None if it is anything else.

    Args:
        value: The value.
        kernel: The call of the fusion.
        shape: That of the scores.
    """
    if value.fusion is None or len(kernel.arguments) != len(value.fusion.operands):
        return None
    node = value.node
    extents = [extent for extent in node.shape.dimensions if extent != 1]
    if extents != [extent for extent in shape if extent != 1] or not row_major(node.shape):
        return None
    reader = _Reader(kernel.arguments, tuple(shape))
    if reader.number(node, ()) is None:
        return None
    reads = (MaskRead(slice=s, element_type=t) for s, t in reader.reads)
    return MaskCode(reads=tuple(reads), operations=tuple(reader.operations))


@dataclass
class _Reader:
    arguments: Sequence[Slice]
    shape: tuple[int, ...]
    reads: list[tuple[Slice, ElementType]] = field(default_factory=list)
    operations: list[MaskOperation] = field(default_factory=list)
    _known: dict[MaskOperation, int] = field(default_factory=dict)

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
        if opcode is None or any(not same_layout(one.shape, node.shape) for one in operands):
            return None
        numbers = [self.number(one, moves) for one in operands]
        found = tuple(number for number in numbers if number is not None)
        if len(found) != len(numbers):
            return None
        return self._operation(MaskOperation(opcode=opcode, element_type=element, operands=found))

    def _opcode(
        self, node: Instruction, element: ElementType, operands: Sequence[Instruction]
    ) -> MaskOpcode | None:
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
        where = self.arguments[node.parameter_number]
        strides = self._strides(node.shape, moves)
        if strides is None or where.step or where.size != node.shape.elements * element.item_bytes:
            return None
        if (where, element) not in self.reads:
            self.reads.append((where, element))
        number = self.reads.index((where, element))
        return self._operation(
            MaskOperation(
                opcode="read",
                element_type=element,
                number=number,
                start=strides.start,
                steps=_steps(strides),
            )
        )

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
            MaskOperation(
                opcode="index", element_type=element, start=strides.start, steps=_steps(strides)
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
        return self._operation(MaskOperation(opcode="constant", element_type=element, value=number))

    def _strides(
        self, shape: Shape, moves: tuple[Instruction, ...], axis: int | None = None
    ) -> Strides | None:
        """Distances for both axes of heads, queries and keys."""
        found = strides_through(shape, moves, self.shape, axis)
        if found is None:
            return None
        return Strides(found.start, (*[0] * (AXES - len(found.steps)), *found.steps))

    def _operation(self, made: MaskOperation) -> int | None:
        """The number of an operation, equal ones having one; None if there are too many."""
        if made not in self._known:
            if len(self.operations) == _MOST_OPERATIONS:
                return None
            self._known[made] = len(self.operations)
            self.operations.append(made)
        return self._known[made]


def _steps(strides: Strides) -> tuple[int, int, int, int]:
    outer, inner, queries, keys = strides.steps
    return outer, inner, queries, keys
