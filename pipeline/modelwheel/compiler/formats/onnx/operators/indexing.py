"""Gathers, scatters and what chooses elements by position."""

from __future__ import annotations

import numpy as np

from ....stablehlo.writer import Value
from ....stablehlo.writer import gathering as i
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import BOOL, INT64, Array
from .onnx_node import Node, Result, operator


def take_known(x: Value, places: Array, axis: int) -> Value:
    """Elements at known positions along an axis: slices where they are evenly spaced."""
    count = len(places)
    steps = np.diff(places)
    if count and (count == 1 or (steps == steps[0]).all()):
        step = int(steps[0]) if count > 1 else 1
        first, last = int(places[0]), int(places[-1])
        if step > 0:
            return s.slice_axis(x, axis, first, last + 1, step)
        if step < 0:
            return s.reverse(s.slice_axis(x, axis, last, first + 1, -step), [axis])
        shape = [count if a == axis else n for a, n in enumerate(x.shape)]
        return s.broadcast_to(s.slice_axis(x, axis, first, first + 1), shape)
    breaks = np.flatnonzero(np.diff(steps)) + 1 if count > 2 else np.array([], np.int64)
    if len(breaks) <= 8:  # a few runs, as padding has them
        return s.concatenate([take_known(x, run, axis) for run in _runs(places)], axis)
    return i.take(x, x.builder.constant(places, np.int64), axis)


def _runs(places: Array) -> list[Array]:
    """The positions in pieces that are evenly spaced."""
    runs, start = [], 0
    while start < len(places):
        end = min(start + 2, len(places))
        while (
            end < len(places) and places[end] - places[end - 1] == places[end - 1] - places[end - 2]
        ):
            end += 1
        runs.append(places[start:end])
        start = end
    return runs


@operator("Gather")
def gather(node: Node) -> Result:
    """Slices at positions along an axis; negative ones count from the end."""
    x, indices = node.input(0), node.input(1)
    axis = node.get("axis", 0) % x.rank
    if indices.known is not None:
        positions = np.where(indices.known < 0, indices.known + x.shape[axis], indices.known)
        if not indices.rank:
            return s.index_axis(x, axis, int(positions))
        if indices.rank == 1 and x.known is None and len(positions):
            return take_known(x, positions, axis)
        indices = node.builder.constant(positions)
    return i.take(x, i.wrap_negative(indices, x.shape[axis]), axis)


@operator("GatherElements")
def gather_elements(node: Node) -> Result:
    """For each index the element at that position along an axis."""
    x, indices = node.input(0), node.input(1)
    axis = node.get("axis", 0) % x.rank
    return i.take_along(x, i.wrap_negative(indices, x.shape[axis]), axis)


def _wrapped_nd(indices: Value, extents: tuple[int, ...]) -> Value:
    """Positions along several axes, those below zero counted from the end."""
    if indices.dtype.kind != "i":
        return indices
    sizes = indices.builder.constant(np.asarray(extents, indices.dtype))
    return e.select(indices < 0, indices + sizes, indices)


@operator("GatherND")
def gather_nd(node: Node) -> Result:
    """Slices at positions along several axes."""
    x, indices, batch = node.input(0), node.input(1), node.get("batch_dims", 0)
    depth = indices.shape[-1]
    return i.gather_nd(x, _wrapped_nd(indices, x.shape[batch : batch + depth]), batch)


_UPDATES: dict[str, i.Update] = {
    "none": "set",
    "add": "add",
    "mul": "multiply",
    "max": "maximum",
    "min": "minimum",
}


@operator("Scatter", "ScatterElements")
def scatter_elements(node: Node) -> Result:
    """Elements replaced or combined at positions along an axis."""
    x, indices = node.input(0), node.input(1)
    axis = node.get("axis", 0) % x.rank
    places = i.wrap_negative(indices, x.shape[axis])
    update = _UPDATES[node.get("reduction", "none")]
    return i.scatter_along(x, places, node.input(2), axis, update)


