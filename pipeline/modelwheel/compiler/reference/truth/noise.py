"""Estimates what rounding makes of each row of an output: how far it may be from its truth, and what of it decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....accuracy import INEXACT, UNDECIDED, rounding_at
from ....model.measuring import difference, widen
from ..ranked import find_disputed
from ..rows import Arrays

Array = np.ndarray[Any, Any]

_FACTOR = 4
"""The usual `verify.error_factor`: what it makes of noise has to stay below what is decided."""
MOST = 0.5
"""The largest part of an output that may be left out: a wheel of which less was compared is not verified."""

_ROUNDED, _ROUNDINGS = 1e-5, 16
"""The largest relative error of a framework whose model was converted to StableHLO: this, or so many times what
rounding moves. More is an error of the conversion, which float64 would share with the wheel."""

_SMALL = 1e-3
"""The relative error of a framework that may be that of an approximation, such as a polynomial."""


@dataclass(frozen=True)
class Case:
    """One evaluation of the reference."""

    ours: Arrays
    """By the framework."""
    exact: Arrays
    """In float64, for the outputs that have that."""
    spread: Arrays
    """See `measure_spread`; empty if it was not measured."""
    leading: Mapping[str, int]
    """For every output, the extent of axis 0 for each row; 0 if it has no rows."""
    scales: Mapping[str, float] = field(default_factory=dict)
    """See `scales_of`."""
    most: float = MOST
    """The part of an output that may be left out: 0 for nothing, 1 for any."""
    has_ties: bool = False
    """Whether the graph rounds sums to integers: the error of one evaluation says little about another one."""
    disputed: Mapping[str, Array] = field(default_factory=dict)
    """Of outputs that a score sorts, the elements that stand beside equal ones: see `sorted_by_scores`."""

    def without_exact(self, name: str) -> Case:
        """This evaluation without the truth of an output."""
        return replace(self, exact={n: a for n, a in self.exact.items() if n != name})

    def sorted_by_scores(self) -> Case:
        """This evaluation, of a graph that sorts. The scores are compared whatever comes of it, so that their errors count."""
        masks = {
            name: find_disputed(self.ours, self.exact, self.spread, name) for name in self.ours
        }
        return replace(self, disputed={n: mask for n, mask in masks.items() if mask is not None})

    def in_place(self, name: str, places: Array) -> Case:
        """This evaluation, where rounding moves nothing of an output from one of these places to another."""
        if name not in self.spread or not places.any():
            return self
        moves = np.where(places, np.zeros((), self.spread[name].dtype), self.spread[name])
        return replace(self, spread={**self.spread, name: moves})


@dataclass(frozen=True)
class Noise:
    """The errors of one output by rounding."""

    allowed: Array
    """For each row, or each element, in the shape of the output or one that NumPy makes that of: the error that rounding
    makes; infinite for what decides nothing."""
    clause: str | None = None
    """What decides nothing, and why."""
    sensitive: str | None = None
    """What decides nothing and is too much to be left out, and is compared in spite of that."""

    def decided(self, values: Array) -> Array:
        """Which elements are to be compared."""
        return np.broadcast_to(np.isfinite(self.allowed), values.shape)


def scale_of(case: Case, name: str) -> float:
    """The largest absolute value of an output that was seen, or that can be."""
    values = np.abs(widen(case.ours[name]))
    largest = float(values[np.isfinite(values)].max(initial=0.0))
    return max(largest, case.scales.get(name, 0.0))


class _Left:
    """Collects what of an output decides nothing."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._left: list[str] = []
        self._too_much: list[str] = []

    def leave(self, mask: Array, why: str) -> bool:
        """Whether the elements or rows of a mask, of which there are some, are left out."""
        share = float(np.mean(mask)) if mask.size else 0.0
        if not share:
            return False
        clause = f"{np.count_nonzero(mask)} of {mask.size} {why}"
        (self._left if share <= self._most else self._too_much).append(clause)
        return share <= self._most

    def keep(self, mask: Array, why: str) -> None:
        """Says of elements that they decide nothing, and are compared in spite of that."""
        if mask.any():
            self._too_much.append(f"{np.count_nonzero(mask)} of {mask.size} {why}")

    def leave_to_scores(self, mask: Array) -> None:
        """Leaves elements out whose scores are compared, however many: see `disputed`."""
        self._left.append(
            f"{np.count_nonzero(mask)} of {mask.size} values, whose places depend on scores that are equal but for rounding"
        )

    def noise(self, allowed: Array) -> Noise:
        """With the clauses."""
        return Noise(allowed, _join(self._left), _join(self._too_much))


def _join(clauses: list[str]) -> str | None:
    return " and ".join(clauses) or None


_CHANGE = "change if weights and inputs change in their last place"


def find_noise(case: Case, name: str, framework: str) -> Noise:
    """The noise of one output.

    Args:
        case: The evaluation.
        name: The output.
        framework: What computed it, for sentences.
    """
    ours, left = case.ours[name], _Left(case.most)
    if ours.dtype.kind in "biu":
        return _of_integers(case, name, framework)
    disputed = case.disputed.get(name, np.zeros(ours.shape, bool))
    case = case.in_place(name, disputed)
    own = difference(ours, case.exact[name]) if name in case.exact else np.zeros(ours.shape)
    own[~np.isfinite(own) | disputed] = 0.0
    if name in case.spread and _is_noisy(case, name, own):
        allowed = _of_rows(case, name, own, left)
    else:
        # One row may be exact by chance.
        allowed = np.full((1,) * ours.ndim, own.max(initial=0.0))
    missing = np.isnan(widen(ours))
    if left.leave(missing, f"values, which are NaN in {framework}"):
        allowed = np.where(missing, np.inf, allowed)
    if disputed.any():
        allowed = np.where(disputed, np.inf, allowed)
        left.leave_to_scores(disputed)
    return left.noise(allowed)


