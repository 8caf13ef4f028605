"""Reads what is added to scores of attention, or decides which of them count, as straight-line code on its elements.

XLA computes masks in the kernels of the softmax: from what is in memory, from indices and from constants, moved and repeated along
axes. Each of these is a function of the indices of the mask itself, with a distance in memory for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ....dtypes import ELEMENT_TYPES, ElementType
from ....program.arrays import Slice
from ...ir import thunks as p
from ...ir.hlo import HloModule
from ...ir.masks import AXES, MaskCode, MaskOpcode, MaskOperation, MaskRead
from ...ir.numbering import integer_of
from ...ir.views import Strides, strides_through
from ..recognise.pooling import is_in_order
from .softmaxes import Value

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


def mask_code(
    hlo: HloModule, value: Value, kernel: p.Kernel, shape: Sequence[int]
) -> MaskCode | None:
    """The code for the elements of a value in a fusion; None if it is anything else.

    Args:
        hlo: The module.
        value: The value.
        kernel: The call of the fusion.
        shape: That of the scores.
    """
    if value.fusion is None or len(kernel.arguments) != len(value.fusion.operand_ids):
        return None
    node = value.node
    extents = [extent for extent in node.shape.dimensions if extent != 1]
    if extents != [extent for extent in shape if extent != 1] or not is_in_order(node.shape):
        return None
    reader = _Reader(hlo, kernel.arguments, tuple(shape))
    if reader.number(node, ()) is None:
        return None
    reads = (MaskRead(slice=s, element_type=t) for s, t in reader.reads)
    return MaskCode(reads=tuple(reads), operations=tuple(reader.operations))


@dataclass
class _Reader:
    hlo: HloModule
    arguments: Sequence[Slice]
    shape: tuple[int, ...]
    reads: list[tuple[Slice, ElementType]] = field(default_factory=list)
    operations: list[MaskOperation] = field(default_factory=list)
    _known: dict[MaskOperation, int] = field(default_factory=dict)

    def number(self, node: Any, moves: tuple[Any, ...]) -> int | None:
        """The number of the operation with the value of an instruction, after moves; the last one comes first."""
        operands = self.hlo.operands(node)
        if node.opcode in _MOVES:
            return self.number(operands[0], (*moves, node))
        if node.shape.element_type not in _TYPES:
            return None
        element = ELEMENT_TYPES[node.shape.element_type]
        match node.opcode:
            case "parameter":
                return self._read(node, element, moves)
            case "iota":
                return self._index(node, element, moves)
            case "constant":
                return self._constant(node, element)
        opcode = self._opcode(node, element, operands)
        if opcode is None or any(not _same(one.shape, node.shape) for one in operands):
            return None
        numbers = [self.number(one, moves) for one in operands]
        found = tuple(number for number in numbers if number is not None)
        if len(found) != len(numbers):
            return None
        return self._operation(opcode, element, operands=found)

    def _opcode(
        self, node: Any, element: ElementType, operands: Sequence[Any]
    ) -> MaskOpcode | None:
        if node.opcode == "compare":
            if node.comparison_type == "TOTALORDER":
                return None
            return _COMPARISONS.get(node.comparison_direction)
        if node.opcode == "convert":
            # Not every float is an integer.
            source = operands[0].shape.element_type
            whole = source in (ElementType.BOOL, *_INTEGERS)
            return "convert" if whole and element in _ARITHMETIC else None
        opcode, elements = _OPCODES.get(node.opcode, (None, ()))
        return opcode if element in elements else None

    def _read(self, node: Any, element: ElementType, moves: tuple[Any, ...]) -> int | None:
        where = self.arguments[node.parameter_number]
        strides = self._strides(node.shape, moves)
        if strides is None or where.step or where.size != _size(node.shape) * element.item_bytes:
            return None
        if (where, element) not in self.reads:
            self.reads.append((where, element))
        number = self.reads.index((where, element))
        return self._operation("read", element, number=number, **_place(strides))

    def _index(self, node: Any, element: ElementType, moves: tuple[Any, ...]) -> int | None:
        """An index is the place of an element in memory where they follow each other along its axis alone."""
        (axis,) = node.dimensions
        if element not in _INTEGERS:
            return None
        strides = self._strides(node.shape, moves, axis)
        return None if strides is None else self._operation("index", element, **_place(strides))

    def _constant(self, node: Any, element: ElementType) -> int | None:
        if node.shape.dimensions:
            return None
        if element != ElementType.FLOAT32:
            whole = integer_of(node)
            # Larger ones are not exact as a float.
            if whole is None or abs(whole) > 1 << 31:
                return None
            return self._operation("constant", element, value=float(whole))
        value = float(node.literal.f32s[0])
        if math.isnan(value) or value == math.inf:
            return None
        return self._operation("constant", element, value=value if value > -math.inf else None)

    def _strides(
        self, shape: Any, moves: tuple[Any, ...], axis: int | None = None
    ) -> Strides | None:
        """Distances for both axes of heads, queries and keys."""
        found = strides_through(self.hlo, shape, moves, self.shape, axis)
        if found is None:
            return None
        return Strides(found.start, (*[0] * (AXES - len(found.steps)), *found.steps))

    def _operation(self, opcode: MaskOpcode, element: ElementType, **fields: Any) -> int | None:
        made = MaskOperation(opcode=opcode, element_type=element, **fields)
        if made not in self._known:
            if len(self.operations) == _MOST_OPERATIONS:
                return None
            self._known[made] = len(self.operations)
            self.operations.append(made)
        return self._known[made]


def _place(strides: Strides) -> dict[str, Any]:
    return {"start": strides.start, "steps": strides.steps}


def _same(one: Any, other: Any) -> bool:
    """Whether elements with the same indices are at the same places."""
    return list(one.dimensions) == list(other.dimensions) and list(
        one.layout.minor_to_major
    ) == list(other.layout.minor_to_major)


def _size(shape: Any) -> int:
    return math.prod(shape.dimensions)
