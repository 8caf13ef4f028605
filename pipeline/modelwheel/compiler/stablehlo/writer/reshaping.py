"""Operations that move elements: shapes, order of axes, parts, joints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from . import mlir_types as types
from .axes import identity, in_memory
from .builder import Builder, Scalar, Value, as_array
from .fold import foldable
from .mlir_types import INT64, DType


def reshape(x: Value, shape: Sequence[int]) -> Value:
    """The elements in row-major order with another shape."""
    shape = tuple(shape)
    if math.prod(shape) != x.size:
        raise ValueError(f"{x.size} elements do not fill the shape {list(shape)}")
    if shape == x.shape:
        return x
    if x.known is not None:
        return x.builder.constant(x.known.reshape(shape))
    if x.origin is not None:
        return reshape(x.origin, shape)
    if not x.order or identity(x.order) or not x.size:
        return x.builder.emit("stablehlo.reshape", [x], x.dtype, shape)
    if unit_axes_only(x.shape, shape):
        return _reshape_units(x, shape)
    order = _order_after(x, shape)
    if order is not None:
        return _reshape_stored(x, shape, order)
    return replace(x.builder.emit("stablehlo.reshape", [x], x.dtype, shape), origin=x)


def _order_after(x: Value, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axis in memory of each axis of another shape; None where elements would have to move.

    As in NumPy's reshape without a copy, extents of both shapes are divided into the shortest parts of equal products. Elements stay
    where the axes of each part are beside each other in memory too.
    """
    places = {axis: n for n, axis in enumerate(sorted(range(x.rank), key=lambda a: x.axes[a]))}
    parts: list[tuple[int, list[int]]] = []
    old, new = 0, 0
    while old < x.rank or new < len(shape):
        before, after = [old][: x.rank - old], [new][: len(shape) - new]
        old, new = old + len(before), new + len(after)
        while (left := math.prod(x.shape[a] for a in before)) != (
            right := math.prod(shape[a] for a in after)
        ):
            if left < right:
                before, old = [*before, old], old + 1
            else:
                after, new = [*after, new], new + 1
        wide = [places[axis] for axis in before if x.shape[axis] != 1]
        if any(b != a + 1 for a, b in pairwise(wide)):
            return None
        parts.append((wide[0] if wide else x.rank, after))
    stored = [axis for _, after in sorted(parts, key=lambda part: part[0]) for axis in after]
    return tuple(stored.index(axis) for axis in range(len(shape)))


def _reshape_stored(x: Value, shape: tuple[int, ...], order: tuple[int, ...]) -> Value:
    """Another shape of elements that stay where they are in memory."""
    (name,) = x.builder.write(
        "stablehlo.reshape",
        [(x.name, types.tensor(x.dtype, x.stored_shape))],
        [types.tensor(x.dtype, in_memory(shape, order))],
    )
    return Value(x.builder, x.dtype, shape, name, order=() if identity(order) else order)


