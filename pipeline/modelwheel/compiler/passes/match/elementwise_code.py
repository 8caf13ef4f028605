"""Reads the computations of fusions as straight-line code on the elements of rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....dtypes import ElementType
from ....program.expr import ACTIVATIONS, Expression, Opcode, Operation
from ....program.view import View
from ...ir.graph import Node, Operand, Value
from ...ir.hlo import Instruction
from ...ir.loops.counters import Counters
from ...ir.loops.windows import part_of, rows_of
from ...ir.match import behind_bitcasts, parameter_of, row_major, scalar_of
from .activations import Activations

_ARITHMETIC: Mapping[str, Opcode] = {
    "negate": "negate",
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
}
_FUNCTIONS: Mapping[str, Opcode] = {opcode: opcode for opcode in ACTIVATIONS}

_FLOAT = ElementType.FLOAT32


@dataclass(frozen=True)
class _Number:
    opcode: Opcode
    operands: tuple[int, ...] = ()
    """The numbers of other values; of a selection the condition's first."""
    read: Operand | None = None
    """What is read, as rows and columns."""
    constant: float | None = None
    element: ElementType = ElementType.FLOAT32


@dataclass
class Code:
    """Values by their numbers; equal ones have one number."""

    values: list[_Number] = field(default_factory=list)
    numbers: dict[_Number, int] = field(default_factory=dict)

    def number(
        self,
        opcode: Opcode,
        *operands: int,
        read: Operand | None = None,
        constant: float | None = None,
        element: ElementType = ElementType.FLOAT32,
    ) -> int:
        """The number of a value."""
        value = _Number(opcode, operands, read, constant, element)
        if value not in self.numbers:
            self.numbers[value] = len(self.values)
            self.values.append(value)
        return self.numbers[value]

    def finished(self, stored: Sequence[int]) -> tuple[list[Operand], Expression]:
        """The operands that some values are computed from, conditions last, and how."""
        self._join_gates(stored)
        order = sorted(self._needed(stored))  # operands come before
        reads = [(n, read) for n in order if (read := self.values[n].read) is not None]
        reads.sort(key=lambda read: read[1].view.element_type == ElementType.BOOL)
        places: dict[int, int] = {}
        code: list[Operation] = []
        for number, read in reads:
            places[number] = len(code)
            element = read.view.element_type
            code.append(Operation(opcode="read", element_type=element, input=len(code)))
        for number in order:
            if number not in places:
                places[number] = len(code)
                value = self.values[number]
                operands = tuple(places[operand] for operand in value.operands)
                code.append(
                    Operation(
                        opcode=value.opcode,
                        element_type=value.element,
                        operands=operands,
                        value=value.constant,
                    )
                )
        results = tuple(places[number] for number in stored)
        return [read for _, read in reads], Expression(operations=tuple(code), results=results)

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
                self.values[number] = _Number("gated_tanh", operands)


@dataclass
class Source:
    """Where values come from."""

    rows: int
    columns: int
    known: Mapping[Value, int | None]
    """The numbers of values that are computed already; None of what is only a part of the value."""
    reads: list[Operand] = field(default_factory=list)
    """What had to be read, as rows and columns."""

    def read(self, code: Code, operand: Operand, start: int, row: int) -> int | None:
        """The number of some columns of rows.

        Args:
            code: The values so far.
            operand: The rows.
            start: The first column.
            row: The elements of a row.
        """
        part = operand.view.slice
        if operand.value in self.known:
            whole = (part.offset, part.size, part.step) == (0, operand.value.size, 0)
            is_all = whole and start == 0 and row == self.columns
            return self.known[operand.value] if is_all else None
        if part.size != self.rows * row * _FLOAT.item_bytes:
            return None
        return self._read(code, operand, _FLOAT, (row, 1), start)

    def apart(self, code: Code, operand: Operand, start: int) -> int | None:
        """The number of some columns of rows between which there are others; see `rows_of`."""
        if operand.view.shape[0] != self.rows:
            return None
        return self._read(code, operand, _FLOAT, operand.view.strides, start)

    def repeated(self, code: Code, operand: Operand, start: int) -> int | None:
        """The number of some columns that are the same in all rows."""
        return self._read(code, operand, _FLOAT, (0, 1), start)

    def mask(self, code: Code, operand: Operand) -> int | None:
        """The number of a condition of one byte for each row."""
        if operand.view.slice.size != self.rows:
            return None
        return self._read(code, operand, ElementType.BOOL, (1, 0), 0)

    def _read(
        self,
        code: Code,
        operand: Operand,
        element: ElementType,
        strides: tuple[int, ...],
        start: int,
    ) -> int | None:
        if operand.value in self.known:
            return None
        view = View(
            slice=operand.view.slice,
            element_type=element,
            shape=(self.rows, self.columns),
            strides=strides,
            start=start,
        )
        read = Operand(operand.value, view)
        self.reads.append(read)
        return code.number("read", read=read)


