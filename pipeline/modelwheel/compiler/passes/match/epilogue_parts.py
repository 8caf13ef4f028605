"""Reads the computation of a fusion as the parts of an epilogue."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ....dtypes import ElementType
from ...ir.graph import Operand
from ...ir.hlo import Instruction
from ...ir.match import behind_bitcasts, parameter_of, row_major, scalar_of
from .activations import Activations

NUMBERS = ("low", "high", "activation", "slope", "factor", "offset")
"""The parts of an epilogue that are no operands."""
_AFTER = {"scale": "factors", "shift": "offsets"}
"""The names of parts with a value for each column where they follow an activation or a limit."""
_ORDER = ("bias", "scale", "shift", "addend", *NUMBERS)
PLACES = {name: place for place, name in enumerate(_ORDER)} | {
    "factors": _ORDER.index("factor"),
    "offsets": _ORDER.index("offset"),
}
"""The order in which the kernels apply the parts of an epilogue; there is one of each place."""
_PARTS: dict[tuple[str, str], str] = {
    ("multiply", "columns"): "scale",
    ("add", "columns"): "shift",
    ("add", "array"): "addend",
    ("maximum", "scalar"): "low",
    ("minimum", "scalar"): "high",
    ("multiply", "scalar"): "factor",
    ("add", "scalar"): "offset",
}
"""The part that an operation is, by the kind of its other side."""

Part: TypeAlias = "Operand | float | str"
"""A part of an epilogue: where values are, a limit, or an activation."""
Named: TypeAlias = Mapping[str, Part]
"""The parts of an epilogue by name."""
Chain: TypeAlias = Sequence[tuple[str, Part]]
"""Parts as they follow each other, each with its first name."""
Finder: TypeAlias = "Callable[[Instruction], Operand | None]"
"""Finds the value of an instruction of a fusion that the kernel need not compute."""


def in_order(chain: Chain, done: int = -1) -> Named | None:
    """Parts that follow each other as those of an epilogue; None if the kernels do not apply them in this order.

    Args:
        chain: The parts.
        done: The place of the last part that the product has before these; below all if it has none.
    """
    names = [name for name, _ in chain]
    parts: dict[str, Part] = {}
    place = done
    for number, (first, part) in enumerate(chain):
        name = "bias" if names[number : number + 2] == ["shift", "scale"] else first
        if PLACES[name] <= place:
            name = _AFTER.get(first, first)
        if PLACES[name] <= place:
            return None
        parts[name], place = part, PLACES[name]
    return parts


@dataclass
class FusionReader:
    """The computation of a fusion, read as parts of an epilogue of one of its values."""

    product: Instruction
    """That value: a parameter, or what is computed of several."""
    arguments: Sequence[Operand]
    """What the kernel reads for all parameters."""
    columns: int
    """Of the product."""
    elsewhere: Finder
    """Finds an array that another node has computed or can."""
    window: Finder
    """Finds the part of an argument that an iteration of a loop takes."""
    _activations: Activations = field(default_factory=Activations)

    def chain(self, node: Instruction) -> Chain | None:
        """The parts from the product to an instruction, or None if it is anything else."""
        if node.shape.element_type != ElementType.FLOAT32:
            return None
        if node is self.product:
            return []
        if (match := self._activations.find(node)) is not None:
            before = self.chain(match.argument)
            if before is None:
                return None
            numbers = {"slope": match.slope, "factor": match.factor}
            given = [(name, number) for name, number in numbers.items() if number is not None]
            return [*before, ("activation", match.activation), *given]
        operands = node.operands
        match node.opcode:
            case "bitcast":  # the same memory with another shape
                return self.chain(operands[0])
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
        chain = self.chain(value)
        if chain is None:
            return None
        parts = [self._part(operation, other, node) for operation, other in following]
        if None in parts:
            return None
        return [*chain, *(part for part in parts if part is not None)]

    def _reads_product(self, node: Instruction) -> bool:
        return node is self.product or any(map(self._reads_product, node.operands))

    def _part(
        self, operation: str, other: Instruction, node: Instruction
    ) -> tuple[str, Part] | None:
        """The part that an operation with the value of another node is."""
        # The sums themselves are not kept for a second use.
        if other.shape.element_type != ElementType.FLOAT32 or self._reads_product(other):
            return None
        value: Operand | float | None
        if other.opcode == "parameter":
            kind, value = "array", self.arguments[other.parameter_number]
            if other.shape != node.shape:
                return None
        elif (value := scalar_of(other, finite=True)) is not None:
            kind = "scalar"
        elif (value := self._per_column(other)) is not None:
            kind = "columns"
        else:
            kind, value = "array", self._array(other, node)
        name = _PARTS.get((operation, kind))
        return (name, value) if name is not None and value is not None else None

    def _array(self, other: Instruction, node: Instruction) -> Operand | None:
        """Where the value of an instruction of the shape of another one is."""
        if other.shape != node.shape:
            return None
        return self.window(behind_bitcasts(other)) or self.elsewhere(other)

    def _per_column(self, node: Instruction) -> Operand | None:
        """The argument, or a part of it, with a value for each column that a node repeats in every row."""
        if node.opcode != "broadcast":
            return None
        (operand,) = node.operands
        extents = node.shape.dimensions
        wide = [axis for axis in node.dimensions if extents[axis] != 1]
        # Axes with one element may be anywhere in the layout; several axes of columns are in the order of both.
        fastest = [axis for axis in node.shape.minor_to_major if extents[axis] != 1]
        if wide != fastest[: len(wide)][::-1] or not row_major(operand.shape):
            return None
        if math.prod(extents[axis] for axis in wide) != self.columns:
            return None
        number = parameter_of(operand)
        return self.window(behind_bitcasts(operand)) if number is None else self.arguments[number]
