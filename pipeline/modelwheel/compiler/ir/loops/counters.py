"""Proves the trip count of a loop of a compiled module, and which parts of arrays its iterations read and write.

XLA knows the trip counts only of loops in a few forms. Here it follows from the module alone: a variable starts as a
constant, each iteration adds a constant to it, and the condition compares it with a constant. What is computed from such
variables is a linear function of the iteration's number. Integers are those of 32 bits, and none of them overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ....dtypes import ElementType
from ....program.ops import While
from ..graph import Graph, Node
from ..hlo import Instruction
from ..match import behind_bitcasts, integer_of

_LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Linear:
    """A number in iteration t, from 0 on: start + step * t."""

    start: int
    step: int = 0

    def __add__(self, other: Linear) -> Linear:
        return Linear(self.start + other.start, self.step + other.step)

    def __neg__(self) -> Linear:
        return Linear(-self.start, -self.step)

    def at(self, iteration: int) -> int:
        """Its value."""
        return self.start + self.step * iteration

    def fits(self, iterations: int) -> bool:
        """Whether all values in so many iterations are integers of 32 bits."""
        return all(abs(self.at(iteration)) <= _LARGEST for iteration in (0, iterations))


_Parameters: TypeAlias = Mapping[int, "Linear | None"]


@dataclass(frozen=True)
class Counters:
    """A loop whose trip count is known."""

    trip_count: int
    """At least 1."""
    variables: Mapping[int, Linear]
    """The variables of the loop that count, by their positions in its tuple."""
    invariant: frozenset[int]
    """The positions of the variables that no iteration changes."""

    def value(self, node: Instruction, parameters: _Parameters | None = None) -> Linear | None:
        """The integer that an instruction of the body computes; None if it is not known.

        Args:
            node: The instruction, which may be inside a fusion.
            parameters: What the fusion's parameters are.
        """
        return _Reader(self.variables, self.trip_count).value(node, parameters)

    def operands(self, fusion: Instruction) -> dict[int, Linear | None]:
        """The integers that a fusion of the body reads, by the number of the parameter."""
        return _Reader(self.variables, self.trip_count).operands(fusion)


def counters_of(graph: Graph, loop: Node) -> Counters | None:
    """The counters of a loop of a graph; None unless its trip count is known, and no other one is said."""
    if not isinstance(loop.op, While):
        return None
    loops = [
        instruction for instruction in graph.instructions(loop) if instruction.opcode == "while"
    ]
    counters = count(loops[0]) if len(loops) == 1 else None
    if counters is None or loop.op.trip_count not in (None, counters.trip_count):
        return None
    return counters


def count(loop: Instruction) -> Counters | None:
    """The counters of a `while`; None unless its trip count is known, and at least 1."""
    body, condition = (computation.root for computation in loop.called)
    (entering,) = loop.operands
    if body.opcode != "tuple" or entering.opcode != "tuple":
        return None
    variables: dict[int, Linear] = {}
    invariant = set()
    outside = _Reader({}, 0)
    for position, (first, following) in enumerate(
        zip(entering.operands, body.operands, strict=True)
    ):
        if position_of(following) == position:
            invariant.add(position)
        elif following.shape.element_type == ElementType.INT32 and not following.shape.dimensions:
            start = outside.value(first)
            # As a function of the variable itself.
            change = _Reader({position: Linear(0, 1)}, 0).value(following)
            if start is not None and change is not None and change.step == 1 and change.start:
                variables[position] = Linear(start.start, change.start)
    trip_count = _Reader(variables, 0).iterations(condition)
    # Once more, now that it is known how large the numbers become.
    if not trip_count or _Reader(variables, trip_count).iterations(condition) != trip_count:
        return None
    known = {position: v for position, v in variables.items() if v.fits(trip_count)}
    return Counters(trip_count, known, frozenset(invariant))


def position_of(value: Instruction) -> int | None:
    """The position of the loop's variable that a value of the body or condition is."""
    value = behind_bitcasts(value)
    if value.opcode != "get-tuple-element":
        return None
    (source,) = value.operands
    return value.tuple_index if source.opcode == "parameter" else None


