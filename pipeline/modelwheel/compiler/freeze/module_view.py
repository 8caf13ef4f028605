"""A block of a StableHLO module as patterns see it: with TensorFlow's operations, which repeat what is smaller.

StableHLO repeats, reshapes and transposes values so that both operands of an operation have one shape, and multiplies matrices in
any order of axes. Patterns see none of it. Where a value is needed, its axes have positions in a frame, which is the shape of what is
computed: -1 is its last axis. A value with the same elements in the same places of the frame is the same tensor; axes of one element
have no position.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...model.fusions.patterns import Tensor
from ..stablehlo import op_text as o
from ..stablehlo.block_graph import BlockGraph
from ..stablehlo.mlir_text import Op
from ..stablehlo.written_functions import number_of
from .matching import FOLDED

_TYPES: Mapping[str, str] = {
    "chlo.erf": "Erf",
    "chlo.erfc": "Erfc",
    "stablehlo.abs": "Abs",
    "stablehlo.add": "AddV2",
    "stablehlo.divide": "RealDiv",
    "stablehlo.exponential": "Exp",
    "stablehlo.log": "Log",
    "stablehlo.logistic": "Sigmoid",
    "stablehlo.maximum": "Maximum",
    "stablehlo.minimum": "Minimum",
    "stablehlo.multiply": "Mul",
    "stablehlo.negate": "Neg",
    "stablehlo.power": "Pow",
    "stablehlo.rsqrt": "Rsqrt",
    "stablehlo.select": "SelectV2",
    "stablehlo.sqrt": "Sqrt",
    "stablehlo.subtract": "Sub",
    "stablehlo.tanh": "Tanh",
}
"""Operations on each element, by TensorFlow's names."""
_REDUCTIONS: Mapping[str, tuple[str, float]] = {
    "add": ("Sum", 0.0),
    "maximum": ("Max", -math.inf),
}
_NEUTRAL: Mapping[str, float] = {
    "stablehlo.add": 0.0,
    "stablehlo.maximum": -math.inf,
    "stablehlo.multiply": 1.0,
}
"""The number with which an operation changes nothing."""
_TRUTH = re.compile(r"dense<(true|false)>")
_REDUCTION = re.compile(r"init: .* applies stablehlo\.(\w+) across dimensions = \[(\d+)\]")
_PRODUCT = re.compile(
    r"(?:batching_dims = \[(?P<left>[\d, ]*)\] x \[(?P<right>[\d, ]*)\], )?"
    r"contracting_dims = \[(?P<row>\d+)\] x \[(?P<column>\d+)\]"
)
_ERF = "@mhlo.erf"
_FLOATS = frozenset({"f32", "f64"})


class At(NamedTuple):
    """A value in a frame."""

    name: str
    """As MLIR writes it, without the percent sign."""
    places: tuple[int, ...]
    """Positions of its axes that have several elements."""


class Axes(NamedTuple):
    """A constant list of axes, which StableHLO has in attributes."""

    values: tuple[int, ...]


