"""Values between pixels: `GridSample`, `RoiAlign`, `MaxRoiPool`, `DeformConv`.

All of them gather pixels at computed places. Features are [images, channels, *spatial]; places are
[images or regions, points], in pixels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce as fold

import numpy as np

from .....stablehlo.writer import Value
from .....stablehlo.writer import contractions as p
from .....stablehlo.writer import gathering as i
from .....stablehlo.writer import pointwise as e
from .....stablehlo.writer import reducing as r
from .....stablehlo.writer import reshaping as s
from .....stablehlo.writer.mlir_types import INT64, Array
from ..onnx_node import Node, Result, operator

Adjust = Callable[[Value, int], Value]
"""Moves places along an axis of some extent into the image."""


@dataclass(frozen=True)
class Features:
    """Pixels in rows, [images * pixels, channels], so that one index takes all channels of one."""

    rows: Value
    extents: tuple[int, ...]
    """Of the spatial axes."""

    @classmethod
    def of(cls, x: Value) -> Features:
        """The features of [images, channels, *spatial]."""
        last = s.move_axis(x, 1, x.rank - 1)
        return cls(s.reshape(last, [x.size // x.shape[1], x.shape[1]]), x.shape[2:])

    def take(self, image: Value, places: Sequence[Value]) -> Value:
        """The pixels at whole places within the image: [places..., channels]."""
        index = image
        for place, extent in zip(places, self.extents, strict=True):
            index = index * extent + e.convert(place, INT64)
        return i.take(self.rows, index, 0)

    def weighted(self, image: Value, places: Sequence[Value], weight: Value) -> Value:
        """Pixels times weights, and zero outside the image."""
        for place, extent in zip(places, self.extents, strict=True):
            within = e.and_(place >= 0, place <= extent - 1)
            weight = e.select(within, weight, 0)
        inside = [e.clamp(0, v, n - 1) for v, n in zip(places, self.extents, strict=True)]
        return self.take(image, inside) * s.expand_dims(weight, -1)

    def corners(self, image: Value, places: Sequence[Value]) -> list[Value]:
        """The pixels around each place, times the weights that interpolate linearly."""
        sides = []
        for place in places:
            low = e.floor(place)
            part = place - low
            sides.append([(low, 1 - part), (low + 1, part)])
        return [
            self.weighted(image, [v for v, _ in pick], fold(e.multiply, [w for _, w in pick]))
            for pick in itertools.product(*sides)
        ]

    def linear(self, image: Value, places: Sequence[Value]) -> Value:
        """Values between pixels; zero outside the image: [places..., channels]."""
        return fold(e.add, self.corners(image, places))

    def cubic(self, image: Value, places: Sequence[Value], adjust: Adjust | None) -> Value:
        """Values by cubes over four pixels along each axis (a = -0.75)."""
        sides = []
        for place, extent in zip(places, self.extents, strict=True):
            low = e.floor(place)
            weights = _cubic_weights(place - low)
            taps = [low + (number - 1) for number in range(4)]
            moved = [adjust(tap, extent) if adjust else tap for tap in taps]
            sides.append(list(zip(moved, weights, strict=True)))
        rows = [
            self.weighted(image, [v for v, _ in pick], fold(e.multiply, [w for _, w in pick]))
            for pick in itertools.product(*sides)
        ]
        return fold(e.add, rows)


def _cubic_weights(t: Value, a: float = -0.75) -> list[Value]:
    def near(x: Value) -> Value:
        return ((x * (a + 2) - (a + 3)) * x) * x + 1

    def far(x: Value) -> Value:
        return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@operator("GridSample")
def grid_sample(node: Node) -> Result:
    """Values at places between -1 and 1: linear, nearest or cubic, with any padding."""
    x, grid = node.input(0), node.input(1)
    padding, mode = node.get("padding_mode", "zeros"), node.get("mode", "linear")
    aligned = bool(node.get("align_corners", 0))
    features = Features.of(x)
    kind = grid.dtype
    places = []
    for axis, extent in enumerate(x.shape[2:]):
        value = s.index_axis(grid, -1, len(features.extents) - 1 - axis)
        scale = (extent - 1) / 2 if aligned else extent / 2
        places.append(e.convert(value * scale + (extent - 1) / 2, kind))
    adjust: Adjust | None = None
    if padding == "border":
        adjust = lambda v, n: e.clamp(0, v, n - 1)
    elif padding == "reflection":
        adjust = lambda v, n: _reflect(v, n, aligned=aligned)
    image = _numbers(x, places[0])
    if mode in ("cubic", "bicubic"):
        result = features.cubic(image, places, adjust)
    else:
        nearest = mode == "nearest"
        # The nearest pixel is chosen before the padding, as ONNX Runtime does.
        places = [e.round_even(v) for v in places] if nearest else places
        if adjust:
            places = [adjust(v, n) for v, n in zip(places, features.extents, strict=True)]
        if nearest:
            ones = s.full(node.builder, places[0].shape, 1, kind)
            result = features.weighted(image, [e.round_even(v) for v in places], ones)
        else:
            result = features.linear(image, places)
    return s.move_axis(result, result.rank - 1, 1)


def _numbers(x: Value, places: Value) -> Value:
    """The number of the image for places [images, ...]."""
    shape = [x.shape[0], *[1] * (places.rank - 1)]
    return s.reshape(x.builder.constant(np.arange(x.shape[0]), np.int64), shape)


def _reflect(x: Value, extent: int, *, aligned: bool) -> Value:
    """A place mirrored at the borders until it is within them."""
    low, high = (0.0, extent - 1.0) if aligned else (-0.5, extent - 0.5)
    span = high - low if high > low else 1.0
    away = e.abs_(x - low)
    rest = away - e.floor(away / (2 * span)) * (2 * span)
    return e.clamp(0, e.select(rest > span, 2 * span - rest, rest) + low, extent - 1)


@operator("RoiAlign")
def roi_align(node: Node) -> Result:
    """Averages or largest values of points in each cell of each region."""
    ratio = node.get("sampling_ratio", 0)
    if ratio <= 0:
        raise node.refuse(
            "takes as many points as the size of each region decides",
            "set its sampling_ratio, to 2 for example",
        )
    x, regions = node.input(0), node.input(1)
    features = Features.of(x)
    rows, columns = node.get("output_height", 1), node.get("output_width", 1)
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    shifted = node.get("coordinate_transformation_mode", default) == "half_pixel"
    lines, near = [], []
    for axis, (first, count) in enumerate(((1, rows), (0, columns))):
        low, high = (_border(node, regions, n, shifted=shifted) for n in (first, first + 2))
        length = high - low
        if not shifted:
            length = e.maximum(length, 1)
        steps = (np.arange(count * ratio) + 0.5) / (count * ratio)
        place = low + length * node.builder.constant(steps, x.dtype)
        extent = features.extents[axis]
        near.append(e.and_(place >= -1, place <= extent))
        lines.append(e.clamp(0, place, extent - 1))
    shape = [regions.shape[0], rows * ratio, columns * ratio]
    places = [s.broadcast_to(s.expand_dims(v, 2 - axis), shape) for axis, v in enumerate(lines)]
    kept = e.and_(s.expand_dims(near[0], 2), s.expand_dims(near[1], 1))
    image = s.reshape(e.convert(node.input(2), INT64), [regions.shape[0], 1, 1])
    largest = node.get("mode", "avg") == "max"
    # ONNX takes the largest of the four weighted pixels of each point, then of the points.
    parts = features.corners(image, places)
    result = fold(e.maximum if largest else e.add, parts)
    result = e.select(s.expand_dims(kept, -1), result, 0)
    cells = s.reshape(result, [shape[0], rows, ratio, columns, ratio, x.shape[1]])
    pooled = r.reduce(cells, [2, 4], "maximum") if largest else r.mean(cells, [2, 4])
    return s.move_axis(pooled, 3, 1)


def _border(node: Node, regions: Value, column: int, *, shifted: bool) -> Value:
    """One coordinate of each region in pixels: [regions, 1]."""
    scale = float(node.get("spatial_scale", 1.0))
    value = s.slice_axis(regions, 1, column, column + 1) * scale
    return value - 0.5 if shifted else value


@operator("MaxRoiPool")
def max_roi_pool(node: Node) -> Result:
    """The largest pixel of each cell of each region; cells are as large as the values decide."""
    x, regions = node.input(0), node.input(1)
    rows, columns = (int(n) for n in node.attributes["pooled_shape"])
    scale = node.get("spatial_scale", 1.0)
    image = e.convert(s.index_axis(regions, 1, 0), INT64)
    masks = []
    for first, count, extent in ((2, rows, x.shape[2]), (1, columns, x.shape[3])):
        ends = [
            e.floor(s.slice_axis(regions, 1, n, n + 1) * scale + 0.5) for n in (first, first + 2)
        ]
        size = e.maximum(ends[1] - ends[0] + 1, 1) / count
        cells = node.builder.constant(np.arange(count), x.dtype)
        begin = e.clamp(0, e.floor(size * cells) + ends[0], extent)
        end = e.clamp(0, e.ceil(size * (cells + 1)) + ends[0], extent)
        pixels = node.builder.constant(np.arange(extent), x.dtype)
        masks.append(e.and_(s.expand_dims(begin, -1) <= pixels, s.expand_dims(end, -1) > pixels))
    chosen = i.take(x, image, 0)
    lowest = float(r.neutral("maximum", x.dtype))
    # [regions, channels, rows, height, width], then [..., rows, columns, width]
    high = r.reduce(
        e.select(s.expand_dims(masks[0], (1, 4)), s.expand_dims(chosen, 2), lowest),
        [3],
        "maximum",
    )
    pooled = r.reduce(
        e.select(s.expand_dims(masks[1], (1, 2)), s.expand_dims(high, 3), lowest), [4], "maximum"
    )
    return e.select(e.equal(pooled, lowest), 0, pooled)


@operator("DeformConv")
def deform_conv(node: Node) -> Result:
    """A convolution whose taps are moved by offsets: pixels between places, times the kernel."""
    x, kernel, offsets = node.input(0), node.input(1), node.input(2)
    spatial, groups, moved = x.rank - 2, node.get("group", 1), node.get("offset_group", 1)
    batch, outputs, taps = x.shape[0], kernel.shape[0], math.prod(kernel.shape[2:])
    points = math.prod(offsets.shape[2:])
    # Each group of channels that moves together is an image of its own.
    images = s.reshape(x, [batch * moved, x.shape[1] // moved, *x.shape[2:]])
    split = s.reshape(offsets, [batch * moved, taps, spatial, points])
    places = [
        s.index_axis(split, 2, axis)
        + node.builder.constant(_taps(node, kernel, offsets, axis), x.dtype)
        for axis in range(spatial)
    ]
    samples = Features.of(images).linear(_numbers(images, places[0]), places)
    mask = node.optional(4)
    if mask is not None:
        samples = samples * s.reshape(mask, [batch * moved, taps, points, 1])
    samples = s.reshape(
        s.transpose(samples, [0, 3, 1, 2]), [batch, groups, kernel.shape[1] * taps, points]
    )
    weights = s.reshape(kernel, [groups, outputs // groups, kernel.shape[1] * taps])
    product = s.reshape(p.matmul(weights, samples), [batch, outputs, *offsets.shape[2:]])
    from .sliding import with_bias

    return with_bias(product, node.optional(3))


def _taps(node: Node, kernel: Value, offsets: Value, axis: int) -> Array:
    """Where each tap is along an axis without an offset: [taps, points]."""
    sizes, counts = kernel.shape[2:], offsets.shape[2:]
    spatial = len(sizes)
    stride = (node.get("strides", None) or [1] * spatial)[axis]
    dilation = (node.get("dilations", None) or [1] * spatial)[axis]
    pad = (node.get("pads", None) or [0] * (2 * spatial))[axis]
    tap = np.indices(sizes)[axis].reshape(-1, 1) * dilation
    point = np.indices(counts)[axis].reshape(1, -1) * stride - pad
    positions: Array = (tap + point).astype(np.float64)
    return positions