class _Reader:
    """Computes integers, given the variables of a loop, as far as they are linear functions of the iteration."""

    def __init__(self, variables: Mapping[int, Linear], trip_count: int) -> None:
        self._variables = variables
        self._trip_count = trip_count

    def operands(self, fusion: Instruction) -> dict[int, Linear | None]:
        return {number: self.value(operand) for number, operand in enumerate(fusion.operands)}

    def value(self, node: Instruction, parameters: _Parameters | None = None) -> Linear | None:
        if node.shape.element_type != ElementType.INT32 or node.shape.dimensions:
            return None
        number = self._read(node, parameters)
        return number if number is not None and number.fits(self._trip_count) else None

    def _read(self, node: Instruction, parameters: _Parameters | None) -> Linear | None:
        operands = node.operands
        match node.opcode:
            case "constant":
                number = integer_of(node)
                return None if number is None else Linear(number)
            case "parameter":
                return None if parameters is None else parameters[node.parameter_number]
            case "get-tuple-element":
                position = position_of(node) if parameters is None else None
                return None if position is None else self._variables.get(position)
            case "copy" | "bitcast":
                return self.value(operands[0], parameters)
            case "fusion" if parameters is None:
                return self.value(node.called_root, self.operands(node))
            case "add" | "subtract":
                left, right = (self.value(operand, parameters) for operand in operands)
                if left is None or right is None:
                    return None
                return left + (right if node.opcode == "add" else -right)
            case "select":
                # Frameworks count negative indices from the end of an array: i < 0 ? i + extent : i.
                holds = self._holds(operands[0], parameters)
                return None if holds is None else self.value(operands[2 - holds], parameters)
            case _:
                return None

    def _holds(self, node: Instruction, parameters: _Parameters | None) -> bool | None:
        """Whether a comparison holds in all iterations (True) or in none; None if that differs or is not known."""
        if node.opcode != "compare" or node.direction not in _SIGNS or not self._trip_count:
            return None
        left, right = (self.value(operand, parameters) for operand in node.operands)
        if left is None or right is None:
            return None
        ends = (0, self._trip_count - 1)
        answers = {_SIGNS[node.direction]((left + -right).at(iteration)) for iteration in ends}
        return answers.pop() if len(answers) == 1 else None

    def iterations(self, node: Instruction, parameters: _Parameters | None = None) -> int | None:
        """In how many iterations, from the first one on, a predicate holds; None if that is not known."""
        operands = node.operands
        match node.opcode:
            case "fusion" if parameters is None:
                return self.iterations(node.called_root, self.operands(node))
            case "and":
                counts = [self.iterations(operand, parameters) for operand in operands]
                known = [number for number in counts if number is not None]
                return min(known) if len(known) == len(counts) else None
            case "compare" if node.direction in _ORDERS:
                left, right = (self.value(operand, parameters) for operand in operands)
                if left is None or right is None:
                    return None
                return _ORDERS[node.direction](left + -right)
            case _:
                return None


def _iterations_below_zero(number: Linear) -> int | None:
    """In how many iterations a number is negative before it is not."""
    if number.start >= 0:
        return 0
    return -(number.start // number.step) if number.step > 0 else None


_SIGNS: Mapping[str, Callable[[int], bool]] = {
    "LT": lambda difference: difference < 0,
    "LE": lambda difference: difference <= 0,
    "GT": lambda difference: difference > 0,
    "GE": lambda difference: difference >= 0,
}
"""By the direction of a comparison, whether it holds."""

_ORDERS: Mapping[str, Callable[[Linear], int | None]] = {
    "LT": _iterations_below_zero,
    "LE": lambda number: _iterations_below_zero(number + Linear(-1)),
    "GT": lambda number: _iterations_below_zero(-number),
    "GE": lambda number: _iterations_below_zero(-number + Linear(-1)),
}
"""By the direction of a comparison, from the difference of its sides."""