class ModuleView:
    """See `modelwheel.compiler.freeze.matching.Searched`."""

    def __init__(self, graph: BlockGraph) -> None:
        self.graph = graph
        self.types = graph.types

    # --- what is searched -------------------------------------------------------------------------

    def candidates(self) -> Iterator[Tensor]:
        """See `Searched`; the rows and columns of a product may be exchanged."""
        for name, op in self.graph.own.items():
            kind = self.types.get(name)
            if kind is None or kind.element not in _FLOATS or None in kind.shape:
                continue
            places = tuple(range(-len(self._several(name)), 0))
            yield At(name, places)
            if op.name == "stablehlo.dot_general" and len(places) > 1:
                yield At(name, (*places[:-2], -1, -2))

    def is_read_outside(self, tensor: Tensor, inside: Collection[Tensor]) -> bool:
        """See `Searched`."""
        assert isinstance(tensor, At)
        names = {place.name for place in inside if isinstance(place, At)}
        return self._escapes(tensor.name, names)

    def _escapes(self, name: str, inside: Collection[str]) -> bool:
        if self.graph.is_read_inside(name):
            return True
        for reader in self.graph.readers(name):
            result = reader.results[0][0] if reader.results else ""
            if result in inside:
                continue
            if not self._hands_on(reader) or self._escapes(result, inside):
                return True
        return False

    def _hands_on(self, op: Op) -> bool:
        moved = op.results and self._moved(At(op.results[0][0], ())) is not None
        return bool(moved) or op.name == "stablehlo.reduce"

    # --- what patterns see ------------------------------------------------------------------------

    def operation(
        self, tensor: Tensor, attributes: Mapping[str, bool | int | str]
    ) -> tuple[str, Sequence[Tensor]] | None:
        """See `View`."""
        if not isinstance(tensor, At) or tensor.name not in self.graph.own:
            return None
        if "adj_y" in attributes:
            return self._product(tensor, transposed=bool(attributes["adj_y"]))
        if attributes:
            return self._mean(tensor) or self._reduction(tensor)
        op = self.graph.own[tensor.name]
        kind = "Erf" if op.name == "stablehlo.custom_call" and _ERF in op.text else ""
        kind = kind or _TYPES.get(op.name, "")
        if not kind:
            return None
        return kind, [self.source(At(name, tensor.places)) for name in self.graph.operands(op)]

    def scalar(self, tensor: Tensor) -> float | None:
        """See `View`."""
        if not isinstance(tensor, At):
            return None
        name = self.source(tensor).name
        op = self.graph.ops.get(name)
        if op is None:
            return None
        if op.name == "stablehlo.convert":
            return self.scalar(At(self.graph.operands(op)[0], ()))
        fold = FOLDED.get(_TYPES.get(op.name, ""))
        if fold is None:
            return number_of(op, self.graph.ops)
        values = [self.scalar(At(operand, ())) for operand in self.graph.operands(op)]
        if any(value is None for value in values):
            return None
        with np.errstate(all="ignore"):
            return float(fold(*map(np.float64, values)))

    def integers(self, tensor: Tensor) -> tuple[int, ...] | None:
        """See `View`."""
        return tensor.values if isinstance(tensor, Axes) else None

    def rank(self, tensor: Tensor) -> int | None:
        """See `View`."""
        return len(tensor.places) if isinstance(tensor, At) else None

    def source(self, at: At) -> At:
        """The value that others only move and repeat."""
        while True:
            before = self._moved(at)
            if before is None:
                return at
            at = before

    def _moved(self, at: At) -> At | None:
        op = self.graph.ops.get(at.name)
        if op is None or at.name not in self.types:
            return None
        operands = self.graph.operands(op)
        if op.name in _NEUTRAL:
            return self._unchanged(at, operands, _NEUTRAL[op.name])
        if op.name == "stablehlo.select":
            chosen = self._condition(operands[0])
            return None if chosen is None else At(operands[1 if chosen else 2], at.places)
        if len(operands) != 1 or operands[0] not in self.types:
            return None
        (name,) = operands
        source, made = self.types[name], self.types[at.name]
        if source.element != made.element:
            return None
        several = self._several(name)
        if op.name == o.RESHAPE and self._extents(name) == self._extents(at.name):
            return At(name, at.places)
        order = o.dimensions(op.text)
        if op.name not in (o.BROADCAST, o.TRANSPOSE) or order is None:
            return None
        if op.name == o.TRANSPOSE:
            order = [order.index(axis) for axis in range(len(order))]
        # Without places it is only asked whether anything moves.
        places = dict(zip(self._several(at.name), at.places, strict=False))
        return At(name, tuple(places.get(order[axis], 0) for axis in several))

    def _unchanged(self, at: At, operands: Sequence[str], neutral: float) -> At | None:
        """The operand that an operation with a number leaves as it is."""
        for name, other in (operands, operands[::-1]):
            if self.scalar(At(other, ())) == neutral:
                return At(name, at.places)
        return None

    def _condition(self, name: str) -> bool | None:
        """The truth value that all elements of a constant are."""
        op = self.graph.ops.get(name)
        while op is not None and op.name in (o.BROADCAST, o.RESHAPE):
            op = self.graph.ops.get(self.graph.operands(op)[0])
        match = _TRUTH.search(op.text) if op and op.name == "stablehlo.constant" else None
        return None if match is None else match[1] == "true"

    def _several(self, name: str) -> list[int]:
        """The axes of more than one element."""
        return [axis for axis, extent in enumerate(self.types[name].shape) if extent != 1]

    def _extents(self, name: str) -> list[int | None]:
        return [extent for extent in self.types[name].shape if extent != 1]

    # --- operations with axes ---------------------------------------------------------------------

    def _mean(self, at: At) -> tuple[str, Sequence[Tensor]] | None:
        """A sum divided by how many elements it has."""
        op = self.graph.own[at.name]
        if op.name not in ("stablehlo.divide", "stablehlo.multiply"):
            return None
        left, right = self.graph.operands(op)
        pairs = [(left, right)] if op.name == "stablehlo.divide" else [(left, right), (right, left)]
        for total, number in pairs:
            source, count = self.source(At(total, at.places)), self.scalar(At(number, ()))
            reduction = self._reduction(source) if source.name in self.graph.own else None
            if reduction is None or reduction[0] != "Sum" or not count:
                continue
            axis = _REDUCTION.search(self.graph.own[source.name].text)
            assert axis is not None
            extent = self.types[self.graph.operands(self.graph.own[source.name])[0]].shape[
                int(axis[2])
            ]
            expected = extent if op.name == "stablehlo.divide" else 1 / (extent or 1)
            if expected is not None and math.isclose(count, expected, rel_tol=1e-7):
                return "Mean", reduction[1]
        return None

    def _reduction(self, at: At) -> tuple[str, Sequence[Tensor]] | None:
        """A reduction of the last axis, which is kept."""
        op = self.graph.own[at.name]
        match = _REDUCTION.search(op.text) if op.name == "stablehlo.reduce" else None
        if match is None or match[1] not in _REDUCTIONS or -1 in at.places:
            return None
        (name, start), axis = self.graph.operands(op), int(match[2])
        if name not in self.types:
            return None
        kind, neutral = _REDUCTIONS[match[1]]
        several = self._several(name)
        if several[-1:] != [axis] or self.scalar(At(start, ())) != neutral:
            return None
        return kind, [self.source(At(name, (*at.places, -1))), Axes((-1,))]

    def _product(self, at: At, *, transposed: bool) -> tuple[str, Sequence[Tensor]] | None:
        """A product of rows and columns for each place of the axes before, as `BatchMatMul` of what is on its sides."""
        op = self.graph.own[at.name]
        match = _PRODUCT.search(op.text) if op.name == "stablehlo.dot_general" else None
        if match is None or "algorithm" in op.text:
            return None
        if any(name not in self.types for name in self.graph.operands(op)):
            return None
        sides = []
        batches = [o.numbers(match["left"]), o.numbers(match["right"])]
        places = dict(zip(self._several(at.name), at.places, strict=True))
        first = len(batches[0])
        for name, batch, contracted in zip(
            self.graph.operands(op), batches, (int(match["row"]), int(match["column"])), strict=True
        ):
            free = [a for a in range(len(self.types[name].shape)) if a not in (*batch, contracted)]
            known = {axis: places.get(number) for number, axis in enumerate(batch)}
            known |= {axis: places.get(first + number) for number, axis in enumerate(free)}
            first += len(free)
            sides.append((name, known, contracted, [known[a] for a in free if known[a]]))
        sides.sort(key=lambda side: side[3] != [-2])
        if [side[3] for side in sides] != [[-2], [-1]]:
            return None
        (rows, row_places, contracted_row, _), (columns, column_places, contracted_column, _) = (
            sides
        )
        row_places[contracted_row] = -1
        if transposed:
            column_places = {
                axis: -2 if place == -1 else place for axis, place in column_places.items()
            }
        column_places[contracted_column] = -1 if transposed else -2
        left, right = self._placed(rows, row_places), self._placed(columns, column_places)
        return None if left is None or right is None else ("BatchMatMulV2", [left, right])

    def _placed(self, name: str, places: Mapping[int, int | None]) -> At | None:
        axes = [places[axis] for axis in self._several(name)]
        known = tuple(place for place in axes if place is not None)
        return self.source(At(name, known)) if len(known) == len(axes) else None