def unit_axes_only(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether shapes differ by axes of extent 1 alone."""
    return [e for e in before if e != 1] == [e for e in after if e != 1]


def _reshape_units(x: Value, shape: tuple[int, ...]) -> Value:
    """Adds and removes axes of extent 1, and leaves the others in memory as they are."""
    wide = [axis for axis in range(x.rank) if x.shape[axis] != 1]
    ranked = sorted(wide, key=lambda axis: x.axes[axis])
    place = {axis: number for number, axis in enumerate(ranked)}
    units = iter(range(len(wide), len(shape)))
    old = iter(wide)
    order = tuple(place[next(old)] if extent != 1 else next(units) for extent in shape)
    return _reshape_stored(x, shape, order)


def flatten(x: Value) -> Value:
    """All elements as a vector."""
    return reshape(x, [x.size])


def expand_dims(x: Value, axes: int | Sequence[int]) -> Value:
    """The value with axes of extent 1 at these places of the result."""
    places = [axes] if isinstance(axes, int) else list(axes)
    rank = x.rank + len(places)
    added = {axis % rank for axis in places}
    rest = iter(x.shape)
    return reshape(x, [1 if axis in added else next(rest) for axis in range(rank)])


def squeeze(x: Value, axes: Sequence[int]) -> Value:
    """The value without these axes of extent 1."""
    removed = {axis % x.rank for axis in axes}
    if any(x.shape[axis] != 1 for axis in removed):
        raise ValueError(f"an axis to remove from {list(x.shape)} has an extent other than 1")
    return reshape(x, [e for axis, e in enumerate(x.shape) if axis not in removed])


def transpose(x: Value, axes: Sequence[int]) -> Value:
    """Axis i of the result is axis `axes[i]` of the value. Nothing moves yet."""
    axes = tuple(axes)
    if identity(axes):
        return x
    shape = tuple(x.shape[axis] for axis in axes)
    if x.known is not None:
        return x.builder.constant(np.transpose(x.known, axes))
    order = tuple(x.axes[axis] for axis in axes)
    return Value(x.builder, x.dtype, shape, x.name, order=() if identity(order) else order)


def move_axis(x: Value, source: int, target: int) -> Value:
    """The value with one axis at another place."""
    source, target = source % x.rank, target % x.rank
    order = [axis for axis in range(x.rank) if axis != source]
    order.insert(target, source)
    return transpose(x, order)


def common_axes(operands: Sequence[Value], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The order in memory in which an operation on elements is computed."""
    whole = [v for v in operands if v.shape == shape and v.known is None]
    moved = next((v.order for v in whole if v.order and not identity(v.order)), None)
    return moved or tuple(range(len(shape)))


def expand(value: Value, shape: tuple[int, ...], axes: tuple[int, ...]) -> str:
    """The name of a value that is broadcast to a shape and has its axes in memory in this order."""
    builder = value.builder
    if value.shape == shape:
        return builder.stored(value, axes)
    first = len(shape) - value.rank
    kept = [axis for axis in range(value.rank) if value.shape[axis] == shape[first + axis] != 1]
    kept.sort(key=lambda axis: axes[first + axis])
    others = [axis for axis in range(value.rank) if axis not in kept]
    narrow = reshape(transpose(value, [*kept, *others]), [value.shape[axis] for axis in kept])
    dims = ", ".join(str(axes[first + axis]) for axis in kept)
    (name,) = builder.write(
        "stablehlo.broadcast_in_dim",
        [(builder.operand(narrow), types.tensor(value.dtype, narrow.shape))],
        [types.tensor(value.dtype, in_memory(shape, axes))],
        f"broadcast_dimensions = array<i64{': ' if dims else ''}{dims}>",
    )
    return name


def broadcast_to(x: Value, shape: Sequence[int]) -> Value:
    """The value repeated to a shape, as NumPy broadcasts."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    if np.broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"{list(x.shape)} does not broadcast to {list(shape)}")
    if foldable([x], math.prod(shape)):
        assert x.known is not None
        return x.builder.constant(np.broadcast_to(x.known, shape))
    name = expand(x, shape, tuple(range(len(shape))))
    return Value(x.builder, x.dtype, shape, name)


def full(builder: Builder, shape: Sequence[int], value: Scalar, dtype: DType | type) -> Value:
    """A tensor of one number."""
    return broadcast_to(builder.constant(as_array(value, np.dtype(dtype))), shape)


def iota(builder: Builder, dtype: DType | type, shape: Sequence[int], axis: int = 0) -> Value:
    """The position along an axis, as elements."""
    shape, dtype = tuple(shape), np.dtype(dtype)
    if math.prod(shape) <= 4096:
        line = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        return builder.constant(np.broadcast_to(line, shape).astype(dtype))
    return builder.emit("stablehlo.iota", [], dtype, shape, f"iota_dimension = {axis} : i64")


def slice_(
    x: Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] = ()
) -> Value:
    """The elements from starts to limits, along every axis; strides are positive."""
    strides = strides or [1] * x.rank
    parts = tuple(slice(*part) for part in zip(starts, limits, strides, strict=True))
    shape = tuple(
        len(range(*part.indices(extent))) for part, extent in zip(parts, x.shape, strict=True)
    )
    if shape == x.shape:
        return x
    if x.known is not None:
        return x.builder.constant(x.known[parts])
    order, stored = x.axes, in_memory(shape, x.axes)
    written = [
        numbers(in_memory(tuple(values), order))
        for values in ([p.start for p in parts], [p.stop for p in parts], [p.step for p in parts])
    ]
    (name,) = x.builder.write(
        "stablehlo.slice",
        [(x.name, types.tensor(x.dtype, x.stored_shape))],
        [types.tensor(x.dtype, stored)],
        f"start_indices = {written[0]}, limit_indices = {written[1]}, strides = {written[2]}",
    )
    return Value(x.builder, x.dtype, shape, name, order=x.order)


def slice_axis(x: Value, axis: int, start: int, limit: int, stride: int = 1) -> Value:
    """The elements from start to limit along one axis."""
    axis %= x.rank
    starts, limits, strides = [0] * x.rank, list(x.shape), [1] * x.rank
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return slice_(x, starts, limits, strides)


def index_axis(x: Value, axis: int, index: int) -> Value:
    """One position along an axis, which is removed."""
    axis %= x.rank
    index %= x.shape[axis]
    return squeeze(slice_axis(x, axis, index, index + 1), [axis])


def split(x: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
    """Parts of these sizes along an axis."""
    ends = np.cumsum([0, *sizes])
    return [slice_axis(x, axis, int(a), int(b)) for a, b in pairwise(ends)]


def reverse(x: Value, axes: Sequence[int]) -> Value:
    """The elements in reverse order along these axes."""
    axes = sorted({axis % x.rank for axis in axes})
    if not axes:
        return x
    if x.known is not None:
        return x.builder.constant(np.flip(x.known, tuple(axes)))
    return x.builder.emit(
        "stablehlo.reverse", [x], x.dtype, x.shape, f"dimensions = {numbers(axes)}"
    )


def concatenate(values: Sequence[Value], axis: int) -> Value:
    """Values of one type beside each other along an axis."""
    first = values[0]
    axis %= first.rank
    values = [v for v in values if v.shape[axis]] or [first]
    if len(values) == 1:
        return values[0]
    shape = list(first.shape)
    shape[axis] = sum(value.shape[axis] for value in values)
    if all(value.known is not None for value in values):
        return first.builder.constant(np.concatenate([v.known for v in values], axis))
    order = next((v.axes for v in values if v.known is None and v.order), tuple(range(first.rank)))
    stored = in_memory(tuple(shape), order)
    operands = [
        (first.builder.stored(v, order), types.tensor(v.dtype, in_memory(v.shape, order)))
        for v in values
    ]
    (name,) = first.builder.write(
        "stablehlo.concatenate",
        operands,
        [types.tensor(first.dtype, stored)],
        f"dimension = {order[axis]} : i64",
    )
    return Value(
        first.builder,
        first.dtype,
        tuple(shape),
        name,
        order=() if identity(order) else order,
    )


def stack(values: Sequence[Value], axis: int) -> Value:
    """Values of one shape along a new axis."""
    axis %= values[0].rank + 1
    return concatenate([expand_dims(value, axis) for value in values], axis)


def tile(x: Value, repeats: Sequence[int]) -> Value:
    """The value repeated as a whole along every axis."""
    if all(count == 1 for count in repeats):
        return x
    wide = [n for count, extent in zip(repeats, x.shape, strict=True) for n in (count, extent)]
    narrow = [n for extent in x.shape for n in (1, extent)]
    shape = [count * extent for count, extent in zip(repeats, x.shape, strict=True)]
    return reshape(broadcast_to(reshape(x, narrow), wide), shape)


def pad(
    x: Value,
    value: Value | Scalar,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] = (),
) -> Value:
    """Elements of one value before, behind and between; negative counts cut off."""
    interior = interior or [0] * x.rank
    if not any((*low, *high, *interior)):
        return x
    filler = value if isinstance(value, Value) else x.builder.constant(as_array(value, x.dtype))
    filler = reshape(filler, [])
    shape = tuple(
        extent + a + b + max(extent - 1, 0) * c
        for extent, a, b, c in zip(x.shape, low, high, interior, strict=True)
    )
    plain = not any(interior) and min(*low, *high, 0) >= 0
    if plain and foldable([x, filler], math.prod(shape)):
        assert x.known is not None
        assert filler.known is not None
        widths = list(zip(low, high, strict=True))
        return x.builder.constant(
            np.pad(x.known, widths, constant_values=filler.known.item()).astype(x.dtype)
        )
    order, stored = x.axes, in_memory(shape, x.axes)
    counts = [numbers(in_memory(tuple(amounts), order)) for amounts in (low, high, interior)]
    operand = x.builder.stored(x, order)
    (name,) = x.builder.write(
        "stablehlo.pad",
        [
            (operand, types.tensor(x.dtype, x.stored_shape)),
            (x.builder.operand(filler), types.tensor(x.dtype, ())),
        ],
        [types.tensor(x.dtype, stored)],
        f"edge_padding_low = {counts[0]}, edge_padding_high = {counts[1]}, "
        f"interior_padding = {counts[2]}",
    )
    return Value(x.builder, x.dtype, shape, name, order=x.order)


def dynamic_slice(x: Value, starts: Sequence[Value | int], sizes: Sequence[int]) -> Value:
    """A part of fixed sizes at positions that inputs decide; XLA moves it inside the value."""
    indices = _positions(x.builder, starts)
    return x.builder.emit(
        "stablehlo.dynamic_slice",
        [x, *indices],
        x.dtype,
        sizes,
        f"slice_sizes = {numbers(sizes)}",
    )


def dynamic_update_slice(x: Value, update: Value, starts: Sequence[Value | int]) -> Value:
    """The value with a part replaced at positions that inputs decide."""
    indices = _positions(x.builder, starts)
    return x.builder.emit("stablehlo.dynamic_update_slice", [x, update, *indices], x.dtype, x.shape)


def _positions(builder: Builder, starts: Sequence[Value | int]) -> list[Value]:
    """Scalars of one integer type."""
    dtype = next((s.dtype for s in starts if isinstance(s, Value)), INT64)
    return [reshape(s, []) if isinstance(s, Value) else builder.constant(s, dtype) for s in starts]


def numbers(values: Sequence[int]) -> str:
    """An attribute that lists integers."""
    listed = ", ".join(str(int(value)) for value in values)
    return f"array<i64: {listed}>" if listed else "array<i64>"
