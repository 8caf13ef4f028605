"""Values between pixels: `RoiAlign`, `DeformConv`, and the forms of `GridSample` that torch-mlir lacks.

All of them gather pixels at computed places. Features are [batch, channels, height, width]; places are
[batch or regions, points], in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from .straight import Call, Straight


@dataclass(frozen=True)
class _Features:
    """Pixels in rows, [batch * height * width, channels], so that one index takes all channels of one."""

    straight: Straight
    rows: str
    height: int
    width: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, straight: Straight, value: str) -> _Features:
        _, channels, height, width = straight.shape(value)
        last = straight.add("Transpose", value, perm=[0, 2, 3, 1])
        rows = straight.add("Reshape", last, straight.integers(-1, channels))
        return cls(straight, rows, height, width, straight.dtype(value))

    def real(self, number: float) -> str:
        return self.straight.constant(number, self.dtype)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        return self.straight.add(op, *inputs, **attributes)

    def take(self, batch: str, y: str, x: str) -> str:
        """The pixels at whole places within the image: [places..., channels]."""
        whole = [self.add("Cast", v, to=TensorProto.INT64) for v in (y, x)]
        pixels = self.straight.constant(self.height * self.width, np.int64)
        width = self.straight.constant(self.width, np.int64)
        index = self.add("Add", self.add("Mul", whole[0], width), whole[1])
        index = self.add("Add", index, self.add("Mul", batch, pixels))
        return self.add("Gather", self.rows, index, axis=0)

    def clamp(self, value: str, extent: int) -> str:
        return self.add("Clip", value, self.real(0), self.real(extent - 1))

    def inside(self, value: str, extent: int) -> str:
        """1 where a place is within the image, else 0."""
        above = self.add("GreaterOrEqual", value, self.real(0))
        below = self.add("LessOrEqual", value, self.real(extent - 1))
        kind = self.straight.element(value)
        return self.add("Cast", self.add("And", above, below), to=kind)

    def weighted(self, batch: str, y: str, x: str, weight: str) -> str:
        """Pixels times weights, which are 0 outside the image."""
        for value, extent in ((y, self.height), (x, self.width)):
            weight = self.add("Mul", weight, self.inside(value, extent))
        pixels = self.take(batch, self.clamp(y, self.height), self.clamp(x, self.width))
        return self.add("Mul", pixels, self.add("Unsqueeze", weight, self.straight.integers(-1)))

    def corners(self, batch: str, y: str, x: str) -> list[str]:
        """The four pixels around each place, times the weights that interpolate linearly."""
        low = [self.add("Floor", value) for value in (y, x)]
        rest = [self.add("Sub", value, first) for value, first in zip((y, x), low, strict=True)]
        sides = []
        for first, part in zip(low, rest, strict=True):
            one = self.real(1)
            sides.append([(first, self.add("Sub", one, part)), (self.add("Add", first, one), part)])
        return [
            self.weighted(batch, row, column, self.add("Mul", a, b))
            for row, a in sides[0]
            for column, b in sides[1]
        ]

    def linear(self, batch: str, y: str, x: str) -> str:
        """Values between pixels; zero outside the image: [places..., channels]."""
        return self.add("Sum", *self.corners(batch, y, x))


def roi_align(straight: Straight, call: Call) -> Sequence[str]:
    """Averages or largest values of points in each cell of each region."""
    ratio = call.get("sampling_ratio", 0)
    if ratio <= 0:
        raise call.refuse(
            "takes as many points as the size of each region decides",
            "set its sampling_ratio, to 2 for example",
        )
    features, regions = _Features.of(straight, call.inputs[0]), call.inputs[1]
    rows, columns = call.get("output_height", 1), call.get("output_width", 1)
    shifted = call.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    places = []
    for number, count, extent in ((1, rows, features.height), (0, columns, features.width)):
        first, last = (_scaled(features, call, regions, n, shifted) for n in (number, number + 2))
        length = features.add("Sub", last, first)
        if not shifted or call.opset < 16:
            length = features.add("Max", length, features.real(1))
        parts = (np.arange(count * ratio) + 0.5) / (count * ratio)
        steps = features.add("Mul", length, straight.constant(parts, features.dtype))
        places.append((features.add("Add", first, steps), extent))
    found = _in_regions(features, call, places)
    count, points = (
        straight.shape(regions)[0],
        straight.integers(0, rows, ratio, columns, ratio, -1),
    )
    values = features.add("Reshape", found, points)
    assert count == straight.shape(values)[0]
    op = "ReduceMax" if call.get("mode", "avg") == "max" else "ReduceMean"
    pooled = _reduce(straight, op, values, [2, 4])
    return [features.add("Transpose", pooled, perm=[0, 3, 1, 2])]


def _scaled(features: _Features, call: Call, regions: str, column: int, shifted: bool) -> str:
    """One coordinate of each region in pixels: [regions, 1]."""
    index = features.straight.integers(column)
    scale = features.real(call.get("spatial_scale", 1.0))
    value = features.add("Mul", features.add("Gather", regions, index, axis=1), scale)
    shift = shifted and call.opset >= 16
    return features.add("Sub", value, features.real(0.5)) if shift else value


def _in_regions(features: _Features, call: Call, places: Sequence[tuple[str, int]]) -> str:
    """Values at all pairs of places: [regions, rows * columns, channels]; zero far outside."""
    straight = features.straight
    grids: list[str] = []
    weights: list[str] = []
    shapes = [straight.shape(value) for value, _ in places]
    pair = straight.integers(shapes[0][0], shapes[0][1], shapes[1][1])
    for number, (value, extent) in enumerate(places):
        beyond = features.add("LessOrEqual", value, features.real(extent))
        near = features.add("And", beyond, features.add("GreaterOrEqual", value, features.real(-1)))
        kept = features.add("Cast", near, to=straight.element(value))
        axis = straight.integers(2 - number)
        for made, part in ((grids, features.clamp(value, extent)), (weights, kept)):
            made.append(features.add("Expand", features.add("Unsqueeze", part, axis), pair))
    batch = features.add("Cast", call.inputs[2], to=TensorProto.INT64)
    batch = features.add("Unsqueeze", batch, straight.integers(1, 2))
    # ONNX takes the largest of the four weighted pixels of each point, not of the points.
    if call.get("mode", "avg") == "max":
        found = features.add("Max", *features.corners(batch, *grids))
    else:
        found = features.linear(batch, *grids)
    kept = features.add("Unsqueeze", features.add("Mul", *weights), straight.integers(-1))
    return features.add("Mul", found, kept)


def _reduce(straight: Straight, op: str, value: str, axes: Sequence[int]) -> str:
    """A reduction, which takes its axes as an input from opset 18 on."""
    if straight.opset < 18:
        return straight.add(op, value, axes=list(axes), keepdims=0)
    return straight.add(op, value, straight.integers(*axes), keepdims=0)


def deform_conv(straight: Straight, call: Call) -> Sequence[str]:
    """A convolution whose taps are moved by offsets: pixels between places, times the kernel."""
    value, kernel, offsets = call.inputs[:3]
    batch, channels, _, _ = straight.shape(value)
    outputs, per_group, high, wide = straight.shape(kernel)
    if len(straight.shape(value)) != 4:
        raise call.refuse("has not two spatial axes", "export it in two dimensions")
    groups, moved = call.get("group", 1), call.get("offset_group", 1)
    rows, columns = straight.shape(offsets)[2:]
    strides, dilations = call.get("strides", [1, 1]), call.get("dilations", [1, 1])
    pads = call.get("pads", [0, 0, 0, 0])
    taps = high * wide
    # Each group of channels that moves together is an image of its own.
    images = straight.add(
        "Reshape",
        value,
        straight.integers(batch * moved, channels // moved, *straight.shape(value)[2:]),
    )
    features = _Features.of(straight, images)
    split = straight.add(
        "Reshape", offsets, straight.integers(batch * moved, taps, 2, rows * columns)
    )
    places = []
    for axis, (kernel_extent, count) in enumerate(((high, rows), (wide, columns))):
        steps = np.arange(count) * strides[axis] - pads[axis]
        tap = np.arange(kernel_extent) * dilations[axis]
        grid = [
            (tap[:, None, None, None], tap[None, :, None, None])[axis],
            (steps[:, None], steps)[axis],
        ]
        base = np.broadcast_to(grid[0] + grid[1], (high, wide, rows, columns)).reshape(taps, -1)
        offset = straight.add("Gather", split, straight.constant(np.int64(axis)), axis=2)
        places.append(features.add("Add", offset, straight.constant(base, features.dtype)))
    number = straight.constant(np.arange(batch * moved).reshape(-1, 1, 1), np.int64)
    found = features.linear(number, *places)  # [batch * moved, taps, points, channels]
    if call.input(4):
        shape = straight.integers(batch * moved, taps, rows * columns, 1)
        found = features.add("Mul", found, features.add("Reshape", call.input(4), shape))
    found = features.add("Transpose", found, perm=[0, 3, 1, 2])
    shape = straight.integers(batch, groups, per_group * taps, rows * columns)
    found = features.add("Reshape", found, shape)
    weights = features.add("Reshape", kernel, straight.integers(groups, outputs // groups, -1))
    product = features.add("MatMul", weights, found)
    result = features.add("Reshape", product, straight.integers(batch, outputs, rows, columns))
    if not call.input(3):
        return [result]
    return [
        features.add(
            "Add", result, features.add("Reshape", call.input(3), straight.integers(-1, 1, 1))
        )
    ]


def grid_sample(straight: Straight, call: Call) -> Sequence[str] | None:
    """Linear and nearest values with any padding; None where torch-mlir does as well."""
    padding, mode = call.get("padding_mode", "zeros"), call.get("mode", "linear")
    if len(straight.shape(call.inputs[0])) != 4 or mode in ("cubic", "bicubic"):
        if len(straight.shape(call.inputs[0])) == 4 or mode != "cubic":
            raise call.refuse(
                "interpolates with cubes or in volumes", "use linear interpolation of images"
            )
        return None
    if padding == "zeros":
        return None
    features = _Features.of(straight, call.inputs[0])
    batch, rows, columns, _ = straight.shape(call.inputs[1])
    aligned = bool(call.get("align_corners", 0))
    places = []
    for number, extent in ((1, features.height), (0, features.width)):
        index = straight.constant(np.int64(number))
        value = features.add("Gather", call.inputs[1], index, axis=3)
        scale, shift = (
            ((extent - 1) / 2, (extent - 1) / 2) if aligned else (extent / 2, (extent - 1) / 2)
        )
        value = features.add("Mul", value, features.real(scale))
        value = features.add("Add", value, features.real(shift))
        if padding == "reflection":
            value = _reflect(features, value, extent, aligned=aligned)
        places.append(features.clamp(value, extent))
    number_ = straight.constant(np.arange(batch).reshape(-1, 1, 1), np.int64)
    if mode == "nearest":
        found = features.take(number_, *(features.add("Round", place) for place in places))
    else:
        found = features.linear(number_, *places)
    assert straight.shape(found)[1:3] == (rows, columns)
    return [features.add("Transpose", found, perm=[0, 3, 1, 2])]


def _reflect(features: _Features, value: str, extent: int, *, aligned: bool) -> str:
    """A place mirrored at the borders until it is within them."""
    low, high = (0.0, extent - 1.0) if aligned else (-0.5, extent - 0.5)
    span = features.real(high - low) if high > low else features.real(1)
    double = features.real(2 * (high - low)) if high > low else features.real(2)
    away = features.add("Abs", features.add("Sub", value, features.real(low)))
    turns = features.add("Floor", features.add("Div", away, double))
    rest = features.add("Sub", away, features.add("Mul", turns, double))
    back = features.add("Sub", double, rest)
    mirrored = features.add("Where", features.add("Greater", rest, span), back, rest)
    return features.add("Add", mirrored, features.real(low))
