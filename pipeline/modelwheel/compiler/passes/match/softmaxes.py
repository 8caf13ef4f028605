"""Finds softmax of rows: exp(x - largest) over the sum of these, which XLA computes in six kernels and more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ....dtypes import ElementType
from ....program import ops
from ...ir.hlo import Instruction, Shape
from ...ir.match import Value, keeps_memory, row_major, scalar_of
from ...ir.numbering import Numbering
from ..recognise.poolings import is_plain, reducer_of


@dataclass(frozen=True)
class Softmax:
    """The softmax of the rows of a value times a factor."""

    source: Instruction
    """The instruction outside of fusions whose value it is of."""
    scale: float
    added: Value | None
    """Added to these products."""
    kept: Kept | None
    """Which of them count."""
    fusions: tuple[Instruction, ...]
    """The fusions that compute it."""


@dataclass(frozen=True)
class Kept:
    """The others are replaced by one number."""

    condition: Value
    is_negated: bool
    replacement: float


def softmax_of(numbering: Callable[[], Numbering], value: Value) -> Softmax | None:
    """The softmax that a value is; None if it is anything else.

    Args:
        numbering: The numbers of the module's values, which are asked for late: to find them takes long.
        value: The value.
    """
    return _Finder(numbering).found(value)


class _Finder:
    def __init__(self, numbering: Callable[[], Numbering]) -> None:
        self._numbering = numbering
        self._fusions: dict[Instruction, None] = {}

    def found(self, value: Value) -> Softmax | None:
        if value.fusion is not None:
            self._fusions[value.fusion] = None
        share = self._behind(value)
        shape = share.node.shape
        if share.node.opcode != "divide" or not _is_float(shape) or not row_major(shape):
            return None
        power, total = share.operands
        added = self._reduced(self._of_row(total), "sum")
        if added is None or self._number(added) != self._number(power):
            return None
        power = self._behind(power)
        if power.node.opcode != "exponential":
            return None
        difference = self._behind(power.operands[0])
        if difference.node.opcode != "subtract":
            return None
        scaled, largest = difference.operands
        compared = self._reduced(self._raised(self._of_row(largest)), "maximum")
        if compared is None or self._number(compared) != self._number(scaled):
            return None
        scores, kept = self._kept(scaled)
        scores, added = self._added(scores)
        source, scale = self._unscaled(scores)
        self._behind(compared)  # its fusion is one of them
        if source.fusion is not None:
            return None
        fusions = tuple(self._fusions)
        return Softmax(source.node, scale, added, kept, fusions)

    def _behind(self, value: Value) -> Value:
        """The value where it is computed; notes the fusions on the way."""
        while True:
            if keeps_memory(value.node):
                (value,) = value.operands
            elif (source := value.source()) is not None:
                value = source
                if value.fusion is not None:
                    self._fusions[value.fusion] = None
            else:
                return value

    def _number(self, value: Value) -> int:
        if value.fusion is None:
            return self._numbering().of(value.node)
        return self._numbering().inside(value.node, value.fusion)

    def _of_row(self, value: Value) -> Value | None:
        """The value that is repeated along each row."""
        node = value.node
        if node.opcode != "broadcast" or not row_major(node.shape):
            return None
        last, extents = node.shape.rank - 1, node.shape.dimensions
        # Axes with one element need not be named.
        repeated = [axis for axis in range(last) if extents[axis] != 1]
        if [axis for axis in node.dimensions if extents[axis] != 1 or axis == last] != repeated:
            return None
        (operand,) = value.operands
        return operand if row_major(operand.node.shape) else None

    def _raised(self, value: Value | None) -> Value | None:
        """The value in max(value, -inf), which JAX writes and which changes nothing."""
        if value is None:
            return None
        origin = self._behind(value)
        if origin.node.opcode != "maximum":
            return value
        left, right = origin.operands
        for largest, least in ((left, right), (right, left)):
            if self._constant(least) == -math.inf:
                return largest
        return value

    def _reduced(self, value: Value | None, reducer: ops.Reducer) -> Value | None:
        """The value that is reduced along rows to another one, perhaps in windows first."""
        if value is None:
            return None
        origin = self._behind(value)
        node = origin.node
        if node.opcode != "reduce" or not self._starts_with_nothing(origin, reducer):
            return None
        source, _ = origin.operands
        shape = source.node.shape
        last = shape.rank - 1
        # Axes of one element may be reduced with the rows.
        wide = {axis for axis in node.dimensions if axis == last or shape.dimensions[axis] != 1}
        if wide != {last} or not row_major(shape):
            return None
        # Long rows are reduced in windows several times.
        while (behind := self._behind(source)).node.opcode == "reduce-window":
            if not _covers_rows(behind.node) or not self._starts_with_nothing(behind, reducer):
                return None
            source = behind.operands[0]
        return source

    def _starts_with_nothing(self, value: Value, reducer: ops.Reducer) -> bool:
        """Whether a reduction is by `reducer`, of one array, from its neutral element on."""
        if len(value.operands) != 2 or reducer_of(value.node) != reducer:
            return False
        start = self._constant(value.operands[1])
        return start == (0.0 if reducer == "sum" else -math.inf)

    def _constant(self, value: Value) -> float | None:
        return scalar_of(self._behind(value).node)

    def _kept(self, value: Value) -> tuple[Value, Kept | None]:
        """The scores that a value is where it is not one number, by a condition."""
        origin = self._behind(value)
        if origin.node.opcode == "select":
            condition, left, right = origin.operands
            for scores, rest in ((left, right), (right, left)):
                number = self._constant(rest)
                if number is not None and number < math.inf:  # nor NaN
                    return scores, Kept(condition, scores is right, number)
        return value, None

    def _added(self, value: Value) -> tuple[Value, Value | None]:
        """The product that a value is the sum of, perhaps scaled, with something else."""
        origin = self._behind(value)
        if origin.node.opcode == "add":
            left, right = origin.operands
            for scores, added in ((left, right), (right, left)):
                before = dict(self._fusions)
                source, _ = self._unscaled(scores)
                if source.fusion is None and source.node.opcode == "dot":
                    return scores, added
                self._fusions = before
        return value, None

    def _unscaled(self, value: Value) -> tuple[Value, float]:
        """The value that another one is the product of, with a number."""
        origin = self._behind(value)
        if origin.node.opcode == "multiply":
            left, right = origin.operands
            for source, factor in ((left, right), (right, left)):
                scale = self._constant(factor)
                if scale is not None and math.isfinite(scale) and scale != 0:
                    return self._behind(source), scale
        return origin, 1.0


def _covers_rows(node: Instruction) -> bool:
    """Whether windows follow each other along rows, and every element is in one of them."""
    windows, before, rank = node.window, node.operands[0].shape, node.shape.rank
    window = windows[-1]
    covered = window.pad_low + window.pad_high + before.dimensions[-1]
    return (
        len(windows) == rank
        and is_plain(windows, (rank - 1,))
        and window.stride == window.size
        and min(window.pad_low, window.pad_high) >= 0
        and covered == window.size * node.shape.dimensions[-1]
        and row_major(before, node.shape)
    )


def _is_float(shape: Shape) -> bool:
    return shape.element_type == ElementType.FLOAT32
