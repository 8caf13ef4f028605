"""`Resize` and `Upsample` in all modes: along one axis after the other, by known indices or matrices.

Coordinates are computed in float32, as ONNX Runtime does: rounding decides which neighbour is nearest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .....stablehlo.writer import Value
from .....stablehlo.writer import contractions as p
from .....stablehlo.writer import pointwise as e
from .....stablehlo.writer import reshaping as s
from .....stablehlo.writer.mlir_types import FLOAT32, Array, is_float
from ..indexing import take_known
from ..onnx_node import Node, Result, operator

_F = np.float32


@dataclass(frozen=True)
class _Axis:
    """How one axis is resized."""

    axis: int
    before: int
    after: int
    scale: float
    roi: tuple[float, float]


@operator("Resize", "Upsample")
def resize(node: Node) -> Result:
    """One node becomes a few for each axis that changes."""
    x, mode = node.input(0), _mode(node)
    value = x
    inside: Array = np.ones((1,) * x.rank, np.bool_)
    for axis in _axes(node, x.shape):
        if not _changes(node, axis):
            continue
        positions = _positions(node, axis)
        if mode == "nearest":
            value = _take(value, axis, _nearest(node, axis, positions))
        else:
            value = _multiply(value, axis, _matrix(node, axis, positions))
        if _coordinates(node) == "tf_crop_and_resize":
            kept = (positions >= 0) & (positions <= axis.before - 1)
            inside = inside & kept.reshape([-1 if n == axis.axis else 1 for n in range(x.rank)])
    if value.dtype != x.dtype:
        value = e.convert(e.round_even(value), x.dtype)
    if not inside.all():
        value = e.select(node.builder.constant(inside), value, node.get("extrapolation_value", 0.0))
    return value


def _old(node: Node) -> bool:
    """Whether a node has the form of before opset 11, with `asymmetric` coordinates only."""
    return node.op == "Upsample" or node.opset < 11


def _mode(node: Node) -> str:
    mode = str(node.get("mode", "nearest"))
    return {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode, mode)


def _coordinates(node: Node) -> str:
    mode = node.get("coordinate_transformation_mode", "half_pixel")
    return "asymmetric" if _old(node) else str(mode)


def _axes(node: Node, before: Sequence[int]) -> list[_Axis]:
    if _old(node):
        scales: Array | None = (
            np.asarray(node.attributes["scales"], np.float32)
            if "scales" in node.attributes
            else node.required(1, "its scales")
        )
        sizes = roi = None
        chosen = list(range(len(before)))
    else:
        chosen = [a % len(before) for a in node.get("axes", None) or range(len(before))]
        roi, scales, sizes = (_given(node, number) for number in (1, 2, 3))
    count = len(chosen)
    if roi is None or roi.size != 2 * count:
        roi = np.array([0.0] * count + [1.0] * count)
    crops = _coordinates(node) == "tf_crop_and_resize"
    axes = []
    if scales is None:
        assert sizes is not None, "neither sizes nor scales"
        after, factors = _from_sizes(node, before, chosen, [int(n) for n in sizes])
    else:
        factors = [float(v) for v in scales]
        spans = [float(roi[n + count] - roi[n]) if crops else 1.0 for n in range(count)]
        after = [
            math.floor(_F(before[a]) * _F(span) * _F(scale))
            for a, span, scale in zip(chosen, spans, factors, strict=True)
        ]
    for n, (a, size, scale) in enumerate(zip(chosen, after, factors, strict=True)):
        axes.append(_Axis(a, before[a], size, scale, (float(roi[n]), float(roi[n + count]))))
    return axes


def _from_sizes(
    node: Node, before: Sequence[int], chosen: Sequence[int], sizes: Sequence[int]
) -> tuple[list[int], list[float]]:
    """The extents of the result and the scales, which an aspect ratio to keep makes equal."""
    ratios = [size / max(before[a], 1) for size, a in zip(sizes, chosen, strict=True)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return list(sizes), [
            float(_F(n) / _F(max(before[a], 1))) for n, a in zip(sizes, chosen, strict=True)
        ]
    scale = (min if policy == "not_larger" else max)(ratios)
    return [math.floor(scale * before[a] + 0.5) for a in chosen], [scale] * len(chosen)


def _given(node: Node, number: int) -> Array | None:
    """The values of an optional input; None if it is left out or empty."""
    value = node.optional(number)
    if value is None or not value.size:
        return None
    return node.required(number, "its sizes or scales").reshape(-1)


def _changes(node: Node, axis: _Axis) -> bool:
    crops = _coordinates(node) == "tf_crop_and_resize"
    return axis.before != axis.after or axis.scale != 1 or (crops and axis.roi != (0, 1))


# --- coordinates ----------------------------------------------------------------------------------


def _positions(node: Node, axis: _Axis) -> Any:
    """Where each place of the result is in the input, as real numbers: an array of float32."""
    x, scale = np.arange(axis.after, dtype=_F), _F(axis.scale)
    before, after = _F(axis.before), _F(axis.after)
    kind = _coordinates(node)
    if kind == "asymmetric":
        return x / scale
    if kind == "half_pixel":
        return (x + _F(0.5)) / scale - _F(0.5)
    if kind == "pytorch_half_pixel":
        return (x + _F(0.5)) / scale - _F(0.5) if axis.after > 1 else np.zeros(1, _F)
    if kind == "align_corners":
        # The length by which ONNX divides is not rounded down.
        length = before * scale
        return x * (before - 1) / (length - 1) if axis.after > 1 else np.zeros(1, _F)
    if kind == "half_pixel_symmetric":
        adjustment = after / (scale * before)
        return before / 2 * (1 - adjustment) + (x + _F(0.5)) / scale - _F(0.5)
    if kind == "tf_half_pixel_for_nn":
        return (x + _F(0.5)) / scale
    if kind == "tf_crop_and_resize":
        start, end = map(_F, axis.roi)
        if axis.after == 1:
            return np.full(1, (start + end) * (before - 1) / 2, _F)
        return start * (before - 1) + x * (end - start) * (before - 1) / (after - 1)
    raise node.refuse(f"has the unknown coordinates {kind!r}", "use half_pixel")


def _nearest(node: Node, axis: _Axis, positions: Array) -> Array:
    """The index of the input for each place of the result."""
    kind = node.get("nearest_mode", "round_prefer_floor")
    if _old(node):
        kind = "floor" if axis.scale >= 1 or node.op == "Upsample" else "ceil"
    rounded: Array
    if kind in ("floor", "round_prefer_ceil"):
        rounded = np.floor(positions + _F(0 if kind == "floor" else 0.5))
    elif kind in ("ceil", "round_prefer_floor"):
        rounded = np.ceil(positions - _F(0 if kind == "ceil" else 0.5))
    else:
        raise node.refuse(f"has the unknown rounding {kind!r}", "use floor")
    indices: Array = np.clip(rounded, 0, axis.before - 1).astype(np.int64)
    return indices


def _matrix(node: Node, axis: _Axis, positions: Array) -> Array:
    """The weights of all places of the input for each one of the result: [after, before]."""
    matrix = np.zeros((axis.after, axis.before))
    excludes = bool(node.get("exclude_outside", 0))
    antialias = bool(node.get("antialias", 0)) and axis.scale < 1
    for row, position in enumerate(positions.astype(np.float64)):
        base = math.floor(position)
        offsets, weights = _weights(node, position - base, axis.scale if antialias else 1.0)
        indices = base + offsets
        if excludes:
            weights = np.where((indices >= 0) & (indices < axis.before), weights, 0)
            weights = weights / weights.sum()
        np.add.at(matrix[row], np.clip(indices, 0, axis.before - 1), weights)
    return matrix


def _weights(node: Node, ratio: float, scale: float) -> tuple[Array, Array]:
    """Offsets from the place before a position, and their weights; `ratio` is the way to the next."""
    mode = _mode(node)
    if mode not in ("linear", "cubic"):
        raise node.refuse(f"has the unknown mode {mode!r}", "use nearest, linear or cubic")
    radius = 1 if mode == "linear" else 2
    start = math.floor(-radius / scale) + 1
    offsets = np.arange(start, 2 - start)
    x = np.abs((offsets - ratio) * scale)
    if mode == "linear":
        weights = np.clip(1 - x, 0, 1)
    else:
        a = node.get("cubic_coeff_a", -0.75)
        near = (a + 2) * x**3 - (a + 3) * x**2 + 1
        far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        weights = np.where(x <= 1, near, np.where(x < 2, far, 0))
    return offsets, weights / weights.sum()


# --- operations -----------------------------------------------------------------------------------


def _take(x: Value, axis: _Axis, indices: Array) -> Value:
    factor, rest = divmod(axis.after, axis.before)
    if not rest and factor and (indices == np.repeat(np.arange(axis.before), factor)).all():
        return repeat(x, axis.axis, factor)
    return take_known(x, indices, axis.axis)


def repeat(x: Value, axis: int, factor: int) -> Value:
    """Each position along an axis several times in a row."""
    shape = list(x.shape)
    wide = s.expand_dims(x, axis + 1)
    spread = s.broadcast_to(wide, [*shape[: axis + 1], factor, *shape[axis + 1 :]])
    shape[axis] *= factor
    return s.reshape(spread, shape)


def _multiply(x: Value, axis: _Axis, matrix: Array) -> Value:
    """Sums over an axis with the weights of a matrix [after, before]."""
    wide = x if is_float(x.dtype) else e.convert(x, FLOAT32)
    weights = x.builder.constant(matrix, wide.dtype)
    product = p.dot_general(wide, weights, ([axis.axis], [1]))
    return s.move_axis(product, product.rank - 1, axis.axis)