@dataclass
class Reader:
    """The computation of one kernel."""

    counters: Counters | None
    """Those of the loop, if its trip count is known and the kernel is in its body."""
    instruction: Instruction
    kernel: Node
    code: Code
    source: Source

    def result(self) -> int | None:
        """The value that the kernel writes; None if it cannot be expressed."""
        instruction = self.instruction
        self._arguments = arguments = list(self.kernel.inputs.values())
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
        if shape.element_type != _FLOAT or not row_major(shape):
            return None
        if not shape.dimensions:
            return self._constant(node)
        if math.prod(shape.dimensions[:-1]) != self.source.rows:
            return None
        match = self._activations.find(node)
        if match is not None and match.activation in _FUNCTIONS:
            return self._of(_FUNCTIONS[match.activation], [match.argument], node, start)
        operands = node.operands
        match node.opcode:
            case "parameter":
                where = self._arguments[node.parameter_number]
                return self.source.read(self.code, where, start, shape.dimensions[-1])
            case "bitcast" if operands[0].shape.dimensions[-1:] == shape.dimensions[-1:]:
                return self._value(operands[0], start)
            case "broadcast":
                return self._broadcast(node, start)
            case "slice":
                return self._slice(node, start)
            case "dynamic-slice" if (window := self._window(node)) is not None:
                return self.source.read(self.code, window, start, shape.dimensions[-1])
            case "dynamic-slice" if (rows := self._rows(node)) is not None:
                return self.source.apart(self.code, rows, start)
            case opcode if opcode in _ARITHMETIC:
                return self._of(_ARITHMETIC[opcode], operands, node, start)
            case "select":
                return self._select(node, start)
            case _:
                return None

    def _of(
        self, opcode: Opcode, operands: Sequence[Instruction], node: Instruction, start: int
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
        where = self._arguments[source]
        if where.view.slice.size != columns * _FLOAT.item_bytes:
            return None
        return self.source.repeated(self.code, where, start)

    def _slice(self, node: Instruction, start: int) -> int | None:
        """Some columns of all rows."""
        (operand,) = node.operands
        *rows, columns = node.slices
        whole = all(
            (row.start, row.limit, row.stride) == (0, extent, 1)
            for row, extent in zip(rows, operand.shape.dimensions[:-1], strict=True)
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
            return self.source.mask(self.code, self._arguments[source.parameter_number])
        where = self._window(source)
        return None if where is None else self.source.mask(self.code, where)

    def _window(self, node: Instruction) -> Operand | None:
        """The part of an array that an iteration reads, if an instruction is that."""
        if self.counters is None:
            return None
        return part_of(self.counters, self.instruction, self.kernel, node)

    def _rows(self, node: Instruction) -> Operand | None:
        """The part of an array that an iteration reads, as rows that are apart, if an instruction is that."""
        if self.counters is None:
            return None
        return rows_of(self.counters, self.instruction, self.kernel, node)
