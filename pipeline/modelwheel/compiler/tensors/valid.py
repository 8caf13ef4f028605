"""The values of one input with which a model is compared: what all demands on it, and its uses, say together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from ...dtypes import DTYPES, integer_limits
from ...model.input_values import parts_of
from ...model.inspection import ColumnValues, Mask, Table, TensorInfo, ValidValues
from ..graphs.graphs import layer_name
from .demands import Demands
from .uses import Demand

_MAX_MASKS = 4
_KINDS = ("index", "range", "scale", "domain", "span", "gate", "small")
"""What decides about bounds: the first of these that there are demands of."""
_SMALL = 1 << 16
"""Integers up to it are drawn from their whole type, whatever they are scaled with."""
_ORDINARY = (-2.0, 2.0)
_OF_INTEGERS = ("gate", "small", "edge")
_Places = Mapping[Demand, tuple[str, str]]


class _Bounds(NamedTuple):
    """[low, high) and where they come from."""

    low: float
    high: float
    why: tuple[str, str]
    kind: str
    open: bool = False
    """Whether the model takes any value on one side of them, such as what it clips to an index."""

    @property
    def soft(self) -> bool:
        """Whether other values are valid too."""
        return self.kind != "index" or self.open


def valid_values(tensor: TensorInfo, feed: str, demands: Demands) -> ValidValues | None:
    """The values of an input that make sense to its model; None if any do."""
    if tensor.dtype not in DTYPES or tensor.dtype == "bool" or tensor.dtype.startswith("complex"):
        return None
    integer = integer_limits(tensor.dtype) is not None
    mine = {
        demand: place
        for (fed, demand), place in demands.items()
        if fed == feed and (integer or demand.kind not in _OF_INTEGERS)
    }
    whole = {demand: place for demand, place in mine.items() if demand.columns is None}
    bounds = _intersect(tensor.dtype, whole)
    masks = _masks(tensor.dtype, whole, bounds)
    columns, first = _columns(tensor.dtype, mine, bounds)
    masks = tuple(m for m in masks if all(c.low <= m.value < c.high for c in columns))
    if bounds is None and not masks and not columns:
        return None
    marks = [place for demand, place in whole.items() if demand.kind in ("mask", "edge")]
    op, layer = bounds.why if bounds is not None else first if first[0] or not marks else marks[0]
    return ValidValues(
        low=None if bounds is None else bounds.low,
        high=None if bounds is None else bounds.high,
        masks=masks,
        columns=columns,
        parts=0 if bounds is None else _parts(tensor.dtype, bounds),
        some=bounds is not None and bounds[:2] == (0, 2) and bounds.kind in ("range", "gate"),
        soft=bounds is not None and bounds.soft,
        wide=bounds is not None and bounds.kind == "small",
        op=op,
        layer=layer_name(layer),
    )


def tables_of(feeds: Mapping[str, str], demands: Demands) -> tuple[Table, ...]:
    """The tables of weights that a signature reads by an index; `feeds` are the fed nodes by input."""
    names = {feed: name for name, feed in feeds.items()}
    return tuple(
        Table(
            rows=int(demand.low or 0),
            input=names.get(feed, ""),
            columns=demand.columns,
            steps=demand.steps,
            op=op,
            layer=layer_name(layer),
        )
        for (feed, demand), (op, layer) in demands.items()
        if demand.kind == "table"
    )


def _columns(
    dtype: str, demands: _Places, whole: _Bounds | None
) -> tuple[tuple[ColumnValues, ...], tuple[str, str]]:
    """The columns with bounds of their own, and where the first of these come from."""
    edges = sorted({edge for demand in demands for edge in demand.columns or ()})
    columns, where = list[ColumnValues](), ("", "")
    for first, end in pairwise(edges):
        here = {d: p for d, p in demands.items() if d.columns is None or _covers(d, first, end)}
        if not any(demand.columns for demand in here):
            continue
        bounds = _intersect(dtype, here)
        if bounds is None or (whole is not None and bounds[:2] == whole[:2]):
            continue
        low, high = bounds[:2]
        parts = _parts(dtype, bounds)
        where = where if where[0] else bounds.why
        if columns and (columns[-1].end, columns[-1].low, columns[-1].high) == (first, low, high):
            first = columns.pop().first  # noqa: PLW2901 - one with the columns before
        soft = bounds.soft
        columns.append(
            ColumnValues(first=first, end=end, low=low, high=high, parts=parts, soft=soft)
        )
    return tuple(columns), where


def _parts(dtype: str, bounds: _Bounds) -> int:
    """The parts of bounds: integers, or whole numbers that become indices."""
    return parts_of("int64" if bounds.kind == "index" else dtype, bounds.low, bounds.high)


def _covers(demand: Demand, first: int, end: int) -> bool:
    return demand.columns is not None and demand.columns[0] <= first and end <= demand.columns[1]


def _intersect(dtype: str, demands: _Places) -> _Bounds | None:
    limits = integer_limits(dtype)
    small = limits is not None and limits[1] <= _SMALL
    kinds = [k for k in _KINDS if not (small and k == "scale")]
    kind = next((k for k in kinds if any(demand.kind == k for demand in demands)), "")
    ranges = [demand for demand in demands if demand.kind == kind]
    if kind == "scale":  # the whole of a scale and a shift, not only the first
        ranges = [max(ranges, key=lambda demand: demand.depth)]
    if not ranges:
        return None
    if kind == "span":
        low, high = _hull([*ranges, Demand(kind, *_ORDINARY)])
        why = demands[ranges[0]]
    elif kind != "index" and limits is not None:  # every outcome of comparisons should occur
        low, high = _hull(ranges)
        why = demands[ranges[0]]
    else:
        low = max((demand.low for demand in ranges if demand.low is not None), default=None)
        high = min((demand.high for demand in ranges if demand.high is not None), default=None)
        why = demands[next((d for d in ranges if d.high is not None and d.high == high), ranges[0])]
    one_sided = low is None or high is None
    if low is None or high is None:
        # What is clipped on one side should occur a little beyond it.
        wider = _hull([demand for demand in demands if demand.kind == "range"])
        low, high = wider[0] if low is None else low, wider[1] if high is None else high
    if low is None:
        low = 0.0 if high is None or high > 0 else high - 2
    if high is None:
        high = low + 2 if limits is None else limits[1] + 1.0
    if limits is not None:
        high = (
            math.floor(high) + 1.0 if kind == "scale" else high
        )  # a real number, which is reached
        low = max(float(math.ceil(low)), float(limits[0]))
        high = min(high, limits[1] + 1.0)
    return _Bounds(low, high, why, kind, one_sided) if low < high else None


def _hull(ranges: Iterable[Demand]) -> tuple[float | None, float | None]:
    every = list(ranges)
    return (
        min((demand.low for demand in every if demand.low is not None), default=None),
        max((demand.high for demand in every if demand.high is not None), default=None),
    )


def _masks(dtype: str, demands: Iterable[Demand], bounds: _Bounds | None) -> tuple[Mask, ...]:
    limits = integer_limits(dtype)
    axes_of: dict[float, int] = {}
    for demand in demands:
        value = demand.low
        if demand.kind not in ("mask", "edge") or value is None:
            continue
        if limits is not None and (value % 1 or not limits[0] <= value <= limits[1]):
            continue
        edge = demand.kind == "edge" and bounds is not None and bounds.kind != "small"
        fails = bounds is not None and bounds.kind == "index"
        if edge or (fails and bounds is not None and not bounds.low <= value < bounds.high):
            continue
        axes = 0 if demand.kind == "edge" else int(demand.high or 0)
        axes_of[value] = max(axes_of.get(value, 0), axes)
    chosen = sorted(axes_of.items())[:_MAX_MASKS]
    return tuple(Mask(value=value, axes=axes) for value, axes in chosen)
