"""Reads from the uses of an input which values that show most of a model: lengths, masks, divisors, images.

The operations have TensorFlow's names; StableHLO's and ONNX's are translated to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from .origins import COMPARES, ORDERS, Origins, reach, solve, undo, unite
from .values import Line, Origin, Step, Tensor

_MAX_MASKS = 4
_MAX_COLUMNS = 256
_FEW = 4
"""How often a loop may turn for an input that decides it."""
_FAR = 1e4
"""The largest number that floats are compared with."""
_LONG = 8
"""The largest length where the axis that it is compared with has no fixed extent."""
_BITS = frozenset({"int32", "int64", "uint32", "uint64"})
ARITHMETIC = frozenset({"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv"})


class Kinds(NamedTuple):
    """Element types of an operation, by NumPy's names."""

    source: str
    """Of what it reads."""
    result: str

    @property
    def integer(self) -> bool:
        """Whether it reads integers."""
        return "int" in self.source


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of one operation on a fed tensor."""

    kind: str
    """`index`: TensorFlow fails beyond the bounds.
    `range`: other values make no difference, or no sense. `gate`: the same for integers.
    `mask`: the value `low` has a meaning of its own, in the last `high` axes together. `edge`: something changes at the value.
    `scale`: the values that the first scale and shift expect. `domain`: others become NaN.
    `span`: around a number that a float is compared with.
    `table`: it selects one of `low` rows of weights; the values are indices after `steps`.
    `small`: large integers would hide the rest of the model when they become floats."""
    low: float | None
    high: float | None
    columns: tuple[int, int] | None = None
    """The positions along the last axis for which it is; None for all."""
    depth: int = 0
    """Of `scale`: how many steps there were."""
    steps: tuple[Step, ...] = ()
    """Of `table`."""


Use: TypeAlias = tuple[Origin, Demand]


def part_of(origin: Origin) -> tuple[int, int] | None:
    """The columns that a demand on an origin is for."""
    return None if origin.columns is None else origin.columns.part


def bounded(origins: Origins, low: float, high: float | None, kind: str) -> Iterator[Use]:
    """The demand on inputs whose values must be in [low, high) where they are used."""
    for origin in origins:
        bounds = solve(origin.steps, low, high)
        if bounds is not None and bounds != (None, None):
            yield origin, Demand(kind, *bounds, part_of(origin))


def passed(demand: Demand, origin: Origin) -> Demand | None:
    """The demand on an input that follows from one on a tensor whose values this holds; None if there is nothing to say."""
    if demand.kind in ("mask", "edge"):
        value = None if demand.low is None else undo(origin.steps, demand.low)
        return None if value is None else replace(demand, low=value, columns=part_of(origin))
    if demand.kind in ("small", "table"):
        steps = (*origin.steps, *demand.steps) if demand.kind == "table" else ()
        return replace(demand, columns=part_of(origin), steps=steps)
    bounds = solve(origin.steps, demand.low, demand.high)
    if bounds is None or bounds == (None, None):
        return None
    low, high = bounds
    return replace(demand, low=low, high=high, columns=part_of(origin))


def indexed(origins: Origins, limit: int | None, *, soft: bool) -> Iterator[Use]:
    """The demand on indices of a table with `limit` rows; `soft` if others make no failure.

    Values that are clipped or wrapped to an index should occur inside the table, and a little outside.
    """
    if limit is None:  # as many as its shape says then
        yield from bounded(origins, 0, 2, "range")
        return
    if limit < 1:
        return
    yield from bounded(origins, 0, limit, "range" if soft else "index")
    for origin in origins:
        bounds = solve(origin.steps, 0, limit)
        if bounds is not None and None in bounds:
            low, high = reach(origin.steps, 0, limit)
            yield origin, Demand("range", low, high, part_of(origin))


def selected(indices: Tensor, rows: int | None) -> Iterator[Use]:
    """The table of weights of which indices select rows."""
    if rows is None or rows < 2 or not indices.data:
        return
    for origin in indices.origins or (Origin(""),):
        yield origin, Demand("table", rows, None, part_of(origin), steps=origin.steps)


def find_uses(
    op: str, inputs: Sequence[Tensor], kinds: Kinds, *, condition: bool = False
) -> Iterator[Use]:
    """The demands of an operation on the inputs whose values it reads; `condition` is whether a loop goes on by it."""
    if op in COMPARES:
        yield from _compared(inputs, integer=kinds.integer)
    elif op in ORDERS:
        yield from _ordered(op, inputs, integer=kinds.integer, condition=condition)
    elif op == "Cast" and kinds.source in _BITS:
        if kinds.result == "bool":
            yield from bounded(inputs[0].origins, 0, 2, "range")
        elif "int" not in kinds.result:
            origins = inputs[0].origins
            yield from ((origin, Demand("small", 0, 10, part_of(origin))) for origin in origins)
    elif op in _CLIPS and not kinds.integer:
        origins, numbers, _ = _constants(inputs)
        yield from spans(origins, numbers)
    elif op in _DOMAINS and not kinds.integer:
        number, low, high = _DOMAINS[op]
        yield from bounded(
            inputs[number].origins if number < len(inputs) else (), low, high, "domain"
        )
    elif op in _DIVISORS and kinds.integer and len(inputs) > 1:
        yield from bounded(inputs[1].origins, 1, None, "range")
    elif op in _SHIFTS and len(inputs) > 1:
        bits = int(kinds.source.lstrip("uint") or 32)
        yield from bounded(inputs[1].origins, 0, bits, "range")
    elif op == "Pow" and kinds.integer and len(inputs) > 1:
        yield from bounded(inputs[1].origins, 0, _FEW, "range")
    elif op == "Mul" and not kinds.integer and len(inputs) > 1:
        for left, right in (inputs[:2], inputs[1::-1]):
            if right.data:
                yield from bounded(left.origins, 0, 2, "gate")


_DOMAINS: Mapping[str, tuple[int, float, float]] = {
    "Log": (0, 2.0**-10, 1.0),
    "Log1p": (0, 0.0, 4.0),
    "Sqrt": (0, 0.0, 4.0),
    "Rsqrt": (0, 2.0**-10, 4.0),
    "Pow": (0, 2.0**-10, 4.0),
    "Acosh": (0, 1.0, 4.0),
    **dict.fromkeys(("Asin", "Acos", "Atanh"), (0, -1.0, 1.0)),
}
"""The input of operations that are not defined for all numbers, and values for which they are."""
_CLIPS = frozenset({"Maximum", "Minimum"})
_DIVISORS = frozenset({"Div", "FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod"})
_SHIFTS = frozenset({"LeftShift", "RightShift"})


# --- comparisons ----------------------------------------------------------------------------------


def _constants(inputs: Sequence[Tensor]) -> tuple[Origins, list[float], bool]:
    """The tensor that is compared with a constant, its numbers, and whether the constant comes first."""
    left, right = (*inputs, Tensor(), Tensor())[:2]
    turned = not left.origins
    if turned:
        left, right = right, left
    return left.origins, sorted({float(n) for n in right.value or () if n is not None}), turned


def _compared(inputs: Sequence[Tensor], *, integer: bool) -> Iterator[Use]:
    origins, numbers, _ = _constants(inputs)
    numbers = [number for number in numbers if math.isfinite(number)]
    if integer and len(numbers) > 1 and _follow(numbers):  # such as one-hot rows
        yield from bounded(origins, numbers[0], numbers[-1] + 1, "range")
        return
    for origin in origins:
        for number in numbers[:_MAX_MASKS]:
            value = undo(origin.steps, number)
            if value is not None:
                yield origin, Demand("mask", value, 0.0)


def _ordered(op: str, inputs: Sequence[Tensor], *, integer: bool, condition: bool) -> Iterator[Use]:
    origins, numbers, turned = _constants(inputs)
    if not integer:
        yield from spans(origins, numbers)
        return
    if condition and not numbers:
        yield from bounded(unite(tensor.origins for tensor in inputs), 1, _FEW, "range")
    elif len(numbers) == 1:
        # Both outcomes, on both sides of where the result changes.
        above = 0 if (op in ("Less", "GreaterEqual")) != turned else 1
        for origin in origins:
            for number in (numbers[0] + above - 1, numbers[0] + above):
                value = undo(origin.steps, number)
                if value is not None:
                    yield origin, Demand("edge", value, None, part_of(origin))
    elif numbers:
        # A length, compared with all positions, is one at least; all outcomes should occur.
        before = op in ("Less", "Greater") and (op == "Less") == turned
        lengths = before and numbers[0] == 0 and _follow(numbers)
        low, high = (1, numbers[-1] + 2) if lengths else (numbers[0], numbers[-1] + 2)
        yield from bounded(origins, low, high, "range")
    else:
        other = inputs[0] if turned else inputs[1] if len(inputs) > 1 else Tensor()
        if other.positions:
            yield from bounded(origins, 1, _LONG + 1, "range")


def spans(origins: Origins, numbers: Sequence[float]) -> Iterator[Use]:
    """Values on both sides of numbers that floats are compared with, or clipped at."""
    for number in numbers:
        if not 1 < abs(number) <= _FAR:
            continue  # ordinary values are around it, or it stands for no limit
        away = max(1.0, abs(number) / 4)
        yield from bounded(origins, number - away, number + away, "span")


def _follow(numbers: Sequence[float]) -> bool:
    """Whether numbers count up by one."""
    return all(after - before == 1 for before, after in pairwise(numbers))


# --- the first scale and shift --------------------------------------------------------------------


def find_scales(origins: Origins) -> Iterator[Use]:
    """The values for which the first arithmetic with constants was made, after each operation of it."""
    for origin in origins:
        lines, depth = origin.lines, len(origin.steps)
        if lines is None or not depth or len(lines) > _MAX_COLUMNS:
            continue
        if lines[0][0] >= _MASKING and lines == ((lines[0][0], -lines[0][0]),):
            # A mask of which zeros become large negative numbers.
            yield origin, Demand("range", 0.0, 2.0, part_of(origin))
            continue
        bounds = [_expected(line) for line in lines]
        columns = origin.columns
        if len(set(bounds)) == 1 or columns is None:
            if bounds[0] is not None:
                yield origin, Demand("scale", *bounds[0], part_of(origin), depth)
            continue
        for number, limits in enumerate(bounds, start=columns.first):
            if limits is not None:
                yield origin, Demand("scale", *limits, (number, number + 1), depth)


_MASKING = 100.0
_UNIT = math.sqrt(3.0)
"""Uniform numbers up to it have the variance 1."""
_LARGE = 64.0
_SOUND = 1000.0


def _expected(line: Line) -> tuple[float, float] | None:
    """The values that become numbers of unit variance, or those of images; None if numbers of unit variance do too."""
    a, b = line
    if not a or not math.isfinite(b / a):
        return None
    center, half = -b / a, _UNIT / abs(a)
    if abs(a) == 1:  # only a shift, such as the mean of an image
        return (min(0.0, 2 * center), max(0.0, 2 * center)) if abs(b) > _UNIT else None
    if not b:
        size = 1 / abs(a)
        if size < _LARGE:
            return None
        if size > _SOUND:
            return -size, size
        return 0.0, float(_PIXEL) if size in _PIXELS or abs(size - 255) < 1 else size
    if _BYTES[0] <= center <= _BYTES[1] and _BYTES[2] <= half <= _BYTES[3]:
        return 0.0, float(_PIXEL)
    if abs(center - 0.5) < _NEAR and 2 * _NEAR < half < 1:
        return 0.0, 1.0
    return center - half, center + half


_PIXEL = 255
_PIXELS = (127.0, 127.5, 128.0, 255.0, 256.0)
_BYTES = (90.0, 165.0, 60.0, 260.0)
"""Means and half ranges of what images of bytes are normalised with."""
_NEAR = 0.15
