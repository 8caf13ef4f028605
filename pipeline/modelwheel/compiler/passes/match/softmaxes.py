"""Finds softmax of rows: exp(x - largest) over the sum of these, which XLA computes in six kernels and more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....dtypes import ElementType
from ....program import ops
from ...ir.hlo import HloModule
from ...ir.numbering import Numbering
from ..recognise.pooling import is_in_order, is_plain, reducer_of


@dataclass(frozen=True)
class Softmax:
    """The softmax of the rows of a value times a factor."""

    source: Any
    """The instruction outside of fusions whose value it is of."""
    scale: float
    added: Value | None
    """What is added to these products."""
    kept: Kept | None
    """Which of them count."""
    fusions: tuple[Any, ...]
    """Those that compute it."""


@dataclass(frozen=True)
class Value:
    """An instruction, perhaps in a fusion."""

    node: Any
    fusion: Any | None
    """The fusion whose computation it is in."""


@dataclass(frozen=True)
class Kept:
    """The others are replaced by one number."""

    condition: Value
    is_negated: bool
    replacement: float


def softmax_of(hlo: HloModule, numbering: Callable[[], Numbering], value: Value) -> Softmax | None:
    """The softmax that a value is; None if it is anything else.

    Args:
        hlo: The module.
        numbering: The numbers of its values, which are asked for late: to find them takes long.
        value: The value.
    """
    return _Finder(hlo, numbering).found(value)


class _Finder:
    def __init__(self, hlo: HloModule, numbering: Callable[[], Numbering]) -> None:
        self._hlo = hlo
        self._numbering = numbering
        self._fusions: dict[int, Any] = {}

    def found(self, value: Value) -> Softmax | None:
        if value.fusion is not None:
            self._fusions[value.fusion.id] = value.fusion
        share = self._behind(value)
        shape = share.node.shape
        if share.node.opcode != "divide" or not _is_float(shape) or not is_in_order(shape):
            return None
        power, total = self._operands(share)
        added = self._reduced(self._of_row(total), "sum")
        if added is None or self._number(added) != self._number(power):
            return None
        power = self._behind(power)
        if power.node.opcode != "exponential":
            return None
        difference = self._behind(self._operands(power)[0])
        if difference.node.opcode != "subtract":
            return None
        scaled, largest = self._operands(difference)
        compared = self._reduced(self._raised(self._of_row(largest)), "maximum")
        if compared is None or self._number(compared) != self._number(scaled):
            return None
        scores, kept = self._kept(scaled)
        scores, added = self._added(scores)
        source, scale = self._unscaled(scores)
        self._behind(compared)  # its fusion is one of them
        if source.fusion is not None:
            return None
        fusions = tuple(self._fusions.values())
        return Softmax(source.node, scale, added, kept, fusions)

    def _behind(self, value: Value) -> Value:
        """The same value where it is computed; notes the fusion."""
        node, fusion = value.node, value.fusion
        while True:
            if node.opcode == "bitcast" or self._hlo.keeps_memory(node):
                (node,) = self._hlo.operands(node)
            elif fusion is not None and node.opcode == "parameter":
                node, fusion = self._hlo.operands(fusion)[node.parameter_number], None
            elif fusion is None and node.opcode == "fusion":
                self._fusions[node.id] = node
                node, fusion = self._hlo.called_root(node), node
            else:
                return Value(node, fusion)

    def _operands(self, value: Value) -> list[Value]:
        return [Value(operand, value.fusion) for operand in self._hlo.operands(value.node)]

    def _number(self, value: Value) -> int:
        if value.fusion is None:
            return self._numbering().of(value.node)
        return self._numbering().inside(value.node, value.fusion)

    def _of_row(self, value: Value) -> Value | None:
        """What is repeated along each row."""
        node = value.node
        if node.opcode != "broadcast" or not is_in_order(node.shape):
            return None
        last, extents = len(node.shape.dimensions) - 1, node.shape.dimensions
        # Axes with one element need not be named.
        repeated = [axis for axis in range(last) if extents[axis] != 1]
        if [axis for axis in node.dimensions if extents[axis] != 1 or axis == last] != repeated:
            return None
        (operand,) = self._operands(value)
        return operand if is_in_order(operand.node.shape) else None

    def _raised(self, value: Value | None) -> Value | None:
        """What JAX takes the larger one of and minus infinity, which changes nothing."""
        if value is None:
            return None
        found = self._behind(value)
        if found.node.opcode != "maximum":
            return value
        one, other = self._operands(found)
        for largest, least in ((one, other), (other, one)):
            if self._constant(least) == -math.inf:
                return largest
        return value

    def _reduced(self, value: Value | None, reducer: ops.Reducer) -> Value | None:
        """What is reduced along rows to a value, perhaps in windows first."""
        if value is None:
            return None
        found = self._behind(value)
        node = found.node
        if node.opcode != "reduce" or not self._starts_with_nothing(found, reducer):
            return None
        source, _ = self._operands(found)
        rank = len(source.node.shape.dimensions)
        if list(node.dimensions) != [rank - 1] or not is_in_order(source.node.shape):
            return None
        behind = self._behind(source)
        node = behind.node
        if node.opcode != "reduce-window":
            return source
        windows = node.window.dimensions
        window, before = windows[-1], self._hlo.operands(node)[0].shape
        covered = window.padding_low + window.padding_high + before.dimensions[-1]
        plain = (
            len(windows) == rank
            and is_plain(windows, (rank - 1,))
            and (window.stride or 1) == window.size
            and min(window.padding_low, window.padding_high) >= 0
            and covered == window.size * node.shape.dimensions[-1]
            and all(map(is_in_order, (before, node.shape)))
        )
        if not plain or not self._starts_with_nothing(behind, reducer):
            return None
        return self._operands(behind)[0]

    def _starts_with_nothing(self, value: Value, reducer: ops.Reducer) -> bool:
        """Whether a reduction is by `reducer`, of one array, from its neutral element on."""
        operands = self._operands(value)
        if len(operands) != 2 or reducer_of(self._hlo, value.node) != reducer:
            return False
        start = self._constant(operands[1])
        return start == (0.0 if reducer == "sum" else -math.inf)

    def _constant(self, value: Value) -> float | None:
        return self._hlo.number(self._behind(value).node)

    def _kept(self, value: Value) -> tuple[Value, Kept | None]:
        """What a value is where it is not one number, by a condition."""
        found = self._behind(value)
        if found.node.opcode == "select":
            condition, one, other = self._operands(found)
            for scores, rest in ((one, other), (other, one)):
                number = self._constant(rest)
                if number is not None and number < math.inf:  # nor NaN
                    return scores, Kept(condition, scores is other, number)
        return value, None

    def _added(self, value: Value) -> tuple[Value, Value | None]:
        """The product that a value is the sum of, perhaps scaled, with something else."""
        found = self._behind(value)
        if found.node.opcode == "add":
            one, other = self._operands(found)
            for scores, added in ((one, other), (other, one)):
                before = dict(self._fusions)
                source, _ = self._unscaled(scores)
                if source.fusion is None and source.node.opcode == "dot":
                    return scores, added
                self._fusions = before
        return value, None

    def _unscaled(self, value: Value) -> tuple[Value, float]:
        """What a value is the product of, with a number."""
        found = self._behind(value)
        if found.node.opcode == "multiply":
            one, other = self._operands(found)
            for source, factor in ((one, other), (other, one)):
                scale = self._constant(factor)
                if scale is not None and math.isfinite(scale) and scale != 0:
                    return self._behind(source), scale
        return found, 1.0


def _is_float(shape: Any) -> bool:
    return bool(shape.element_type == ElementType.FLOAT32)
