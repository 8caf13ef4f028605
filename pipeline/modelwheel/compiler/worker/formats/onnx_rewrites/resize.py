"""`Resize` and `Upsample` in all modes: along one axis after the other, by constant indices or matrices.

torch-mlir has no lowering of interpolation to StableHLO. Coordinates are computed in float32, as ONNX
Runtime does: rounding decides which neighbour is nearest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .straight import Array, Call, Straight

_F = np.float32


@dataclass(frozen=True)
class _Axis:
    """How one axis is resized."""

    axis: int
    before: int
    after: int
    scale: float
    roi: tuple[float, float]


def resize(straight: Straight, call: Call) -> Sequence[str]:
    """One node becomes a few for each axis that changes."""
    given, result = call.inputs[0], straight.infer(call)
    shape, mode = straight.shape(given), call.get("mode", "nearest")
    axes = [a for a in _axes(straight, call, shape, result) if _changes(call, a)]
    value, inside = given, np.ones((1,) * len(shape), np.bool_)
    for one in axes:
        positions = _positions(call, one)
        if mode == "nearest":
            value = _take(straight, value, one, _nearest(call, one, positions))
        else:
            value = _multiply(straight, value, one, _matrix(call, one, positions))
        if call.get("coordinate_transformation_mode", "") == "tf_crop_and_resize":
            kept = (positions >= 0) & (positions <= one.before - 1)
            inside = inside & kept.reshape([-1 if n == one.axis else 1 for n in range(len(shape))])
    if not inside.all():
        outside = straight.constant(call.get("extrapolation_value", 0.0), straight.dtype(given))
        value = straight.add("Where", straight.constant(inside), value, outside)
    return [value]


def _axes(
    straight: Straight, call: Call, before: Sequence[int], after: Sequence[int]
) -> list[_Axis]:
    chosen = [a % len(before) for a in call.get("axes", None) or range(len(before))]
    scales = _given(straight, call, 2)
    roi = _given(straight, call, 1)
    if roi is None or roi.size != 2 * len(chosen):
        roi = np.array([0.0] * len(chosen) + [1.0] * len(chosen))
    policy = call.get("keep_aspect_ratio_policy", "stretch")
    if scales is None:
        scales = np.array([_F(after[a]) / _F(max(before[a], 1)) for a in chosen])
        sizes = _given(straight, call, 3)
        if policy != "stretch" and sizes is not None:
            choose = min if policy == "not_larger" else max
            ratios = [size / before[a] for size, a in zip(sizes, chosen, strict=True)]
            scales = np.full(len(chosen), choose(ratios))
    return [
        _Axis(a, before[a], after[a], float(s), (float(roi[n]), float(roi[n + len(chosen)])))
        for n, (a, s) in enumerate(zip(chosen, scales, strict=True))
    ]


def _given(straight: Straight, call: Call, number: int) -> Array | None:
    """The values of an optional input; None if it is left out or empty."""
    if not call.input(number) or 0 in straight.shape(call.input(number)):
        return None
    values = straight.value(call.input(number))
    if values is None:
        raise call.refuse(
            "takes a size or scale that the inputs decide", "export it with constant sizes"
        )
    return values


def _changes(call: Call, axis: _Axis) -> bool:
    crops = call.get("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    return axis.before != axis.after or axis.scale != 1 or (crops and axis.roi != (0, 1))


# --- coordinates ----------------------------------------------------------------------------------


def _positions(call: Call, axis: _Axis) -> Any:
    """Where each place of the result is in the input, as real numbers: an array of float32."""
    x, scale = np.arange(axis.after, dtype=_F), _F(axis.scale)
    before, after = _F(axis.before), _F(axis.after)
    kind = call.get("coordinate_transformation_mode", "half_pixel")
    if kind == "asymmetric":
        return x / scale
    if kind == "half_pixel":
        return (x + _F(0.5)) / scale - _F(0.5)
    if kind == "pytorch_half_pixel":
        return (x + _F(0.5)) / scale - _F(0.5) if axis.after > 1 else np.zeros(1, _F)
    if kind == "align_corners":
        return x * (before - 1) / (after - 1) if axis.after > 1 else np.zeros(1, _F)
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
    raise call.refuse(f"has the unknown coordinates {kind!r}", "use half_pixel")


def _nearest(call: Call, axis: _Axis, positions: Array) -> Array:
    """The index of the input for each place of the result."""
    kind = call.get("nearest_mode", "round_prefer_floor")
    if kind == "simple":  # before opset 11
        kind = "ceil" if axis.scale < 1 else "floor"
    rounded: Array
    if kind in ("floor", "round_prefer_ceil"):
        rounded = np.floor(positions + _F(0 if kind == "floor" else 0.5))
    elif kind in ("ceil", "round_prefer_floor"):
        rounded = np.ceil(positions - _F(0 if kind == "ceil" else 0.5))
    else:
        raise call.refuse(f"has the unknown rounding {kind!r}", "use floor")
    indices: Array = np.clip(rounded, 0, axis.before - 1).astype(np.int64)
    return indices


def _matrix(call: Call, axis: _Axis, positions: Array) -> Array:
    """The weights of all places of the input for each one of the result: [after, before]."""
    matrix = np.zeros((axis.after, axis.before))
    excludes = bool(call.get("exclude_outside", 0))
    antialias = bool(call.get("antialias", 0)) and axis.scale < 1
    for row, position in enumerate(positions.astype(np.float64)):
        base = math.floor(position)
        offsets, weights = _weights(call, position - base, axis.scale if antialias else 1.0)
        indices = base + offsets
        if excludes:
            weights = np.where((indices >= 0) & (indices < axis.before), weights, 0)
            weights = weights / weights.sum()
        np.add.at(matrix[row], np.clip(indices, 0, axis.before - 1), weights)
    return matrix


def _weights(call: Call, ratio: float, scale: float) -> tuple[Array, Array]:
    """Offsets from the place before a position, and their weights; `ratio` is the way to the next."""
    mode = call.get("mode", "nearest")
    if mode not in ("linear", "cubic"):
        raise call.refuse(f"has the unknown mode {mode!r}", "use nearest, linear or cubic")
    radius = 1 if mode == "linear" else 2
    start = math.floor(-radius / scale) + 1
    offsets = np.arange(start, 2 - start)
    x = np.abs((offsets - ratio) * scale)
    if mode == "linear":
        weights = np.clip(1 - x, 0, 1)
    else:
        a = call.get("cubic_coeff_a", -0.75)
        near = (a + 2) * x**3 - (a + 3) * x**2 + 1
        far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        weights = np.where(x <= 1, near, np.where(x < 2, far, 0))
    return offsets, weights / weights.sum()


# --- nodes ----------------------------------------------------------------------------------------


def _take(straight: Straight, value: str, axis: _Axis, indices: Array) -> str:
    factor, rest = divmod(axis.after, axis.before)
    if not rest and factor and (indices == np.repeat(np.arange(axis.before), factor)).all():
        shape = list(straight.shape(value))
        head, tail = shape[: axis.axis + 1], shape[axis.axis + 1 :]
        column = straight.add("Reshape", value, straight.integers(*head, 1, *tail))
        repeated = straight.add("Expand", column, straight.integers(*head, factor, *tail))
        shape[axis.axis] = axis.after
        return straight.add("Reshape", repeated, straight.integers(*shape))
    return straight.add("Gather", value, straight.constant(indices), axis=axis.axis)


def _multiply(straight: Straight, value: str, axis: _Axis, matrix: Array) -> str:
    dtype = straight.dtype(value)
    rank = len(straight.shape(value))
    order: Mapping[str, Any] = {"perm": [*(n for n in range(rank) if n != axis.axis), axis.axis]}
    if axis.axis == rank - 1:
        return straight.add("MatMul", value, straight.constant(matrix.T, dtype))
    if axis.axis == rank - 2:
        return straight.add("MatMul", straight.constant(matrix, dtype), value)
    moved = straight.add("Transpose", value, **order)
    product = straight.add("MatMul", moved, straight.constant(matrix.T, dtype))
    return straight.add("Transpose", product, perm=np.argsort(order["perm"]).tolist())
