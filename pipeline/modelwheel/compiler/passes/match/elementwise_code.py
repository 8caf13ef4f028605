"""Reads the computations of fusions as straight-line code on the elements of rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....dtypes import ElementType
from ....program.arrays import Slice, overlap
from ....program.expr import ACTIVATIONS
from ...ir.counters import Counters
from ...ir.emitted import thunks as p
from ...ir.emitted.elementwise import Opcode, Operation, Plane
from ...ir.hlo import Instruction
from ...ir.match import behind_bitcasts, parameter_of, row_major, scalar_of
from ...ir.windows import part_of
from .activations import Activations

_BINARY: Mapping[str, Opcode] = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
}


@dataclass(frozen=True)
class _Value:
    opcode: str
    """`read` or `mask` of what is in memory, or an operation."""
    operands: tuple[int, ...] = ()
    """The numbers of other values; of a selection the mask's first."""
    plane: Plane | None = None
    constant: float = 0.0


@dataclass
class Code:
    """Values by their numbers; equal ones have one number."""

    values: list[_Value] = field(default_factory=list)
    numbers: dict[_Value, int] = field(default_factory=dict)

    def number(
        self, opcode: str, *operands: int, plane: Plane | None = None, constant: float = 0.0
    ) -> int:
        """The number of a value."""
        value = _Value(opcode, operands, plane, constant)
        if value not in self.numbers:
            self.numbers[value] = len(self.values)
            self.values.append(value)
        return self.numbers[value]

    def finished(
        self, stored: Sequence[int]
    ) -> tuple[tuple[Plane, ...], tuple[Plane, ...], tuple[Operation, ...], tuple[int, ...]]:
        """The operands of some values: memory of numbers and of masks, operations on them, and their numbers there."""
        self._join_gates(stored)
        order = sorted(self._needed(stored))  # operands come before
        kinds = {
            kind: [number for number in order if self.values[number].opcode == kind]
            for kind in ("read", "mask")
        }
        places = {number: place for place, number in enumerate(kinds["read"])}
        masks = {number: place for place, number in enumerate(kinds["mask"])}
        code: list[Operation] = []
        for number in order:
            value = self.values[number]
            if value.opcode in kinds:
                continue
            places[number] = len(kinds["read"]) + len(code)
            code.append(_operation(value, places, masks))
        planes, masked = (
            tuple(plane for n in kinds[kind] if (plane := self.values[n].plane) is not None)
            for kind in ("read", "mask")
        )
        return planes, masked, tuple(code), tuple(places[number] for number in stored)

    def _needed(self, stored: Sequence[int]) -> Counter[int]:
        """The values that some need, these included, and how often each is used."""
        uses, waiting = Counter[int](), list(stored)
        while waiting:
            number = waiting.pop()
            uses[number] += 1
            if uses[number] == 1:
                waiting += self.values[number].operands
        return uses

    def _join_gates(self, stored: Sequence[int]) -> None:
        """Makes products of a sigmoid and a tanh one operation each, if nothing else uses either: that saves a division."""
        uses = self._needed(stored)
        for number in uses:
            product = self.values[number]
            if product.opcode != "multiply" or any(uses[n] != 1 for n in product.operands):
                continue
            factors = {
                value.opcode: value for value in map(self.values.__getitem__, product.operands)
            }
            if factors.keys() == {"sigmoid", "tanh"}:
                operands = factors["sigmoid"].operands + factors["tanh"].operands
                self.values[number] = _Value("gated_tanh", operands)


def _operation(value: _Value, places: Mapping[int, int], masks: Mapping[int, int]) -> Operation:
    if value.opcode == "constant":
        return Operation(opcode="constant", value=value.constant)
    operands, mask = value.operands, None
    if value.opcode == "select":
        mask, operands = masks[operands[0]], operands[1:]
    numbers = tuple(places[number] for number in operands)
    return Operation.model_validate({"opcode": value.opcode, "operands": numbers, "mask": mask})


@dataclass
class Source:
    """Where values come from."""

    rows: int
    columns: int
    known: Mapping[Slice, int]
    """The values that are in memory by then."""
    planes: list[Plane] = field(default_factory=list)
    """Memory that had to be read."""

    def read(self, code: Code, where: Slice, start: int, row: int) -> int | None:
        """The value of some columns of rows in memory.

        Args:
            code: The values so far.
            where: The memory.
            start: The first column.
            row: The elements of a row.
        """
        whole = start == 0 and row == self.columns
        if whole and where in self.known:
            return self.known[where]
        if where.size != self.rows * row * ElementType.FLOAT32.item_bytes:
            return None
        return self._plane(code, "read", Plane(slice=where, start=start, row_step=row))

    def repeated(self, code: Code, where: Slice, start: int) -> int | None:
        """The value of some columns that are the same in all rows."""
        return self._plane(code, "read", Plane(slice=where, start=start, row_step=0))

    def mask(self, code: Code, where: Slice) -> int | None:
        """The value of one byte for each row."""
        if where.size != self.rows:
            return None
        return self._plane(code, "mask", Plane(slice=where, start=0, row_step=1))

    def _plane(self, code: Code, kind: str, plane: Plane) -> int | None:
        if any(overlap(plane.slice, where) for where in self.known):
            return None
        self.planes.append(plane)
        return code.number(kind, plane=plane)


