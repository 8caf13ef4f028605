"""Numbers the values of a module, so that equal ones have equal numbers (global value numbering).

XLA computes what several kernels read in each of them rather than to store it, if that is cheap. A value that one kernel
writes to memory has the same number as the instructions that compute it again inside another.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

from ...dtypes import ElementType
from .hlo import HloModule

_Number: TypeAlias = int
_ELEMENTWISE = frozenset(
    {
        *("add", "multiply", "subtract", "divide", "maximum", "minimum", "clamp", "negate", "abs"),
        *("exponential", "logistic", "tanh", "erf", "rsqrt", "sqrt", "log", "power"),
    }
)
"""Operations on 32-bit floats that have no attributes."""
_CONDITIONS = frozenset({"and", "or", "not", "select", "compare", "convert"})
"""Operations on elements of several types."""


class Numbering:
    """The numbers of values: of the memory that they fill, whatever shape an instruction gives it."""

    def __init__(self, hlo: HloModule) -> None:
        self._hlo = hlo
        self._keys: dict[tuple[Any, ...], _Number] = {}
        self._known: dict[tuple[int, tuple[_Number, ...] | None], _Number] = {}
        for instruction in hlo.outer_instructions:
            self.of(instruction)

    def of(self, instruction: Any) -> _Number:
        """The number of an instruction outside of fusions."""
        return self._of(instruction, None)

    def inside(self, node: Any, fusion: Any) -> _Number:
        """The number of an instruction in the computation of a fusion."""
        return self._of(node, self._arguments(fusion))

    def _arguments(self, fusion: Any) -> tuple[_Number, ...]:
        return tuple(map(self.of, self._hlo.operands(fusion)))

    def _of(self, node: Any, arguments: tuple[_Number, ...] | None) -> _Number:
        key = (node.id, arguments)
        if key not in self._known:
            self._known[key] = self._new(node, arguments)
        return self._known[key]

    def _new(self, node: Any, arguments: tuple[_Number, ...] | None) -> _Number:
        if arguments is not None and node.opcode == "parameter":
            return arguments[int(node.parameter_number)]
        if node.opcode == "tuple":
            return self._number("tuple", node.id, arguments)
        operands = self._hlo.operands(node)
        if node.opcode == "bitcast":
            return self._of(operands[0], arguments)
        if arguments is None and node.opcode == "fusion":
            return self._fusion(node)
        if node.opcode == "constant" and len(node.literal.f32s) == 1 and not node.shape.dimensions:
            return self._number("constant", struct.pack("<f", node.literal.f32s[0]))
        if node.opcode == "constant" and not node.shape.dimensions:
            whole = integer_of(node)
            if whole is not None:
                return self._number("constant", node.shape.element_type, whole)
        form = _form(node.shape)
        forms = [_form(o.shape) for o in operands if o.shape.dimensions or node.opcode != "clamp"]
        if node.opcode in _ELEMENTWISE and all(other == form for other in forms):
            numbers = (self._of(operand, arguments) for operand in operands)
            return self._number(node.opcode, node.shape.element_type, *numbers)
        if node.opcode in _CONDITIONS and all(
            _axes(o.shape) == _axes(node.shape) for o in operands
        ):
            numbers = (self._of(operand, arguments) for operand in operands)
            types = (node.shape.element_type, *(o.shape.element_type for o in operands))
            return self._number(node.opcode, types, *_comparison(node), *numbers)
        if node.opcode == "iota":
            return self._number("iota", form, tuple(node.dimensions))
        if node.opcode == "broadcast":
            (operand,) = operands
            number = self._of(operand, arguments)
            return self._number(
                "broadcast", form, tuple(node.dimensions), _form(operand.shape), number
            )
        return self._number("instruction", node.id, arguments)

    def _fusion(self, fusion: Any) -> _Number:
        arguments = self._arguments(fusion)
        # In the order of the module operands come before: deep computations need no deep recursion.
        for node in self._hlo.called_instructions(fusion):
            self._of(node, arguments)
        return self._of(self._hlo.called_root(fusion), arguments)

    def _number(self, *key: Any) -> _Number:
        return self._keys.setdefault(key, len(self._keys))


def integer_of(node: Any) -> int | None:
    """The number that a constant of one integer or condition is; None for all others."""
    names = {ElementType.BOOL: "preds", ElementType.INT32: "s32s", ElementType.INT64: "s64s"}
    name = names.get(node.shape.element_type)
    values = list(getattr(node.literal, name)) if name else []
    return int(values[0]) if len(values) == 1 else None


def _comparison(node: Any) -> tuple[str, ...]:
    if node.opcode != "compare":
        return ()
    return (node.comparison_direction, node.comparison_type)


def _axes(shape: Any) -> list[Any]:
    return [*shape.dimensions, *shape.layout.minor_to_major]


def _form(shape: Any) -> tuple[Any, ...]:
    return (shape.element_type, tuple(shape.dimensions), tuple(shape.layout.minor_to_major))
