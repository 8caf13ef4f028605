"""What operations demand of the values of a model's inputs: indices within their table, mask values.

TensorFlow fails on an index outside its table where XLA clamps it, and a model that masks a value shows
nothing of that unless the value occurs. Both follow from the graph; nothing of it is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tensorflow.core.framework import types_pb2

from ...dtypes import DTYPES
from ..inspection import ColumnValues, Mask, TensorInfo, ValidValues
from .graphs import layer_name
from .origins import COMPARES, solve, undo
from .values import Origin, Tensor

_MAX_MASKS = 4
_INTEGERS = {types_pb2.DT_INT8, types_pb2.DT_INT16, types_pb2.DT_INT32, types_pb2.DT_INT64}
_ORDERS = frozenset({"Less", "LessEqual", "Greater", "GreaterEqual"})
_ANY_ALL = frozenset({"Any", "All"})


@dataclass(frozen=True, slots=True)
class Demand:
    """What one operation demands of a fed tensor."""

    kind: str
    """`index`: TensorFlow fails beyond the bounds. `range`: other values make no difference.
    `mask`: the value `low` has a meaning of its own, in the last `high` axes together."""
    low: float | None
    high: float | None
    columns: tuple[int, int] | None = None
    """The positions along the last axis for which it is; None for all."""


Demands = dict[tuple[str, Demand], tuple[str, str]]
"""The operation and node of each demand, by the fed node."""


def join_demands(mine: Demands, others: Demands) -> None:
    """Adds demands; those that are known keep their place."""
    for key, place in others.items():
        mine.setdefault(key, place)


def find_demands(node: Any, name: str, inputs: Sequence[Tensor]) -> Demands:
    """What a node demands of the inputs whose values reach it."""
    found: Demands = {}
    for origin, demand in _find(node, inputs):
        found.setdefault((origin.feed, demand), (node.op, name))
    return found


def _find(node: Any, inputs: Sequence[Tensor]) -> Iterator[tuple[Origin, Demand]]:
    op = node.op
    if op in COMPARES or op in _ORDERS:
        yield from _find_compared(node, inputs)
    elif op in _ANY_ALL:
        axes = len(inputs[1].value or ()) if len(inputs) > 1 else 0
        for origin in inputs[0].origins:
            kind, mask, _ = origin.steps[-1] if origin.steps else ("", 0.0, 0.0)
            value = undo(origin.steps[:-1], mask) if kind == "is" else None
            if value is not None:
                yield origin, Demand("mask", value, float(axes))
    else:
        table = _TABLES.get(op)
        limit = table(node, inputs) if table is not None else None
        if table is None or limit is None or limit < 1:
            return
        number = _INDICES.get(op, 1)
        for origin in inputs[number].origins if number < len(inputs) else ():
            bounds = solve(origin.steps, 0, limit)
            if bounds is not None and bounds != (None, None):
                yield origin, Demand("range" if op in _SOFT else "index", *bounds, part_of(origin))


def part_of(origin: Origin) -> tuple[int, int] | None:
    """The columns that a demand on an origin is for."""
    return None if origin.columns is None else origin.columns.part


def _find_compared(node: Any, inputs: Sequence[Tensor]) -> Iterator[tuple[Origin, Demand]]:
    one, other = inputs if inputs[0].origins else (inputs[1], inputs[0])
    numbers = sorted({float(n) for n in other.value or () if n is not None})
    if not numbers:
        return
    for origin in one.origins:
        if node.op in COMPARES:
            for number in numbers[:_MAX_MASKS]:
                value = undo(origin.steps, number)
                if value is not None:
                    yield origin, Demand("mask", value, 0.0)
        elif node.attr["T"].type in _INTEGERS:
            # Such as a length, compared with all positions: every outcome should occur.
            bounds = solve(origin.steps, numbers[0], numbers[-1] + 2)
            if bounds is not None:
                yield origin, Demand("range", *bounds, part_of(origin))


def _axis_of_gather(_: Any, inputs: Sequence[Tensor]) -> int | None:
    value = inputs[2].value if len(inputs) > 2 else (0,)
    axis = value[0] if value else None
    shape = inputs[0].shape
    if shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return shape[axis]


def _first_axis(_: Any, inputs: Sequence[Tensor]) -> int | None:
    return inputs[0].shape[0] if inputs[0].shape else None


def _of_variable(node: Any, inputs: Sequence[Tensor]) -> int | None:
    handle, axis = inputs[0].handle, node.attr["batch_dims"].i
    return handle[axis] if handle is not None and 0 <= axis < len(handle) else None


def _smallest(shape: Sequence[int | None] | None, indices: Tensor) -> int | None:
    depth = indices.shape[-1] if indices.shape else None
    known = [extent for extent in (shape or ())[:depth] if extent is not None]
    return min(known) if depth and known else None


def _shape_value(tensor: Tensor, indices: Tensor) -> int | None:
    return _smallest([int(n) if n is not None else None for n in tensor.value or ()], indices)


def _scalar(tensor: Tensor) -> int | None:
    return int(tensor.value[0]) if tensor.value and tensor.value[0] is not None else None


def _lengths(node: Any, inputs: Sequence[Tensor]) -> int | None:
    shape, axis = inputs[0].shape, node.attr["seq_dim"].i
    extent = shape[axis] if shape is not None and axis < len(shape) else None
    return None if extent is None else extent + 1


_TABLES: dict[str, Any] = {
    "GatherV2": _axis_of_gather,
    "Gather": _first_axis,
    "ResourceGather": _of_variable,
    "GatherNd": lambda _, i: _smallest(i[0].shape, i[1]),
    "ResourceGatherNd": lambda _, i: _smallest(i[0].handle, i[1]),
    "OneHot": lambda _, i: _scalar(i[1]),
    "ReverseSequence": _lengths,
    "ScatterNd": lambda _, i: _shape_value(i[2], i[0]) if len(i) > 2 else None,
    **{
        f"TensorScatter{op}": lambda _, i: _smallest(i[0].shape, i[1])
        for op in ("Update", "Add", "Sub", "Min", "Max")
    },
    **{
        f"UnsortedSegment{op}": lambda _, i: _scalar(i[2]) if len(i) > 2 else None
        for op in ("Sum", "Prod", "Max", "Min")
    },
    "SparseSoftmaxCrossEntropyWithLogits": lambda _, i: (i[0].shape or (None,))[-1],
    "Case": lambda node, _: len(node.attr["branches"].list.func),
    "StatelessCase": lambda node, _: len(node.attr["branches"].list.func),
}
"""The number of values that an index may have, by operation; None if it is not known."""
_INDICES = {"OneHot": 0, "ScatterNd": 0, "Case": 0, "StatelessCase": 0}
"""The input that holds the indices, if it is not the second."""
_SOFT = frozenset({"OneHot", "Case", "StatelessCase"})


# --- all demands on one input ---------------------------------------------------------------------


def valid_values(tensor: TensorInfo, feed: str, demands: Demands) -> ValidValues | None:
    """The values of an input that make sense to its model; None if any do."""
    if tensor.dtype not in DTYPES or tensor.dtype == "bool" or tensor.dtype.startswith("complex"):
        return None
    mine = {demand: place for (fed, demand), place in demands.items() if fed == feed}
    whole = {demand: place for demand, place in mine.items() if demand.columns is None}
    integer = "int" in tensor.dtype
    low, high, why = _intersect(whole, integer=integer)
    masks = _masks(whole, low, high, integer=integer)
    columns, first = _columns(tensor, mine, (low, high))
    masks = tuple(m for m in masks if all(c.low <= m.value < c.high for c in columns))
    if low is None and not masks and not columns:
        return None
    if integer and (low is not None or masks):
        low, high = _widen(tensor.dtype, low, high, masks)
    op, layer = why if why[0] else first
    return ValidValues(
        low=low, high=high, masks=masks, columns=columns, op=op, layer=layer_name(layer)
    )


def _columns(
    tensor: TensorInfo,
    demands: Mapping[Demand, tuple[str, str]],
    whole: tuple[float | None, float | None],
) -> tuple[tuple[ColumnValues, ...], tuple[str, str]]:
    """The columns with bounds of their own, and where the first of these come from."""
    edges = sorted({edge for demand in demands for edge in demand.columns or ()})
    integer, found, where = "int" in tensor.dtype, list[ColumnValues](), ("", "")
    for first, end in pairwise(edges):
        here = {d: p for d, p in demands.items() if d.columns is None or _covers(d, first, end)}
        if not any(demand.columns for demand in here):
            continue
        low, high, why = _intersect(here, integer=integer)
        if low is None or high is None or (low, high) == whole:
            continue
        if integer:
            low, high = _widen(tensor.dtype, low, high, ())
        where = where if where[0] else why
        if found and (found[-1].end, found[-1].low, found[-1].high) == (first, low, high):
            first = found.pop().first  # noqa: PLW2901 - one with the columns before
        found.append(ColumnValues(first=first, end=end, low=low, high=high))
    return tuple(found), where


def _covers(demand: Demand, first: int, end: int) -> bool:
    return demand.columns is not None and demand.columns[0] <= first and end <= demand.columns[1]


def _intersect(
    demands: Mapping[Demand, tuple[str, str]], *, integer: bool
) -> tuple[float | None, float | None, tuple[str, str]]:
    hard = [demand for demand in demands if demand.kind == "index"]
    ranges = hard or [demand for demand in demands if demand.kind == "range"]
    masks = [demand for demand in demands if demand.kind == "mask"]
    why = demands[(ranges or masks)[0]] if ranges or masks else ("", "")
    if not ranges:
        return None, None, why
    lows = [demand.low for demand in ranges if demand.low is not None]
    highs = [demand.high for demand in ranges if demand.high is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    if not hard and integer:  # every outcome of comparisons should occur
        low, high = min(lows, default=None), max(highs, default=None)
    elif high is not None:
        why = demands[next(demand for demand in ranges if demand.high == high)]
    if low is None:
        low = 0.0 if high is None or high > 0 else high - 2
    elif integer:
        low = float(math.ceil(low))
    if high is None:
        high = low + 2
    return (low, high, why) if low < high else (None, None, why)


def _masks(
    demands: Iterable[Demand], low: float | None, high: float | None, *, integer: bool
) -> tuple[Mask, ...]:
    hard = any(demand.kind == "index" for demand in demands)
    found: dict[float, int] = {}
    for demand in demands:
        if demand.kind != "mask" or demand.low is None or (integer and demand.low % 1):
            continue
        value = demand.low
        if hard and low is not None and high is not None and not low <= value < high:
            continue  # TensorFlow fails on it
        found[value] = max(found.get(value, 0), int(demand.high or 0))
    chosen = sorted(found.items())[:_MAX_MASKS]
    return tuple(Mask(value=value, axes=axes) for value, axes in chosen)


def _widen(
    dtype: str, low: float | None, high: float | None, masks: Sequence[Mask]
) -> tuple[float, float]:
    """Bounds of integers that their type can hold; without any, those that masks need."""
    bits = int(dtype.lstrip("uint") or 32)
    least, most = (0, 2**bits) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if low is None or high is None:
        values = [mask.value for mask in masks]
        low, high = min(0.0, *values), max(2.0, *(value + 2 for value in values))
    low, high = max(low, float(least)), min(high, float(most))
    return (low, high) if low < high else (0.0, 2.0)