@dataclass
class Reader:
    """The computation of one kernel."""

    counters: Counters
    instruction: Instruction
    kernel: p.Kernel
    code: Code
    source: Source

    def result(self) -> int | None:
        """The value that the kernel writes; None if it cannot be expressed."""
        instruction, arguments = self.instruction, self.kernel.arguments
        if len(arguments) != len(instruction.operands):
            return None
        if instruction.opcode == "copy":
            (operand,) = instruction.operands
            same = row_major(operand.shape, instruction.shape)
            return (
                self.source.read(self.code, arguments[0], 0, self.source.columns) if same else None
            )
        if instruction.opcode != "fusion":
            return None
        self._activations = Activations()
        return self._value(instruction.called_root, 0)

    def _value(self, node: Instruction, start: int) -> int | None:
        """The value of columns of an instruction's result, from one on."""
        shape = node.shape
        if shape.element_type != ElementType.FLOAT32 or not row_major(shape):
            return None
        if not shape.dimensions:
            return self._constant(node)
        if math.prod(shape.dimensions[:-1]) != self.source.rows:
            return None
        if (found := self._activations.find(node)) is not None:
            if found.activation not in ACTIVATIONS:
                return None
            return self._of(found.activation, [found.argument], node, start)
        operands = node.operands
        match node.opcode:
            case "parameter":
                where = self.kernel.arguments[node.parameter_number]
                return self.source.read(self.code, where, start, shape.dimensions[-1])
            case "bitcast" if operands[0].shape.dimensions[-1:] == shape.dimensions[-1:]:
                return self._value(operands[0], start)
            case "broadcast":
                return self._broadcast(node, start)
            case "slice":
                return self._slice(node, start)
            case "negate" | "add" | "subtract" | "multiply" | "divide":
                return self._of(node.opcode, operands, node, start)
            case "select":
                return self._select(node, start)
            case _:
                return None

    def _of(
        self, opcode: str, operands: Sequence[Instruction], node: Instruction, start: int
    ) -> int | None:
        """The value of an operation on arrays of the same shape."""
        numbers = []
        for operand in operands:
            same = operand.shape.dimensions == node.shape.dimensions
            number = self._value(operand, start) if same else None
            if number is None:
                return None
            numbers.append(number)
        return self.code.number(opcode, *numbers)

    def _constant(self, node: Instruction) -> int | None:
        value = scalar_of(node, finite=True)
        return None if value is None else self.code.number("constant", constant=value)

    def _broadcast(self, node: Instruction, start: int) -> int | None:
        """A number everywhere, or a value for each column."""
        (operand,) = node.operands
        if not operand.shape.dimensions:
            return self._constant(operand)
        source = parameter_of(operand)
        columns = node.shape.dimensions[-1]
        for_columns = node.dimensions == (node.shape.rank - 1,) and operand.shape.dimensions == (
            columns,
        )
        if not for_columns or source is None:
            return None
        where = self.kernel.arguments[source]
        if where.size != columns * ElementType.FLOAT32.item_bytes:
            return None
        return self.source.repeated(self.code, where, start)

    def _slice(self, node: Instruction, start: int) -> int | None:
        """Some columns of all rows."""
        (operand,) = node.operands
        *rows, columns = node.slices
        whole = all(
            (one.start, one.limit, one.stride) == (0, extent, 1)
            for one, extent in zip(rows, operand.shape.dimensions[:-1], strict=True)
        )
        if not whole or columns.stride != 1:
            return None
        return self._value(operand, start + columns.start)

    def _select(self, node: Instruction, start: int) -> int | None:
        """One of two values, by a predicate for each row."""
        predicate, *choices = node.operands
        mask = self._mask(predicate)
        values = [value for choice in choices if (value := self._value(choice, start)) is not None]
        if mask is None or len(values) != len(choices):
            return None
        return self.code.number("select", mask, *values)

    def _mask(self, node: Instruction) -> int | None:
        if node.opcode != "broadcast":
            return None
        (operand,) = node.operands
        rank = node.shape.rank
        by_rows = node.dimensions == tuple(range(rank - 1)) and row_major(operand.shape)
        if not by_rows and operand.shape.elements != 1:
            return None
        source = behind_bitcasts(operand)
        if source.opcode == "parameter":
            return self.source.mask(self.code, self.kernel.arguments[source.parameter_number])
        where = part_of(self.counters, self.instruction, self.kernel, source)
        return None if where is None else self.source.mask(self.code, where)
