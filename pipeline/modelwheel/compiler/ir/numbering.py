"""Numbers the values of a module, so that equal ones have equal numbers (global value numbering).

XLA computes what several kernels read in each of them rather than to store it, if that is cheap. A value that one kernel
writes to memory has the same number as the instructions that compute it again inside another.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from .hlo import Instruction, Module, Scalar, Shape
from .match import same_layout

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

_SEQUENCES = frozenset({"while", "conditional", "call"})
"""Instructions whose computations have kernels of their own."""


class Numbering:
    """The numbers of values: of the memory that they fill, whatever shape an instruction gives it."""

    def __init__(self, hlo: Module) -> None:
        self._keys: dict[tuple[object, ...], _Number] = {}
        self._known: dict[tuple[Instruction, tuple[_Number, ...] | None], _Number] = {}
        called = (
            instruction for instruction in hlo.instructions if instruction.opcode in _SEQUENCES
        )
        bodies = {computation for instruction in called for computation in instruction.called}
        for computation in hlo.computations:
            if computation is hlo.entry or computation in bodies:
                for instruction in computation.instructions:
                    self.of(instruction)

    def of(self, instruction: Instruction) -> _Number:
        """The number of an instruction outside of fusions."""
        return self._of(instruction, None)

    def inside(self, node: Instruction, fusion: Instruction) -> _Number:
        """The number of an instruction in the computation of a fusion."""
        return self._of(node, self._arguments(fusion))

    def _arguments(self, fusion: Instruction) -> tuple[_Number, ...]:
        return tuple(map(self.of, fusion.operands))

    def _of(self, node: Instruction, arguments: tuple[_Number, ...] | None) -> _Number:
        key = (node, arguments)
        if key not in self._known:
            self._known[key] = self._new(node, arguments)
        return self._known[key]

    def _new(self, node: Instruction, arguments: tuple[_Number, ...] | None) -> _Number:
        if arguments is not None and node.opcode == "parameter":
            return arguments[node.parameter_number]
        if node.opcode == "tuple":
            return self._number("tuple", node, arguments)
        operands, shape = node.operands, node.shape
        if node.opcode == "bitcast":
            return self._of(operands[0], arguments)
        if arguments is None and node.opcode == "fusion":
            return self._fusion(node)
        if node.opcode == "constant" and node.value is not None and not shape.dimensions:
            return self._number("constant", shape.primitive, _bits(node.value))
        others = [o.shape for o in operands if o.shape.dimensions or node.opcode != "clamp"]
        if node.opcode in _ELEMENTWISE and all(other == shape for other in others):
            numbers = (self._of(operand, arguments) for operand in operands)
            return self._number(node.opcode, shape.primitive, *numbers)
        if node.opcode in _CONDITIONS and all(same_layout(o.shape, shape) for o in operands):
            numbers = (self._of(operand, arguments) for operand in operands)
            types = (shape.primitive, *(o.shape.primitive for o in operands))
            return self._number(node.opcode, types, node.direction, node.comparison, *numbers)
        if node.opcode == "iota":
            return self._number("iota", shape, node.dimensions)
        if node.opcode == "broadcast":
            (operand,) = operands
            number = self._of(operand, arguments)
            return self._number("broadcast", shape.primitive, _repetition(node), number)
        return self._number("instruction", node, arguments)

    def _fusion(self, fusion: Instruction) -> _Number:
        arguments = self._arguments(fusion)
        # In the order of the module operands come before: deep computations need no deep recursion.
        for computation in fusion.called:
            for node in computation.instructions:
                self._of(node, arguments)
        return self._of(fusion.called_root, arguments)

    def _number(self, *key: object) -> _Number:
        return self._keys.setdefault(key, len(self._keys))


def _repetition(node: Instruction) -> tuple[tuple[int, int | None], ...]:
    """The axes of a broadcast from the slowest to the fastest: extents, and the operand's axes among its own.

    Axes of one element change nothing in memory.
    """
    (operand,) = node.operands
    own = {axis: number for number, axis in enumerate(_wide_axes(operand.shape))}
    sources = {node.dimensions[axis]: number for axis, number in own.items()}
    extents = node.shape.dimensions
    return tuple((extents[axis], sources.get(axis)) for axis in _wide_axes(node.shape))


def _wide_axes(shape: Shape) -> list[int]:
    """The axes with more than one element, from the slowest to the fastest."""
    return [axis for axis in reversed(shape.minor_to_major) if shape.dimensions[axis] != 1]


def _bits(value: Scalar) -> object:
    """A number such that 0 and -0 are different, and NaN is equal to itself."""
    if isinstance(value, complex):
        return struct.pack("<dd", value.real, value.imag)
    return struct.pack("<d", value) if isinstance(value, float) else value
