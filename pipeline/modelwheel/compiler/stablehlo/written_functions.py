"""Finds the error function and its complement where a framework has written them out as arithmetic.

JAX and torch-mlir export polynomials in place of `erf` and `erfc`, and other versions of them other ones. So they are found by
what they compute: a value is `erf` of another one if it is that at many points. The operation itself takes the place of the
arithmetic, for which the compiler has better code, and by which GELU is found.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .mlir_text import Block, Op, read_functions, result_types
from .module_names import without_names

_ROOTS = frozenset({"stablehlo.clamp", "stablehlo.select"})
"""What such arithmetic ends with: it differs for small and for large numbers."""
_REPEATED = frozenset(
    {
        "stablehlo.broadcast_in_dim",
        "stablehlo.dynamic_broadcast_in_dim",
        "stablehlo.dynamic_reshape",
        "stablehlo.reshape",
    }
)
"""Operations on the first operand that leave a number what it is."""
_MOST_OPERATIONS = 160
_FEWEST_NUMBERS = 8
"""Of polynomials that are exact enough: limits and masks have fewer."""
_ELEMENT = "f32"
_NUMBER = re.compile(r"dense<([-+.\deE]+|0x[0-9A-Fa-f]{8})>")
_DIRECTION = re.compile(r"\b(LT|LE|GT|GE|EQ|NE)\b")
_Array: TypeAlias = np.ndarray[Any, Any]
_ARITHMETIC: Mapping[str, Callable[..., _Array]] = {
    "abs": np.abs,
    "add": np.add,
    "chlo.erf": np.vectorize(math.erf, otypes=[float]),
    "chlo.erfc": np.vectorize(math.erfc, otypes=[float]),
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "divide": np.divide,
    "exponential": np.exp,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "power": np.power,
    "select": np.where,
    "subtract": np.subtract,
    "tanh": np.tanh,
}
_COMPARISONS: Mapping[str, Callable[..., _Array]] = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}


_FEW, _MANY = (np.linspace(-9.01, 9.02, number) for number in (12, 3000))
"""Where functions are compared: if they agree at a few points, at many."""


class KnownFunction:
    """A function of one number that is found by its values."""

    def __init__(self, op: str, function: Callable[[float], float], absolute: float) -> None:
        """Computes it where it is compared.

        Args:
            op: The operation that computes it.
            function: What it is.
            absolute: How far values may be from it, beside a few units in the last place.
        """
        self.op, self._absolute = op, absolute
        self._few, self._many = (
            np.array([function(point) for point in points]) for points in (_FEW, _MANY)
        )

    def is_like(self, few: _Array) -> bool:
        """Whether values at a few points are those of this function."""
        return np.allclose(few, self._few, rtol=1e-6, atol=self._absolute)

    def is_equal(self, many: _Array) -> bool:
        """Whether two functions agree at many points, as exactly as 32-bit floats can be."""
        return np.allclose(many, self._many, rtol=1e-6, atol=self._absolute)


_FUNCTIONS = (
    KnownFunction("chlo.erf", math.erf, 3e-7),
    # The least normal number: smaller ones may be 0.
    KnownFunction("chlo.erfc", math.erfc, 1.2e-38),
)


def restore_functions(text: str) -> str:
    """The text of a module in which `chlo.erf` and `chlo.erfc` are what arithmetic stood for; the same text if none does."""
    if not any(f"{name} " in text for name in _ROOTS):
        return text
    lines: list[str] | None = None
    for function in read_functions(without_names(text)).values():
        for root, argument, name in _written(function.body, {}):
            lines = lines or text.split("\n")
            line = without_names(lines[root.line])
            start, kind = line.partition("=")[0], line[line.rindex("tensor<") :]
            layer = lines[root.line][len(line) :]
            lines[root.line] = f"{start}= {name} %{argument} : {kind} -> {kind}{layer}"
    return text if lines is None else "\n".join(lines)


def _written(block: Block, outer: Mapping[str, Op]) -> Iterator[tuple[Op, str, str]]:
    """The last operation of each function that is written out, its argument, and the operation that it is."""
    known = {**outer, **{name: op for op in block.ops for name, _ in op.results}}
    for op in block.ops:
        for region in op.regions:
            yield from _written(region, known)
        if op.name in _ROOTS and [t.element for t in result_types(op)[-1:]] == [_ELEMENT]:
            match = Arithmetic(known, op).find(_FUNCTIONS, _MOST_OPERATIONS, _FEWEST_NUMBERS)
            if match is not None:
                yield op, *match


class Arithmetic:
    """The operations that a value is computed by, element by element."""

    def __init__(self, known: Mapping[str, Op], root: Op) -> None:
        self._known = known
        self._root = root.results[0][0]

    def find(
        self, functions: Sequence[KnownFunction], most: int, numbers: int
    ) -> tuple[str, str] | None:
        """The value that another one is a function of, and the operation of that function.

        Args:
            functions: Those that it may be.
            most: The largest number of values that it is computed from.
            numbers: How many constants there are at least.
        """
        names = self._names(most)
        values = [name for name in names if not self._is_constant(name)]
        if len(names) - len(values) < numbers:
            return None
        # The farthest: before it, numbers beyond which the function is constant may be cut off.
        for name in reversed(values):
            if self._depends_only_on(name, most):
                few = self._values(name, _FEW)
                for function in functions:
                    if function.is_like(few) and function.is_equal(self._values(name, _MANY)):
                        return name, function.op
        return None

    def has_any(self, operations: Collection[str], most: int) -> bool:
        """Whether one of these is among the nearest operations that it is computed by."""
        return any(
            n in self._known and self._known[n].name in operations for n in self._names(most)
        )

    def _names(self, most: int) -> list[str]:
        """The values that it is computed from, the nearest first."""
        names = [self._root]
        for name in names:  # grows while it is walked
            op = self._known.get(name)
            if op is not None and not self._is_constant(name) and _is_arithmetic(op):
                names += dict.fromkeys(n for n, _ in op.operands if n not in names)
            if len(names) > most:
                break
        return names[1 : most + 1]

    def _depends_only_on(self, argument: str, most: int) -> bool:
        """Whether the value follows from that of another one, by not too many others."""
        waiting, seen = [self._root], {self._root}
        while waiting:
            op = self._known.get(waiting.pop())
            if op is None or not _is_arithmetic(op) or len(seen) > most:
                return False
            for name, _ in op.operands:
                if name not in seen and name != argument and not self._is_constant(name):
                    waiting.append(name)
                seen.add(name)
        return True

    def _is_constant(self, name: str) -> bool:
        op = self._known.get(name)
        return op is not None and number_of(op, self._known) is not None

    def _values(self, argument: str, points: _Array) -> _Array:
        """The value at some points of what it depends on only."""
        with np.errstate(all="ignore"):
            return self._value(self._root, {argument: points})

    def _value(self, name: str, known: dict[str, _Array]) -> _Array:
        if name not in known:
            op = self._known[name]
            number = number_of(op, self._known)
            operands = op.operands if number is None else []
            values = [self._value(operand, known) for operand, _ in operands]
            known[name] = np.asarray(number) if number is not None else _compute(op)(*values)
        return known[name]


def _is_arithmetic(op: Op) -> bool:
    name = op.name.removeprefix("stablehlo.")
    return name in _ARITHMETIC or name == "compare"


def _compute(op: Op) -> Callable[..., _Array]:
    if op.name != "stablehlo.compare":
        return _ARITHMETIC[op.name.removeprefix("stablehlo.")]
    direction = _DIRECTION.search(op.text)
    return _COMPARISONS[direction[1]] if direction else _ARITHMETIC["select"]


def number_of(op: Op, known: Mapping[str, Op]) -> float | None:
    """The number that all elements of a constant are."""
    if op.name in _REPEATED and op.operands:
        before = known.get(op.operands[0][0])
        return None if before is None or before is op else number_of(before, known)
    match = _NUMBER.search(op.text) if op.name == "stablehlo.constant" else None
    if match is None:
        return None
    if match[1].startswith("0x"):
        return float(np.array([int(match[1], 16)], np.uint32).view(np.float32)[0])
    return float(match[1])
