"""Patterns of operations in a graph, as data: what a `Fusion` replaces where nobody marked a function.

A pattern is a tree. Its leaves are captures, which become arguments of the fusion, and constants; its other nodes are
operations. A tensor that is read twice has the same name in both places. `match` finds a pattern below a tensor of any graph
that can be read as a `View`, so nothing here needs TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

COMMUTATIVE = frozenset({"Add", "AddV2", "Mul", "Maximum", "Minimum", "SquaredDifference"})
"""Operations whose two inputs may change places."""

_CLOSE = 2e-7
"""How far a constant may be from that of a pattern, relative to it: a float32 is rounded by less."""


@dataclass(frozen=True)
class Capture:
    """Any tensor: an argument of the fusion."""

    name: str
    rank: int | None = None
    """How many axes it must have; None for any number."""


@dataclass(frozen=True)
class Constant:
    """A constant whose elements all have one value."""

    value: float


@dataclass(frozen=True)
class Parameter:
    """A constant whose elements all have one value, which is an attribute of the fusion."""

    name: str
    reciprocal: bool = False
    """Whether the attribute is 1 divided by it."""


@dataclass(frozen=True)
class Integers:
    """A constant list of integers, such as the axes of a sum or a permutation."""

    values: tuple[int, ...]
    axes_of: str = ""
    """The name of a tensor whose axes they are: negative ones count from its last one."""


@dataclass(frozen=True)
class Op:
    """The result of an operation."""

    types: tuple[str, ...]
    """TensorFlow's names of the operations that it may be."""
    inputs: tuple[Pattern, ...]
    attributes: Mapping[str, bool | int | str] = field(default_factory=dict)
    """Those that matter, with the values that they must have."""
    name: str = ""
    """Other places where the same tensor is read have a `Same` of this name."""
    means: Mapping[str, bool | float] = field(default_factory=dict)
    """Attributes of the fusion that follow from this form."""


@dataclass(frozen=True)
class Same:
    """The tensor that a capture or an operation of this name is; it must come before, in the order of inputs."""

    name: str


@dataclass(frozen=True)
class Either:
    """One of several forms; the first one that matches."""

    forms: tuple[Pattern, ...]


Pattern: TypeAlias = Capture | Constant | Parameter | Integers | Op | Same | Either

Tensor: TypeAlias = Hashable


class View(Protocol):
    """A graph as `match` reads it. Operations that hand on their input, such as Identity, are not seen."""

    def operation(
        self, tensor: Tensor, attributes: Mapping[str, bool | int | str]
    ) -> tuple[str, Sequence[Tensor]] | None:
        """The type and the inputs of the operation whose only result is this; None for other tensors.

        Args:
            tensor: The result.
            attributes: None also if it cannot be seen as an operation with these.
        """

    def scalar(self, tensor: Tensor) -> float | None:
        """The value of all elements of a constant; None if they differ, or it is no constant."""

    def integers(self, tensor: Tensor) -> tuple[int, ...] | None:
        """The elements of a constant of integers; None for other tensors."""

    def rank(self, tensor: Tensor) -> int | None:
        """The number of axes; None if it is not known."""


