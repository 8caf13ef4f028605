"""Reads the computations of fusions as straight-line code on the elements of rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ....dtypes import ElementType
from ....program.arrays import Slice, overlap
from ...ir import thunks as p
from ...ir.counters import Counters
from ...ir.elementwise import ACTIVATIONS, Opcode, Operation, Plane
from ...ir.hlo import HloModule
from ...ir.windows import part_of
from ..recognise.pooling import is_in_order
from .activations import Activations

_BINARY: Mapping[str, Opcode] = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
}

_Value: TypeAlias = "tuple[Any, ...]"
"""("read", plane), ("mask", plane), ("constant", number), or an opcode with the numbers of other values."""


@dataclass
class Code:
    """Values by their numbers; equal ones have one number."""

    values: list[_Value] = field(default_factory=list)
    numbers: dict[_Value, int] = field(default_factory=dict)

    def number(self, *value: Any) -> int:
        """The number of a value."""
        if value not in self.numbers:
            self.numbers[value] = len(self.values)
            self.values.append(value)
        return self.numbers[value]

    def finished(
        self, stored: Sequence[int]
    ) -> tuple[tuple[Plane, ...], tuple[Plane, ...], tuple[Operation, ...], tuple[int, ...]]:
        """What some values need: memory of numbers and of masks, operations on them, and their numbers there."""
        self._join_gates(stored)
        order = sorted(self._needed(stored))  # operands come before
        kinds = {
            kind: [number for number in order if self.values[number][0] == kind]
            for kind in ("read", "mask")
        }
        places = {number: place for place, number in enumerate(kinds["read"])}
        masks = {number: place for place, number in enumerate(kinds["mask"])}
        code: list[Operation] = []
        for number in order:
            opcode, *rest = self.values[number]
            if opcode in kinds:
                continue
            places[number] = len(kinds["read"]) + len(code)
            code.append(_operation(opcode, rest, places, masks))
        planes = [tuple(self.values[n][1] for n in kinds[kind]) for kind in ("read", "mask")]
        return planes[0], planes[1], tuple(code), tuple(places[number] for number in stored)

    def _needed(self, stored: Sequence[int]) -> Counter[int]:
        """The values that some need, these included, and how often each is used."""
        uses, waiting = Counter[int](), list(stored)
        while waiting:
            number = waiting.pop()
            uses[number] += 1
            if uses[number] == 1:
                waiting += self._operands(number)
        return uses

    def _join_gates(self, stored: Sequence[int]) -> None:
        """Makes products of a sigmoid and a tanh one operation each, if nothing else uses either: that saves a division."""
        uses = self._needed(stored)
        for number in uses:
            opcode, *rest = self.values[number]
            if opcode != "multiply" or any(uses[one] != 1 for one in rest):
                continue
            factors: dict[str, int] = dict(
                self.values[one] for one in rest if len(self.values[one]) == 2
            )
            if factors.keys() == {"sigmoid", "tanh"}:
                self.values[number] = ("gated_tanh", factors["sigmoid"], factors["tanh"])

    def _operands(self, number: int) -> list[int]:
        opcode, *rest = self.values[number]
        return [] if opcode in ("read", "mask", "constant") else rest


def _operation(
    opcode: str, rest: list[Any], places: Mapping[int, int], masks: Mapping[int, int]
) -> Operation:
    if opcode == "constant":
        return Operation(opcode="constant", value=rest[0])
    mask = masks[rest.pop(0)] if opcode == "select" else None
    operands = tuple(places[one] for one in rest)
    return Operation.model_validate({"opcode": opcode, "operands": operands, "mask": mask})


@dataclass
class Source:
    """Where values come from."""

    rows: int
    columns: int
    known: Mapping[Slice, int]
    """What is in memory by then."""
    planes: list[Plane] = field(default_factory=list)
    """What had to be read."""

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
        return code.number(kind, plane)


@dataclass
class Reader:
    """The computation of one kernel."""

    hlo: HloModule
    counters: Counters
    instruction: Any
    kernel: p.Kernel
    code: Code
    source: Source

    def result(self) -> int | None:
        """The value that the kernel writes; None if it cannot be expressed."""
        instruction, arguments = self.instruction, self.kernel.arguments
        if len(arguments) != len(instruction.operand_ids):
            return None
        if instruction.opcode == "copy":
            (operand,) = self.hlo.operands(instruction)
            same = all(map(is_in_order, (operand.shape, instruction.shape)))
            return (
                self.source.read(self.code, arguments[0], 0, self.source.columns) if same else None
            )
        if instruction.opcode != "fusion":
            return None
        self._activations = Activations(self.hlo)
        return self._value(self.hlo.called_root(instruction), 0)

    def _value(self, node: Any, start: int) -> int | None:
        """The value of columns of an instruction's result, from one on."""
        shape = node.shape
        if shape.element_type != ElementType.FLOAT32 or not is_in_order(shape):
            return None
        if not shape.dimensions:
            return self._constant(node)
        if math.prod(shape.dimensions[:-1]) != self.source.rows:
            return None
        if (found := self._activations.find(node)) is not None:
            if found.activation not in ACTIVATIONS:
                return None
            return self._of(found.activation, [found.argument], node, start)
        operands = self.hlo.operands(node)
        match node.opcode:
            case "parameter":
                where = self.kernel.arguments[int(node.parameter_number)]
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

    def _of(self, opcode: str, operands: Sequence[Any], node: Any, start: int) -> int | None:
        """The value of an operation on arrays of the same shape."""
        numbers = []
        for operand in operands:
            same = list(operand.shape.dimensions) == list(node.shape.dimensions)
            number = self._value(operand, start) if same else None
            if number is None:
                return None
            numbers.append(number)
        return self.code.number(opcode, *numbers)

    def _constant(self, node: Any) -> int | None:
        if node.opcode != "constant" or len(node.literal.f32s) != 1:
            return None
        value = float(node.literal.f32s[0])
        return self.code.number("constant", value) if math.isfinite(value) else None

    def _broadcast(self, node: Any, start: int) -> int | None:
        """A number everywhere, or a value for each column."""
        (operand,) = self.hlo.operands(node)
        if not operand.shape.dimensions:
            return self._constant(operand)
        source = self.hlo.behind_bitcasts(operand)
        columns = node.shape.dimensions[-1]
        for_columns = (
            list(node.dimensions) == [len(node.shape.dimensions) - 1]
            and list(operand.shape.dimensions) == [columns]
            and source.opcode == "parameter"
        )
        if not for_columns:
            return None
        where = self.kernel.arguments[int(source.parameter_number)]
        if where.size != columns * ElementType.FLOAT32.item_bytes:
            return None
        return self.source.repeated(self.code, where, start)

    def _slice(self, node: Any, start: int) -> int | None:
        """Some columns of all rows."""
        (operand,) = self.hlo.operands(node)
        *rows, columns = node.slice_dimensions
        whole = all(
            (one.start, one.limit, one.stride) == (0, extent, 1)
            for one, extent in zip(rows, operand.shape.dimensions[:-1], strict=True)
        )
        if not whole or columns.stride != 1:
            return None
        return self._value(operand, start + columns.start)

    def _select(self, node: Any, start: int) -> int | None:
        """One of two values, by a predicate for each row."""
        predicate, *choices = self.hlo.operands(node)
        mask = self._mask(predicate)
        values = [self._value(choice, start) for choice in choices]
        if mask is None or None in values:
            return None
        return self.code.number("select", mask, *values)

    def _mask(self, node: Any) -> int | None:
        if node.opcode != "broadcast":
            return None
        (operand,) = self.hlo.operands(node)
        rank = len(node.shape.dimensions)
        by_rows = list(node.dimensions) == list(range(rank - 1)) and is_in_order(operand.shape)
        if not by_rows and math.prod(operand.shape.dimensions) != 1:
            return None
        source = self.hlo.behind_bitcasts(operand)
        if source.opcode == "parameter":
            return self.source.mask(self.code, self.kernel.arguments[int(source.parameter_number)])
        where = part_of(self.hlo, self.counters, self.instruction, self.kernel, source)
        return None if where is None else self.source.mask(self.code, where)