@operator("ScatterND")
def scatter_nd(node: Node) -> Result:
    """Slices replaced or combined at positions along several axes."""
    x, indices = node.input(0), node.input(1)
    places = _wrapped_nd(indices, x.shape[: indices.shape[-1]])
    return i.scatter_nd(x, places, node.input(2), _UPDATES[node.get("reduction", "none")])


@operator("TensorScatter")
def tensor_scatter(node: Node) -> Result:
    """A cache with new rows written at a position of each batch entry, wrapped around if `circular`."""
    cache, update = node.input(0), node.input(1)
    axis = node.get("axis", -2) % cache.rank
    extent, count = cache.shape[axis], update.shape[axis]
    start = node.optional(2)
    first = node.builder.constant(np.zeros(cache.shape[0], np.int64)) if start is None else start
    shape = [count if a == axis else 1 for a in range(cache.rank)]
    steps = s.reshape(s.iota(node.builder, INT64, [count]), shape)
    begins = s.reshape(e.convert(first, INT64), [cache.shape[0], *[1] * (cache.rank - 1)])
    places = begins + steps
    if node.get("mode", "linear") == "circular":
        places = e.remainder(places, extent)
    return i.scatter_along(cache, s.broadcast_to(places, update.shape), update, axis, "set")


@operator("OneHot")
def one_hot(node: Node) -> Result:
    """A value at each index along a new axis, another one elsewhere."""
    indices, values = node.input(0), node.input(2)
    depth = int(node.required(1, "its depth").reshape(()))
    axis = node.get("axis", -1) % (indices.rank + 1)
    whole = e.convert(indices, INT64)
    whole = e.select(whole < 0, whole + depth, whole)
    from ....stablehlo.writer.reducing import one_hot as hot

    off, on = (s.index_axis(values, 0, number) for number in (0, 1))
    return e.select(hot(whole, depth, axis), on, off)


@operator("Compress")
def compress(node: Node) -> Result:
    """The elements along an axis for which a condition holds."""
    x, axis = node.input(0), node.get("axis", None)
    kept = np.flatnonzero(node.required(1, "its condition"))
    return take_known(s.flatten(x) if axis is None else x, kept, (axis or 0) % max(x.rank, 1))


@operator("NonZero")
def non_zero(node: Node) -> Result:
    """Positions of elements that are not zero."""
    return node.builder.constant(np.array(np.nonzero(node.required(0, "its size")), np.int64))


@operator("Unique")
def unique(node: Node) -> Result:
    """The different elements, or slices along an axis."""
    x, axis = node.required(0, "its size"), node.get("axis", None)
    parts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    values, first, inverse, counts = (np.asarray(part) for part in parts)
    if not node.get("sorted", 1):
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return [
        node.builder.constant(part)
        for part in (values, *(a.reshape(-1).astype(np.int64) for a in (first, inverse, counts)))
    ]


@operator("NonMaxSuppression")
def non_max_suppression(node: Node) -> Result:
    """Boxes that do not overlap better ones: as many as the values decide."""
    raise node.refuse(
        "returns as many boxes as the values of the inputs decide, which needs shapes that are not fixed",
        "end the model before it and select the boxes outside",
    )


@operator("CenterCropPad")
def center_crop_pad(node: Node) -> Result:
    """The middle of each axis, cut or filled up with zeros."""
    x = node.input(0)
    wanted = [int(n) for n in node.required(1, "its shape").reshape(-1)]
    axes = node.get("axes", None)
    chosen = range(x.rank) if axes is None else [axis % x.rank for axis in axes]
    for axis, extent in zip(chosen, wanted, strict=True):
        spare = extent - x.shape[axis]
        if spare < 0:
            start = -spare // 2
            x = s.slice_axis(x, axis, start, start + extent)
        elif spare:
            low, high = [0] * x.rank, [0] * x.rank
            low[axis], high[axis] = spare // 2, spare - spare // 2
            x = s.pad(x, False if x.dtype == BOOL else 0, low, high)
    return x