@dataclass(frozen=True)
class Match:
    """Where a pattern is."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    """Captures and named operations."""
    attributes: Mapping[str, float] = field(default_factory=dict)
    inside: frozenset[Tensor] = frozenset()
    """The results of operations that the fusion replaces."""


def match(pattern: Pattern, tensor: Tensor, view: View) -> Match | None:
    """The pattern whose result is `tensor`; None if the graph has another one there."""
    return next(_find(pattern, tensor, view, Match()), None)


def _find(pattern: Pattern, tensor: Tensor, view: View, matched: Match) -> Iterator[Match]:
    """All ways in which a pattern is what a tensor is, each added to what is found so far."""
    match pattern:
        case Capture():
            if pattern.rank is None or view.rank(tensor) == pattern.rank:
                yield from _bind(pattern.name, tensor, matched)
        case Same():
            if matched.tensors.get(pattern.name) == tensor:
                yield matched
        case Constant():
            value = view.scalar(tensor)
            if value is not None and math.isclose(value, pattern.value, rel_tol=_CLOSE):
                yield matched
        case Parameter():
            value = view.scalar(tensor)
            if value and pattern.reciprocal:
                value = 1 / value
            if value is not None and matched.attributes.get(pattern.name, value) == value:
                attributes = {**matched.attributes, pattern.name: value}
                yield Match(matched.tensors, attributes, matched.inside)
        case Integers():
            if view.integers(tensor) in _written(pattern, view, matched):
                yield matched
        case Either():
            for form in pattern.forms:
                yield from _find(form, tensor, view, matched)
        case Op():
            yield from _find_operation(pattern, tensor, view, matched)


def _bind(name: str, tensor: Tensor, matched: Match) -> Iterator[Match]:
    if matched.tensors.get(name, tensor) == tensor:
        yield Match({**matched.tensors, name: tensor}, matched.attributes, matched.inside)


def _written(pattern: Integers, view: View, matched: Match) -> tuple[tuple[int, ...], ...]:
    """The lists that mean the same."""
    if not pattern.axes_of:
        return (pattern.values,)
    rank = view.rank(matched.tensors.get(pattern.axes_of))
    if rank is None:
        return (pattern.values,)
    return (pattern.values, tuple(axis % rank for axis in pattern.values))


def _find_operation(pattern: Op, tensor: Tensor, view: View, matched: Match) -> Iterator[Match]:
    operation = view.operation(tensor, pattern.attributes)
    if operation is None or operation[0] not in pattern.types:
        return
    inputs = operation[1]
    if len(inputs) != len(pattern.inputs):
        return
    orders = [inputs]
    if operation[0] in COMMUTATIVE and len(inputs) == 2:
        orders.append(inputs[::-1])
    for order in orders:
        for extended in _find_inputs(pattern.inputs, order, view, matched):
            attributes = {**extended.attributes, **pattern.means}
            inside = Match(extended.tensors, attributes, extended.inside | {tensor})
            if pattern.name:
                yield from _bind(pattern.name, tensor, inside)
            else:
                yield inside


def _find_inputs(
    patterns: Sequence[Pattern], tensors: Sequence[Tensor], view: View, matched: Match
) -> Iterator[Match]:
    if not patterns:
        yield matched
        return
    for extended in _find(patterns[0], tensors[0], view, matched):
        yield from _find_inputs(patterns[1:], tensors[1:], view, extended)


def captures(pattern: Pattern) -> set[str]:
    """The names of all captures."""
    match pattern:
        case Capture():
            return {pattern.name}
        case Op():
            return {name for operand in pattern.inputs for name in captures(operand)}
        case Either():
            return {name for form in pattern.forms for name in captures(form)}
        case _:
            return set()


def size(pattern: Pattern) -> int:
    """How many operations it has at most: a larger pattern is looked for before what it contains."""
    match pattern:
        case Op():
            return 1 + sum(map(size, pattern.inputs))
        case Either():
            return max(map(size, pattern.forms))
        case _:
            return 0


# --- what patterns are written with ---------------------------------------------------------------


def add(left: Pattern, right: Pattern, name: str = "") -> Op:
    """A sum, in any order."""
    return Op(("Add", "AddV2"), (left, right), name=name)


def subtract(left: Pattern, right: Pattern, name: str = "") -> Op:
    """A difference."""
    return Op(("Sub",), (left, right), name=name)


def multiply(left: Pattern, right: Pattern, name: str = "") -> Op:
    """A product of two factors, in any order."""
    return Op(("Mul",), (left, right), name=name)


def product(first: Pattern, second: Pattern, third: Pattern) -> Either:
    """A product of three factors, in any order; what they name must not depend on each other."""
    return Either(
        (
            multiply(multiply(first, second), third),
            multiply(multiply(first, third), second),
            multiply(first, multiply(second, third)),
        )
    )


def divide(left: Pattern, right: Pattern) -> Op:
    """A quotient."""
    return Op(("RealDiv", "Div"), (left, right))


def negate(pattern: Pattern) -> Op:
    """A tensor with the other sign."""
    return Op(("Neg",), (pattern,))


def square(pattern: Pattern) -> Either:
    """A tensor times itself."""
    return Either(
        (
            Op(("Square",), (pattern,)),
            multiply(pattern, pattern),
            Op(("Pow",), (pattern, Constant(2.0))),
        )
    )


def scaled(pattern: Pattern, factor: float) -> Either:
    """A tensor times a number, or divided by the reciprocal."""
    return Either((multiply(pattern, Constant(factor)), divide(pattern, Constant(1 / factor))))


def reduced(operation: str, pattern: Pattern, axes_of: str) -> Op:
    """`Sum`, `Mean` or `Max` of the last axis, which is kept; `axes_of` names a tensor of the same rank."""
    return Op((operation,), (pattern, Integers((-1,), axes_of)), {"keep_dims": True})
