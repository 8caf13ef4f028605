"""Finds ReLU's relatives in the computations of fusions: ELU, SELU and leaky ReLU.

    %above = compare %x, %zero, direction=GT             elu of %x {slope=1}
    %below = exponential-minus-one %x                ->
    %y = select %above, %x, %below

They are x above 0, and below it x or exp(x) - 1 times a slope. Exporters write the argument of the exponential as x, as
minimum(x, 0) or as a selection, so that it cannot overflow (jax.nn.elu).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import is_

from ....program import ops
from ...ir.hlo import Instruction
from ...ir.match import scalar_of

ROOTS = frozenset({"select", "maximum"})
"""The last operations of rectifiers."""
_ABOVE = frozenset({"GT", "GE"})
_BELOW = frozenset({"LT", "LE"})


@dataclass(frozen=True)
class Rectifier:
    """x above 0, and a curve times a slope below; the whole times a factor."""

    activation: ops.Activation
    argument: Instruction
    slope: float
    factor: float = 1.0


def find_rectifier(node: Instruction) -> Rectifier | None:
    """The rectifier whose value an instruction has, or None."""
    if node.opcode == "maximum":
        return _from_maximum(node)
    sides = _sides(node)
    if sides is None:
        return None
    argument, above, below = sides
    is_argument = partial(is_, argument)
    factor = _times(above, is_argument)
    if factor is None or factor <= 0:
        return None
    slope = _times(below, is_argument)
    if slope is not None:
        return Rectifier("leaky_relu", argument, slope / factor, factor)
    slope = _times(below, lambda value: _is_curve(value, argument))
    return None if slope is None else Rectifier("elu", argument, slope / factor, factor)


def _from_maximum(node: Instruction) -> Rectifier | None:
    """maximum(x, slope * x), where the slope is between 0 and 1."""
    first, second = node.operands
    for argument, other in ((first, second), (second, first)):
        slope = _times(other, partial(is_, argument))
        if slope is not None and 0 < slope < 1:
            return Rectifier("leaky_relu", argument, slope)
    return None


def _sides(node: Instruction) -> tuple[Instruction, Instruction, Instruction] | None:
    """The value that a selection compares with 0, its own value above, and below."""
    condition, first, second = node.operands
    if condition.opcode != "compare":
        return None
    left, right = condition.operands
    direction = condition.direction
    if scalar_of(left) == 0:
        left, right = right, left
        direction = direction.translate(str.maketrans("GL", "LG"))
    if scalar_of(right) != 0:
        return None
    if direction in _ABOVE:
        return left, first, second
    return (left, second, first) if direction in _BELOW else None


def _times(node: Instruction, is_factor: Callable[[Instruction], bool]) -> float | None:
    """The number that is multiplied by a factor, which may be alone."""
    if is_factor(node):
        return 1.0
    if node.opcode == "multiply":
        first, second = node.operands
        for factor, number in ((first, second), (second, first)):
            if is_factor(factor):
                return scalar_of(number, finite=True)
    return None


def _is_curve(node: Instruction, argument: Instruction) -> bool:
    """Whether a value is exp(x) - 1, where x is not positive."""
    if node.opcode == "exponential-minus-one":
        return _is_negative_part(node.operands[0], argument)
    if node.opcode not in ("add", "subtract"):
        return False
    power, one = node.operands
    if node.opcode == "add" and scalar_of(power) is not None:
        power, one = one, power
    return (
        scalar_of(one) == (1 if node.opcode == "subtract" else -1)
        and power.opcode == "exponential"
        and _is_negative_part(power.operands[0], argument)
    )


def _is_negative_part(node: Instruction, argument: Instruction) -> bool:
    """Whether a value is the argument where that is not positive."""
    if node is argument:
        return True
    if node.opcode == "minimum":
        first, second = node.operands
        return (first is argument and scalar_of(second) == 0) or (
            second is argument and scalar_of(first) == 0
        )
    if node.opcode != "select":
        return False
    sides = _sides(node)
    return sides is not None and sides[0] is argument and sides[2] is argument
