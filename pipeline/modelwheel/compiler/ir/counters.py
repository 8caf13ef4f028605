"""Proves how often a loop of a compiled module turns, and which parts of arrays its turns read and write.

XLA knows the number of turns only of loops in a few forms. Here it follows from the module alone: a variable starts as a
constant, each turn adds a constant to it, and the condition compares it with a constant. What is computed from such
variables is a linear function of the turn's number. Integers are those of 32 bits, and none of them overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...dtypes import ElementType
from .hlo import HloModule

_LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Linear:
    """A number in turn t, from 0 on: start + step * t."""

    start: int
    step: int = 0

    def __add__(self, other: Linear) -> Linear:
        return Linear(self.start + other.start, self.step + other.step)

    def __neg__(self) -> Linear:
        return Linear(-self.start, -self.step)

    def at(self, turn: int) -> int:
        """Its value."""
        return self.start + self.step * turn

    def fits(self, turns: int) -> bool:
        """Whether all values in so many turns are integers of 32 bits."""
        return all(abs(self.at(turn)) <= _LARGEST for turn in (0, turns))


_Parameters: TypeAlias = Mapping[int, "Linear | None"]


@dataclass(frozen=True)
class Counters:
    """A loop whose number of turns is known."""

    turns: int
    """At least 1."""
    variables: Mapping[int, Linear]
    """The variables of the loop that count, by their positions in its tuple."""
    invariant: frozenset[int]
    """The positions of the variables that no turn changes."""

    def position(self, hlo: HloModule, value: Any) -> int | None:
        """The position of the variable that an instruction of the body reads."""
        return _position(hlo, value)

    def value(
        self, hlo: HloModule, node: Any, parameters: _Parameters | None = None
    ) -> Linear | None:
        """The integer that an instruction of the body computes; None if it is not known.

        Args:
            hlo: The module.
            node: The instruction, which may be inside a fusion.
            parameters: What the fusion's parameters are.
        """
        return _Reader(hlo, self.variables, self.turns).value(node, parameters)

    def operands(self, hlo: HloModule, fusion: Any) -> dict[int, Linear | None]:
        """The integers that a fusion of the body reads, by the number of the parameter."""
        return _Reader(hlo, self.variables, self.turns).operands(fusion)


def count(hlo: HloModule, loop: Any) -> Counters | None:
    """The counters of a `while`; None unless it turns a known number of times, at least once."""
    body, condition = hlo.called_roots(loop)
    (entering,) = hlo.operands(loop)
    if body.opcode != "tuple" or entering.opcode != "tuple":
        return None
    variables: dict[int, Linear] = {}
    invariant = set()
    outside = _Reader(hlo, {}, 0)
    for position, (first, following) in enumerate(
        zip(hlo.operands(entering), hlo.operands(body), strict=True)
    ):
        if _position(hlo, following) == position:
            invariant.add(position)
        elif following.shape.element_type == ElementType.INT32 and not following.shape.dimensions:
            start = outside.value(first)
            # As a function of the variable itself.
            change = _Reader(hlo, {position: Linear(0, 1)}, 0).value(following)
            if start is not None and change is not None and change.step == 1 and change.start:
                variables[position] = Linear(start.start, change.start)
    turns = _Reader(hlo, variables, 0).turns(condition)
    # Once more, now that it is known how large the numbers become.
    if not turns or _Reader(hlo, variables, turns).turns(condition) != turns:
        return None
    known = {position: v for position, v in variables.items() if v.fits(turns)}
    return Counters(turns, known, frozenset(invariant))


def _position(hlo: HloModule, value: Any) -> int | None:
    """The position in the tuple of its computation's only parameter that a value is."""
    value = hlo.behind_bitcasts(value)
    if value.opcode != "get-tuple-element":
        return None
    (source,) = hlo.operands(value)
    return int(value.tuple_index) if source.opcode == "parameter" else None


class _Reader:
    """Computes integers, given the variables of a loop, as far as they are linear functions of the turn."""

    def __init__(self, hlo: HloModule, variables: Mapping[int, Linear], turns: int) -> None:
        self._hlo = hlo
        self._variables = variables
        self._turns = turns

    def operands(self, fusion: Any) -> dict[int, Linear | None]:
        return {number: self.value(one) for number, one in enumerate(self._hlo.operands(fusion))}

    def value(self, node: Any, parameters: _Parameters | None = None) -> Linear | None:
        if node.shape.element_type != ElementType.INT32 or node.shape.dimensions:
            return None
        found = self._read(node, parameters)
        return found if found is not None and found.fits(self._turns) else None

    def _read(self, node: Any, parameters: _Parameters | None) -> Linear | None:
        operands = self._hlo.operands(node)
        match node.opcode:
            case "constant":
                values = list(node.literal.s32s)
                return Linear(int(values[0])) if len(values) == 1 else None
            case "parameter":
                return None if parameters is None else parameters[int(node.parameter_number)]
            case "get-tuple-element":
                position = _position(self._hlo, node) if parameters is None else None
                return None if position is None else self._variables.get(position)
            case "copy" | "bitcast":
                return self.value(operands[0], parameters)
            case "fusion" if parameters is None:
                return self.value(self._hlo.called_root(node), self.operands(node))
            case "add" | "subtract":
                one, other = (self.value(operand, parameters) for operand in operands)
                if one is None or other is None:
                    return None
                return one + (other if node.opcode == "add" else -other)
            case _:
                return None

    def turns(self, node: Any, parameters: _Parameters | None = None) -> int | None:
        """In how many turns, from the first one on, a predicate holds; None if that is not known."""
        operands = self._hlo.operands(node)
        match node.opcode:
            case "fusion" if parameters is None:
                return self.turns(self._hlo.called_root(node), self.operands(node))
            case "and":
                found = [self.turns(operand, parameters) for operand in operands]
                known = [turns for turns in found if turns is not None]
                return min(known) if len(known) == len(found) else None
            case "compare" if node.comparison_direction in _ORDERS:
                one, other = (self.value(operand, parameters) for operand in operands)
                if one is None or other is None:
                    return None
                return _ORDERS[node.comparison_direction](one + -other)
            case _:
                return None


def _turns_below_zero(number: Linear) -> int | None:
    """In how many turns a number is negative before it is not."""
    if number.start >= 0:
        return 0
    return -(number.start // number.step) if number.step > 0 else None


_ORDERS: Mapping[str, Callable[[Linear], int | None]] = {
    "LT": _turns_below_zero,
    "LE": lambda number: _turns_below_zero(number + Linear(-1)),
    "GT": lambda number: _turns_below_zero(-number),
    "GE": lambda number: _turns_below_zero(-number + Linear(-1)),
}
"""By the direction of a comparison, from the difference of its sides."""
