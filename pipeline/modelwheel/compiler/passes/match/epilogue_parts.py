"""Reads the computation of a fusion as the parts of an epilogue."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from ....dtypes import ElementType
from ...ir.graph import Operand
from ...ir.hlo import Instruction
from ...ir.match import behind_bitcasts, parameter_of, row_major, scalar_of
from .activations import Activations

ORDER = ("bias", "scale", "shift", "addend", "low", "high", "activation")
"""The order in which the kernels apply the parts of an epilogue."""
_PARTS: dict[tuple[str, str], str] = {
    ("multiply", "columns"): "scale",
    ("add", "columns"): "shift",
    ("add", "array"): "addend",
    ("maximum", "scalar"): "low",
    ("minimum", "scalar"): "high",
}
"""The part that an operation is, by the kind of its other side."""

Part: TypeAlias = "Operand | float | str"
"""A part of an epilogue: where values are, a limit, or an activation."""


@dataclass
class Parts:
    """The parts of an epilogue by name, and the instructions whose values they are."""

    named: dict[str, Part] = field(default_factory=dict)
    sources: list[Instruction] = field(default_factory=list)
    """Instructions outside of the fusion."""


Elsewhere: TypeAlias = Callable[[Instruction], "tuple[Operand, Instruction] | None"]
"""Finds a value that a fusion computes, but not from its product: where it is in memory, and the instruction that it is of."""


class FusionReader:
    """The computation of a fusion, read as parts of an epilogue of one of its parameters."""

    def __init__(
        self,
        fusion: Instruction,
        product: int,
        arguments: Sequence[Operand],
        columns: int,
        elsewhere: Elsewhere = lambda _: None,
    ) -> None:
        self._fusion = fusion
        self._product = product
        self._arguments = arguments
        self._columns = columns
        self._elsewhere = elsewhere
        self._activations = Activations()
        self._sources: list[Instruction] = []

    def parts(self, root: Instruction) -> Parts | None:
        """The parts from the product to an instruction, or None if it is anything else or in another order."""
        self._sources = []
        chain = self._chain(root)
        if chain is None:
            return None
        for number, (before, after) in enumerate(pairwise(name for name, _ in chain)):
            if (before, after) == ("shift", "scale"):
                chain[number] = ("bias", chain[number][1])
        positions = [ORDER.index(name) for name, _ in chain]
        in_order = all(before < after for before, after in pairwise(positions))
        return Parts(dict(chain), self._sources) if in_order else None

    def _chain(self, node: Instruction) -> list[tuple[str, Part]] | None:
        """The parts from the product to a node."""
        if node.shape.element_type != ElementType.FLOAT32:
            return None
        if node.opcode == "parameter":
            return [] if node.parameter_number == self._product else None
        if (found := self._activations.find(node)) is not None:
            before = self._chain(found.argument)
            return None if before is None else [*before, ("activation", found.activation)]
        operands = node.operands
        match node.opcode:
            case "bitcast":  # the same memory with another shape
                return self._chain(operands[0])
            case "clamp":
                low, value, high = operands
                following = [("maximum", low), ("minimum", high)]
            case "add" | "multiply" | "maximum" | "minimum":
                value, other = operands
                if not self._reads_product(value):
                    value, other = other, value
                following = [(node.opcode, other)]
            case _:
                return None
        chain = self._chain(value)
        if chain is None:
            return None
        parts = [self._part(operation, other, node) for operation, other in following]
        if None in parts:
            return None
        return chain + [part for part in parts if part is not None]

    def _reads_product(self, node: Instruction) -> bool:
        if node.opcode == "parameter":
            return node.parameter_number == self._product
        return any(map(self._reads_product, node.operands))

    def _part(
        self, operation: str, other: Instruction, node: Instruction
    ) -> tuple[str, Part] | None:
        """The part that an operation with the value of another node is."""
        # The sums themselves are not kept for a second use.
        if other.shape.element_type != ElementType.FLOAT32 or self._reads_product(other):
            return None
        value: Operand | float | None
        if other.opcode == "parameter":
            kind = "array"
            value = self._argument(other.parameter_number)
            if other.shape != node.shape:
                return None
        elif (value := scalar_of(other, finite=True)) is not None:
            kind = "scalar"
        elif (value := self._per_column(other)) is not None:
            kind = "columns"
        else:
            kind, value = "array", self._other_array(other, node)
        name = _PARTS.get((operation, kind))
        return (name, value) if name is not None and value is not None else None

    def _argument(self, number: int) -> Operand:
        """Where a parameter is."""
        self._sources.append(behind_bitcasts(self._fusion.operands[number]))
        return self._arguments[number]

    def _other_array(self, other: Instruction, node: Instruction) -> Operand | None:
        """Where the value of a node is that the fusion need not compute."""
        found = self._elsewhere(other) if other.shape == node.shape else None
        if found is None:
            return None
        self._sources.append(found[1])
        return found[0]

    def _per_column(self, node: Instruction) -> Operand | None:
        """The parameter with a value for each column that a node repeats in every row."""
        if node.opcode != "broadcast":
            return None
        (operand,) = node.operands
        extents = node.shape.dimensions
        wide = [axis for axis in node.dimensions if extents[axis] != 1]
        # Axes with one element may be anywhere in the layout; several axes of columns are in the order of both.
        fastest = [axis for axis in node.shape.minor_to_major if extents[axis] != 1]
        if wide != fastest[: len(wide)][::-1] or not row_major(operand.shape):
            return None
        if math.prod(extents[axis] for axis in wide) != self._columns:
            return None
        number = parameter_of(operand)
        return None if number is None else self._argument(number)