def _of_rows(case: Case, name: str, own: Array, left: _Left) -> Array:
    """The error that rounding makes of each row, or element, of an output of floats that it moves."""
    leading, scale = case.leading.get(name, 0), scale_of(case, name)
    spread, own = _by_row(case.spread[name], leading), _by_row(own, leading)
    decided = UNDECIDED / _FACTOR * scale
    if case.has_ties and np.isfinite(spread).all():
        # Every row decides something: further than an element moves by itself, it is not another integer.
        left.keep(case.spread[name] > decided, f"values, which {_CHANGE}")
        moved = case.spread[name] * (1 + _ROUNDED)  # a step is a rounded number
        steps: Array = np.maximum(np.minimum(np.maximum(spread, own), decided), moved / _FACTOR)
        return steps
    unsure = ~(spread <= decided)
    is_left = left.leave(unsure, f"rows, which {_CHANGE}")
    rows = np.where(unsure, np.inf if is_left else 0.0, spread)
    # An error of the framework that is neither rounding nor small is none that a wheel may make.
    most = np.maximum(_ROUNDINGS * rows, _SMALL * scale)
    allowed: Array = np.maximum(rows, np.minimum(own, most))
    return allowed


def _is_noisy(case: Case, name: str, own: Array) -> bool:
    """Whether what was measured says more than the framework's own error, which is that of few roundings."""
    if name not in case.exact or case.has_ties:
        return True
    values = np.abs(widen(case.ours[name]))
    largest = float(values[np.isfinite(values)].max(initial=0.0))
    return bool(own.max(initial=0.0) > INEXACT * largest)


def _of_integers(case: Case, name: str, framework: str) -> Noise:
    ours, leading, left = case.ours[name], case.leading.get(name, 0), _Left(case.most)
    unsure, missing = np.zeros(ours.shape, bool), np.zeros(ours.shape, bool)
    if ours.ndim and ours.size:
        rows = missing.reshape(len(ours) // (leading or len(ours)), -1)
        for values in _with_same_rows(case, name, len(rows)):
            rows |= np.isnan(values).any(axis=1, keepdims=True)
    if left.leave(missing, f"values, in rows with NaN in {framework}"):
        unsure |= missing
    disputed = case.disputed.get(name, missing) & ~missing
    if disputed.any():
        unsure |= disputed
        left.leave_to_scores(disputed)
    changed = case.spread.get(name, missing).astype(bool) & ~missing & ~disputed
    if left.leave(changed, f"values, which {_CHANGE}"):
        unsure |= changed
    return left.noise(np.where(unsure, np.inf, 0.0))


def _with_same_rows(case: Case, name: str, rows: int) -> Iterator[Array]:
    """The other outputs that are floats, by row."""
    for other, values in case.ours.items():
        leading = case.leading.get(other, 0)
        if other == name or values.dtype.kind in "biu" or not values.size:
            continue
        if (len(values) // leading if leading and values.ndim else 1) == rows:
            yield widen(values).reshape(rows, -1)


def _by_row(values: Array, leading: int) -> Array:
    """The largest of each row, in a shape that NumPy makes that of the values; one number without rows."""
    if not leading or not values.ndim:
        return np.full((1,) * values.ndim, values.max(initial=0.0))
    rows = values.reshape(len(values) // leading, -1).max(axis=1, initial=0.0)
    return np.repeat(rows, leading).reshape(-1, *(1,) * (values.ndim - 1))


def conversion_error(case: Case, name: str, noise: Noise, framework: str) -> str | None:
    """How float64 differs from the framework by more than rounding explains, as a clause; None if it does not.

    Only errors of a conversion are so, if the graph was made by one.
    """
    ours, exact = case.ours[name], case.exact[name]
    decided = noise.decided(ours)
    case = case.in_place(name, ~decided)
    if ours.dtype.kind in "biu":
        wrong = (widen(ours) != widen(exact)) & decided
        if not wrong.any():
            return None
        return f"{framework} and float64 differ in {np.count_nonzero(wrong)} of {ours.size} values"
    error = difference(ours, exact)
    values = np.abs(widen(ours))
    largest = float(values[np.isfinite(values)].max(initial=0.0))
    limit = np.full(ours.shape, _ROUNDED * largest)
    limit = np.maximum(limit, rounding_at(case.scales.get(name, 0.0)))
    if name in case.spread:
        spread = _by_row(case.spread[name], case.leading.get(name, 0))
        limit = np.maximum(limit, _ROUNDINGS * spread)
    worst = float(np.where(decided & ~(error <= limit), error, 0.0).max(initial=0.0))
    if not worst:
        return None
    if not np.isfinite(worst):
        return f"{framework} and float64 are finite in other places"
    return (
        f"{framework} and float64 differ by {worst:.2g}, where the largest value is {largest:.2g}, "
        "more than rounding explains"
    )
