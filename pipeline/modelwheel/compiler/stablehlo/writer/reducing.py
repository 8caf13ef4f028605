"""Reductions, windows, order: what looks at several elements at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from . import mlir_types as types
from .axes import identity, in_memory
from .builder import Value
from .fold import errors_ignored, foldable
from .mlir_types import BOOL, INT32, DType, is_float
from .pointwise import (
    add,
    and_,
    compare,
    equal,
    exp,
    is_nan,
    keep_sign,
    log,
    maximum,
    minimum,
    multiply,
    or_,
    select,
)
from .reshaping import expand_dims, iota, numbers, pad, reshape, slice_axis

Kind: TypeAlias = Literal["add", "multiply", "maximum", "minimum", "and", "or"]

_FOLD: dict[Kind, Callable[..., Any]] = {
    "add": np.sum,
    "multiply": np.prod,
    "maximum": np.max,
    "minimum": np.min,
    "and": np.all,
    "or": np.any,
}


def neutral(kind: Kind, dtype: DType) -> np.generic[Any]:
    """The value that changes nothing in a reduction; the lowest or highest one of the type."""
    value: bool | int | float
    if kind in ("maximum", "minimum"):
        low = kind == "maximum"
        if is_float(dtype):
            value = -np.inf if low else np.inf
        elif dtype == BOOL:
            value = not low
        else:
            info = np.iinfo(types.STORED.get(dtype, dtype))
            value = int(info.min if low else info.max)
    else:
        value = {"add": 0, "multiply": 1, "and": True, "or": False}[kind]
    filled: np.generic[Any] = np.full(1, value).astype(dtype)[0]
    return filled


def reduce(x: Value, axes: Sequence[int], kind: Kind, *, keep: bool = False) -> Value:
    """One value along these axes; they stay with extent 1 if `keep`. Truth values use `and` and `or`."""
    axes = sorted({axis % x.rank for axis in axes}) if x.rank else []
    kept = tuple(e for axis, e in enumerate(x.shape) if axis not in axes)
    shape = tuple(1 if axis in axes else e for axis, e in enumerate(x.shape)) if keep else kept
    if not axes:
        return x
    if x.known is not None and foldable([x], math.prod(kept)) and x.size:
        with errors_ignored():
            values = _FOLD[kind](x.known, axis=tuple(axes), keepdims=keep)
        return x.builder.constant(np.asarray(values).astype(x.dtype))
    reduced = _reduce_stored(x, axes, kind)
    reduced = keep_sign(reduced) if kind == "multiply" else reduced
    return reshape(reduced, shape) if keep else reduced


def _reduce_stored(x: Value, axes: Sequence[int], kind: Kind) -> Value:
    order = x.axes
    removed = sorted(order[axis] for axis in axes)
    stored = tuple(e for axis, e in enumerate(x.stored_shape) if axis not in removed)
    start = x.builder.constant(neutral(kind, x.dtype))
    (name,) = x.builder.write(
        "stablehlo.reduce",
        [
            (x.builder.stored(x, order), types.tensor(x.dtype, x.stored_shape)),
            (x.builder.operand(start), types.tensor(x.dtype, ())),
        ],
        [types.tensor(x.dtype, stored)],
        f"dimensions = {numbers(removed)}",
        [_reducer(x, kind)],
    )
    rest = [order[axis] for axis in range(x.rank) if axis not in axes]
    left = tuple(sorted(rest).index(axis) for axis in rest)
    shape = tuple(e for axis, e in enumerate(x.shape) if axis not in axes)
    return Value(x.builder, x.dtype, shape, name, order=() if identity(left) else left)


def _reducer(x: Value, kind: Kind) -> tuple[str, ...]:
    scalar: list[tuple[DType, tuple[int, ...]]] = [(x.dtype, ()), (x.dtype, ())]
    region, _ = x.builder.region(
        scalar, lambda pair: [x.builder.emit(f"stablehlo.{kind}", pair, x.dtype, ())]
    )
    return region


def reduce_window(
    x: Value,
    kind: Kind,
    window: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[tuple[int, int]] = (),
    dilations: Sequence[int] = (),
    spread: Sequence[int] = (),
) -> Value:
    """One value of each window; there is an entry for every axis. Padding changes nothing, nor does what is between
    elements, which are `spread` apart."""
    ones = [1] * x.rank
    strides, dilations = list(strides or ones), list(dilations or ones)
    spread = list(spread or ones)
    pads = list(pads or [(0, 0)] * x.rank)
    shape = tuple(
        ((e - 1) * spread[i] + 1 + sum(pads[i]) - (window[i] - 1) * dilations[i] - 1) // strides[i]
        + 1
        for i, e in enumerate(x.shape)
    )
    if math.prod(window) == 1 and not any(map(any, pads)) and strides == ones:
        return x
    order = x.axes
    start = x.builder.constant(neutral(kind, x.dtype))
    ordered = in_memory_pairs(pads, order)
    listed = ", ".join(f"[{low}, {high}]" for low, high in ordered)
    (name,) = x.builder.write(
        "stablehlo.reduce_window",
        [
            (x.builder.stored(x, order), types.tensor(x.dtype, x.stored_shape)),
            (x.builder.operand(start), types.tensor(x.dtype, ())),
        ],
        [types.tensor(x.dtype, in_memory(shape, order))],
        f"window_dimensions = {numbers(in_memory(tuple(window), order))}, "
        f"window_strides = {numbers(in_memory(tuple(strides), order))}, "
        f"base_dilations = {numbers(in_memory(tuple(spread), order))}, "
        f"window_dilations = {numbers(in_memory(tuple(dilations), order))}, "
        f"padding = dense<[{listed}]> : tensor<{x.rank}x2xi64>",
        [_reducer(x, kind)],
    )
    return Value(x.builder, x.dtype, shape, name, order=x.order)


def in_memory_pairs(
    pairs: Sequence[tuple[int, int]], axes: tuple[int, ...]
) -> list[tuple[int, int]]:
    """Pairs that belong to axes, in the order of memory."""
    lows, highs = zip(*pairs, strict=True) if pairs else ((), ())
    return list(zip(in_memory(lows, axes), in_memory(highs, axes), strict=True))


def mean(x: Value, axes: Sequence[int], *, keep: bool = False) -> Value:
    """The mean along these axes."""
    count = math.prod(x.shape[axis] for axis in axes)
    total = reduce(x, axes, "add", keep=keep)
    return total / count


def softmax(x: Value, axis: int) -> Value:
    """exp(x - max(x)) / sum(exp(x - max(x))) along an axis."""
    powers = exp(x - reduce(x, [axis], "maximum", keep=True))
    return powers / reduce(powers, [axis], "add", keep=True)


def log_softmax(x: Value, axis: int) -> Value:
    """The logarithm of the softmax along an axis."""
    moved = x - reduce(x, [axis], "maximum", keep=True)
    return moved - log(reduce(exp(moved), [axis], "add", keep=True))


def cumulative(x: Value, axis: int, kind: Kind) -> Value:
    """At each position the reduction of all before it and itself, in a logarithmic number of steps."""
    axis %= x.rank
    extent, step = x.shape[axis], 1
    combine = {"add": add, "multiply": multiply, "maximum": maximum, "minimum": minimum}[kind]
    filler = x.builder.constant(neutral(kind, x.dtype))
    while step < extent:
        low, high = [0] * x.rank, [0] * x.rank
        low[axis], high[axis] = step, -step
        x = combine(x, pad(x, filler, low, high))
        step *= 2
    return x


def arg_reduce(x: Value, axis: int, *, largest: bool, last: bool = False) -> tuple[Value, Value]:
    """The largest or smallest value along an axis and its position (int32), the first or last of equal ones.

    A NaN counts as larger and as smaller than every number.
    """
    axis %= x.rank
    places = iota(x.builder, INT32, x.shape, axis)
    start = x.builder.constant(neutral("maximum" if largest else "minimum", x.dtype))
    zero = x.builder.constant(-1 if last else np.iinfo(np.int32).max, np.int32)
    pair: list[tuple[DType, tuple[int, ...]]] = [(x.dtype, ()), (INT32, ())]

    def pick(values: list[Value]) -> list[Value]:
        value, place, rival, beside = values
        wins = compare("GT" if largest else "LT", value, rival)
        ties = equal(value, rival)
        if is_float(x.dtype):
            wins = or_(wins, and_(is_nan(value), ~is_nan(rival)))
            ties = or_(ties, and_(is_nan(value), is_nan(rival)))
        earlier = compare("GT" if last else "LT", place, beside)
        chosen = or_(wins, and_(ties, earlier))
        return [select(chosen, value, rival), select(chosen, place, beside)]

    region, _ = x.builder.region([*pair, *pair], pick)
    shape = tuple(e for a, e in enumerate(x.shape) if a != axis)
    value, place = x.builder.emit_all(
        "stablehlo.reduce",
        [x, places, start, zero],
        [(x.dtype, shape), (INT32, shape)],
        f"dimensions = array<i64: {axis}>",
        [region],
    )
    return value, place


def sort(values: Sequence[Value], axis: int, *, descending: bool = False) -> list[Value]:
    """Values sorted by the first one along an axis; equal ones keep their order, NaN comes last."""
    first = values[0]
    axis %= first.rank
    scalars: list[tuple[DType, tuple[int, ...]]] = [(v.dtype, ()) for v in values for _ in (0, 1)]

    def before(pairs: list[Value]) -> list[Value]:
        left, right = pairs[0], pairs[1]
        precedes = compare("GT" if descending else "LT", left, right)
        if is_float(first.dtype):
            precedes = or_(precedes, and_(~is_nan(left), is_nan(right)))
        return [precedes]

    region, _ = first.builder.region(scalars, before)
    return first.builder.emit_all(
        "stablehlo.sort",
        values,
        [(v.dtype, v.shape) for v in values],
        f"dimension = {axis} : i64, is_stable = true",
        [region],
    )


def top_k(x: Value, k: int, axis: int, *, largest: bool = True) -> tuple[Value, Value]:
    """The k largest or smallest values along an axis, the best first, and their positions (int32)."""
    axis %= x.rank
    places = iota(x.builder, INT32, x.shape, axis)
    values, indices = sort([x, places], axis, descending=largest)
    return slice_axis(values, axis, 0, k), slice_axis(indices, axis, 0, k)


def one_hot(indices: Value, depth: int, axis: int = -1) -> Value:
    """Truth values that hold at each index along a new axis; nowhere for indices out of range."""
    rank = indices.rank + 1
    axis %= rank
    shape = [1] * rank
    shape[axis] = depth
    places = reshape(iota(indices.builder, indices.dtype, [depth]), shape)
    return equal(expand_dims(indices, axis), places)
