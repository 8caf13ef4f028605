"""Reads the computation of a fusion as the parts of an epilogue."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from ....dtypes import ElementType
from ....program.arrays import Slice
from ...ir import thunks as p
from ...ir.hlo import HloModule
from ..recognise.pooling import is_in_order
from .activations import Activations

_ORDER = ("bias", "scale", "shift", "addend", "low", "high", "activation")
"""The order in which the kernels apply the parts of an epilogue."""
_PARTS: dict[tuple[str, str], str] = {
    ("multiply", "columns"): "scale",
    ("add", "columns"): "shift",
    ("add", "array"): "addend",
    ("maximum", "scalar"): "low",
    ("minimum", "scalar"): "high",
}
"""The part that an operation is, by the kind of its other side."""

_Part: TypeAlias = "tuple[str, Slice | float | str]"
"""A part of an epilogue by its name."""


@dataclass
class Parts:
    """The parts of an epilogue by name, and the instructions whose values they are."""

    named: dict[str, Any] = field(default_factory=dict)
    sources: list[Any] = field(default_factory=list)
    """Instructions outside of the fusion."""


def followed_by(
    epilogue: p.Epilogue | None, result: Slice, parts: Mapping[str, Any]
) -> p.Epilogue | None:
    """An epilogue with further parts; None if the kernels do not apply them after those that it has."""
    if epilogue is None:
        return p.Epilogue(result=result, **parts)
    there = [_ORDER.index(name) for name in _ORDER if getattr(epilogue, name) is not None]
    if there and parts and max(there) >= min(map(_ORDER.index, parts)):
        return None
    return epilogue.model_copy(update={"result": result, **parts})


Elsewhere: TypeAlias = Callable[[Any], "tuple[Slice, Any] | None"]
"""Finds a value that a fusion computes, but not from its product: where it is in memory, and the instruction that it is of."""


class FusionReader:
    """The computation of a fusion, read as parts of an epilogue of one of its parameters."""

    def __init__(
        self,
        hlo: HloModule,
        fusion: Any,
        product: int,
        arguments: Sequence[Slice],
        columns: int,
        elsewhere: Elsewhere = lambda _: None,
    ) -> None:
        self._hlo = hlo
        self._fusion = fusion
        self._product = product
        self._arguments = arguments
        self._columns = columns
        self._elsewhere = elsewhere
        self._activations = Activations(hlo)
        self._sources: list[Any] = []

    def parts(self, root: Any) -> Parts | None:
        """The parts from the product to an instruction, or None if it is anything else or in another order."""
        self._sources = []
        chain = self._chain(root)
        if chain is None:
            return None
        for number, (before, after) in enumerate(pairwise(name for name, _ in chain)):
            if (before, after) == ("shift", "scale"):
                chain[number] = ("bias", chain[number][1])
        positions = [_ORDER.index(name) for name, _ in chain]
        in_order = all(before < after for before, after in pairwise(positions))
        return Parts(dict(chain), self._sources) if in_order else None

    def _chain(self, node: Any) -> list[_Part] | None:
        """The parts from the product to a node."""
        if node.shape.element_type != ElementType.FLOAT32:
            return None
        if node.opcode == "parameter":
            return [] if node.parameter_number == self._product else None
        if (found := self._activations.find(node)) is not None:
            before = self._chain(found.argument)
            return None if before is None else [*before, ("activation", found.activation)]
        operands = self._hlo.operands(node)
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

    def _reads_product(self, node: Any) -> bool:
        if node.opcode == "parameter":
            return bool(node.parameter_number == self._product)
        return any(map(self._reads_product, self._hlo.operands(node)))

    def _part(self, operation: str, other: Any, node: Any) -> _Part | None:
        """The part that an operation with the value of another node is."""
        # The sums themselves are not kept for a second use.
        if other.shape.element_type != ElementType.FLOAT32 or self._reads_product(other):
            return None
        value: Slice | float | None
        if other.opcode == "parameter":
            kind = "array"
            value = self._argument(other)
            if not _same_layout(other.shape, node.shape):
                return None
        elif (value := self._scalar(other)) is not None:
            kind = "scalar"
        elif (value := self._per_column(other)) is not None:
            kind = "columns"
        else:
            kind, value = "array", self._other_array(other, node)
        name = _PARTS.get((operation, kind))
        return (name, value) if name is not None and value is not None else None

    def _argument(self, parameter: Any) -> Slice:
        """Where a parameter is."""
        number = int(parameter.parameter_number)
        self._sources.append(self._hlo.behind_bitcasts(self._hlo.operands(self._fusion)[number]))
        return self._arguments[number]

    def _other_array(self, other: Any, node: Any) -> Slice | None:
        """Where the value of a node is that the fusion need not compute."""
        found = self._elsewhere(other) if _same_layout(other.shape, node.shape) else None
        if found is None:
            return None
        self._sources.append(found[1])
        return found[0]

    def _scalar(self, node: Any) -> float | None:
        while node.opcode == "broadcast":
            (node,) = self._hlo.operands(node)
        if node.opcode != "constant" or len(node.literal.f32s) != 1:
            return None
        value = float(node.literal.f32s[0])
        return value if math.isfinite(value) else None

    def _per_column(self, node: Any) -> Slice | None:
        """The parameter with a value for each column that a node repeats in every row."""
        if node.opcode != "broadcast":
            return None
        (operand,) = self._hlo.operands(node)
        extents = node.shape.dimensions
        wide = [axis for axis in node.dimensions if extents[axis] != 1]
        # Axes with one element may be anywhere in the layout; several axes of columns are in the order of both.
        fastest = [axis for axis in node.shape.layout.minor_to_major if extents[axis] != 1]
        if wide != fastest[: len(wide)][::-1] or not is_in_order(operand.shape):
            return None
        if math.prod(extents[axis] for axis in wide) != self._columns:
            return None
        source = self._hlo.behind_bitcasts(operand)
        return self._argument(source) if source.opcode == "parameter" else None


def _same_layout(a: Any, b: Any) -> bool:
    """Whether two shapes have the same elements in the same places."""
    return (
        list(a.dimensions) == list(b.dimensions)
        and list(a.layout.minor_to_major) == list(b.layout.minor_to_major)
        and a.element_type == b.element_type
    )
