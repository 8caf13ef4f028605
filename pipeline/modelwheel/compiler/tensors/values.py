"""Keeps what is known of the values of a graph: small tensors, and the inputs whose values a tensor holds.

A value is a flat tuple of Python numbers with None for what is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from .columns import Columns

MAX_ELEMENTS = 256
"""The largest tensors whose values are followed."""
MAX_POSITIONS = 4096
"""For integers along one axis, such as all positions that a length is compared with."""

Number: TypeAlias = int | float | bool | None
Shape: TypeAlias = tuple[int | None, ...]
Bounds: TypeAlias = tuple[int, int]
"""The least and the largest of some integers."""

Step: TypeAlias = tuple[str, float, float]
"""A change of values: its kind and up to two numbers."""
Line: TypeAlias = tuple[float, float]
"""What a value is multiplied with, and what is added to it then."""
_MAX_STEPS = 8


@dataclass(frozen=True, slots=True)
class Origin:
    """An input whose values a tensor holds, some or all of them."""

    feed: str
    """The node that is fed."""
    steps: tuple[Step, ...] = ()
    """What was done to the values, in order."""
    columns: Columns | None = None
    """The columns whose values they are; None where columns are not known."""
    lines: tuple[Line, ...] | None = ((1.0, 0.0),)
    """What became of a value x up to here: `a * x + b` with one pair for all, or with one for each column; None if it
    was anything else."""

    def then(self, kind: str, one: float = 0.0, other: float = 0.0) -> Origin | None:
        """The rule after one more step; None if there are too many."""
        if len(self.steps) == _MAX_STEPS or not (math.isfinite(one) and math.isfinite(other)):
            return None
        return replace(self, steps=(*self.steps, (kind, one, other)), lines=None)


def in_turns(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """The origins of a variable of a loop that changes it: what a turn scales says nothing about the inputs."""
    return tuple(replace(origin, lines=None) for origin in origins)


@dataclass(frozen=True, slots=True)
class Tensor:
    """The facts about a tensor that are known before anything runs."""

    shape: Shape | None = None
    """None if even the rank is unknown."""
    value: tuple[Number, ...] | None = None
    """Its elements; the shape is then known."""
    dynamic: bool = True
    """Whether it depends on the inputs, or on random numbers."""
    handle: Shape | None = None
    """The shape of the variable that it refers to."""
    origins: tuple[Origin, ...] = ()
    """The inputs whose values it holds."""
    data: bool = False
    """Whether its elements depend on elements of the inputs, not only on their shapes."""
    bounds: Bounds | None = None
    """Of its elements, where they are not known."""
    compared: tuple[Origin, ...] = ()
    """Of a truth value: what was compared with a constant."""
    positions: bool = False
    """Whether it counts from 0 along an axis whose extent is not fixed."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing is known about its elements."""
        known = self.value is not None or self.bounds is not None
        return not (known or self.origins or self.compared or self.positions)

    @property
    def elements(self) -> int:
        """At least so many elements: axes of unknown extent count as 1."""
        return math.prod(extent for extent in self.shape or () if extent is not None)


UNKNOWN = Tensor()


def is_short(shape: Sequence[int | None], *, integer: bool) -> bool:
    """Whether a tensor of this shape has so few elements that their values are followed."""
    elements = math.prod(extent or 0 for extent in shape)
    along_one = elements == max((extent or 0 for extent in shape), default=1)
    return elements <= (MAX_POSITIONS if integer and along_one else MAX_ELEMENTS)
