"""Convolutions and poolings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .....stablehlo.writer import Value
from .....stablehlo.writer import contractions as p
from .....stablehlo.writer import pointwise as e
from .....stablehlo.writer import reducing as r
from .....stablehlo.writer import reshaping as s
from .....stablehlo.writer.integer_products import dequantized_convolution
from .....stablehlo.writer.mlir_types import INT64, Array
from ..onnx_node import Node, Result, operator


def _list(node: Node, name: str, count: int) -> list[int]:
    return [int(v) for v in node.get(name, None) or [1] * count]


def kernel_window(node: Node, x: Value, kernel: Sequence[int]) -> p.Window:
    """How a kernel of these extents moves over [batch, channels, *spatial]."""
    spatial = x.rank - 2
    strides, dilations = (_list(node, name, spatial) for name in ("strides", "dilations"))
    pads = _pads(node, x.shape[2:], kernel, strides, dilations)
    return p.Window(tuple(strides), tuple(pads), tuple(dilations))


def _pads(
    node: Node,
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[int, int]]:
    auto, count = node.get("auto_pad", "NOTSET"), len(extents)
    if auto in ("NOTSET", ""):
        numbers = [int(v) for v in node.get("pads", None) or [0] * (2 * count)]
        return list(zip(numbers[:count], numbers[count:], strict=True))
    if auto == "VALID":
        return [(0, 0)] * count
    pads = []
    for extent, size, stride, dilation in zip(extents, kernel, strides, dilations, strict=True):
        outputs = -(-extent // stride)
        total = max((outputs - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
        low = total // 2 if auto == "SAME_UPPER" else total - total // 2
        pads.append((low, total - low))
    return pads


@operator("Conv")
def conv(node: Node) -> Result:
    """A convolution with a bias for each feature."""
    x, kernel, bias = node.input(0), node.input(1), node.optional(2)
    window = kernel_window(node, x, kernel.shape[2:])
    groups = node.get("group", 1)
    result = dequantized_convolution(x, kernel, window, groups)
    if result is None:
        result = p.convolution(x, kernel, window, groups)
    return with_bias(result, bias)


def with_bias(x: Value, bias: Value | None) -> Value:
    """The features plus a bias for each."""
    return x if bias is None else x + s.reshape(bias, [1, bias.size, *[1] * (x.rank - 2)])


@operator("ConvTranspose")
def conv_transpose(node: Node) -> Result:
    """The convolution of which the gradient is one: every input adds its kernel to the output."""
    x, kernel = node.input(0), node.input(1)
    spatial, groups = x.rank - 2, node.get("group", 1)
    strides, dilations = (_list(node, name, spatial) for name in ("strides", "dilations"))
    extra = [int(v) for v in node.get("output_padding", None) or [0] * spatial]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel.shape[2:], dilations, strict=True)]
    cuts = _transposed_pads(node, x.shape[2:], spans, strides, extra)
    pads = tuple(
        (span - 1 - low, span - 1 - high + more)
        for span, (low, high), more in zip(spans, cuts, extra, strict=True)
    )
    flipped = s.reverse(kernel, list(range(2, kernel.rank)))
    inputs, features = kernel.shape[:2]
    parts = s.reshape(flipped, [groups, inputs // groups, features, *kernel.shape[2:]])
    swapped = s.transpose(parts, [0, 2, 1, *range(3, parts.rank)])
    joined = s.reshape(swapped, [groups * features, inputs // groups, *kernel.shape[2:]])
    window = p.Window((1,) * spatial, pads, tuple(dilations), tuple(strides))
    return with_bias(p.convolution(x, joined, window, groups), node.optional(2))


def _transposed_pads(
    node: Node,
    extents: Sequence[int],
    spans: Sequence[int],
    strides: Sequence[int],
    extra: Sequence[int],
) -> list[tuple[int, int]]:
    """The elements that are cut off the full result on both sides of each axis."""
    auto, shape = node.get("auto_pad", "NOTSET"), node.get("output_shape", None)
    if shape is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        shape = [extent * stride for extent, stride in zip(extents, strides, strict=True)]
    if shape is None:
        return _pads(node, extents, spans, strides, [1] * len(extents))
    cuts = []
    for i, wanted in enumerate(shape[-len(extents) :]):
        total = strides[i] * (extents[i] - 1) + extra[i] + spans[i] - wanted
        low = total // 2 if auto == "SAME_UPPER" else total - total // 2
        cuts.append((low, total - low))
    return cuts


# --- poolings -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pooling:
    """Windows over the spatial axes of [batch, channels, *spatial]."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    """As the node says."""
    outputs: tuple[int, ...]
    """Windows along each axis."""
    extents: tuple[int, ...]

    def reach(self) -> tuple[tuple[int, int], ...]:
        """Padding for exactly these windows: the last one may begin in the padding or leave a rest."""
        return tuple(
            (low, (count - 1) * stride + (size - 1) * dilation + 1 - extent - low)
            for (low, _), count, stride, size, dilation, extent in zip(
                self.pads,
                self.outputs,
                self.strides,
                self.sizes,
                self.dilations,
                self.extents,
                strict=True,
            )
        )

    def reduce(self, x: Value, kind: r.Kind) -> Value:
        """One value of each window; padding changes nothing."""
        pads = self.reach()
        # A rest that is shorter than a stride begins no window: without a copy, poolings follow convolutions.
        cut = [
            high if -high >= stride else 0
            for (_, high), stride in zip(pads, self.strides, strict=True)
        ]
        if any(cut):  # a rest that no window reaches
            limits = [n + c for n, c in zip(self.extents, cut, strict=True)]
            x = s.slice_(x, [0] * x.rank, [*x.shape[:2], *limits])
        filled = [(low, max(high, 0)) for low, high in pads]
        return r.reduce_window(
            x,
            kind,
            (1, 1, *self.sizes),
            (1, 1, *self.strides),
            [(0, 0), (0, 0), *filled],
            (1, 1, *self.dilations),
        )

    def counts(self, *, padding: bool) -> Array:
        """How many elements each window has, with or without those of the padding."""
        total: Array = np.ones((), np.int64)
        for axis, extent in enumerate(self.extents):
            low, high = self.pads[axis]
            places = (
                np.arange(self.outputs[axis])[:, None] * self.strides[axis]
                - low
                + np.arange(self.sizes[axis]) * self.dilations[axis]
            )
            first, last = (-low, extent + high) if padding else (0, extent)
            inside = ((places >= first) & (places < last)).sum(1)
            total = total[..., None] * inside
        return total


def pooling(node: Node, x: Value) -> Pooling:
    """The windows of a node."""
    spatial = x.rank - 2
    sizes = [int(v) for v in node.attributes["kernel_shape"]]
    strides, dilations = (_list(node, name, spatial) for name in ("strides", "dilations"))
    extents = x.shape[2:]
    pads = _pads(node, extents, sizes, strides, dilations)
    ceil = bool(node.get("ceil_mode", 0))
    outputs = []
    for i, extent in enumerate(extents):
        room = extent + sum(pads[i]) - (sizes[i] - 1) * dilations[i] - 1
        count = (-(-room // strides[i]) if ceil else room // strides[i]) + 1
        if ceil and (count - 1) * strides[i] >= extent + pads[i][0]:
            count -= 1  # a window that begins behind the input
        outputs.append(count)
    return Pooling(
        tuple(sizes), tuple(strides), tuple(dilations), tuple(pads), tuple(outputs), extents
    )


@operator("MaxPool")
def max_pool(node: Node) -> Result:
    """The largest element of each window, and its position in the whole tensor."""
    x = node.input(0)
    windows = pooling(node, x)
    if len(node.outputs) < 2 or not node.outputs[1]:
        return windows.reduce(x, "maximum")
    return _with_places(node, x, windows)


def _with_places(node: Node, x: Value, windows: Pooling) -> list[Value]:
    """Compares the elements of all windows one after another; the first of equal ones counts."""
    order = list(range(x.rank))
    if node.get("storage_order", 0):  # columns first
        order[2:] = order[2:][::-1]
    strides = np.ones(x.rank, np.int64)
    for axis, behind in zip(order[-2::-1], order[:0:-1], strict=True):
        strides[axis] = strides[behind] * x.shape[behind]
    places: Array = np.zeros(x.shape, np.int64)
    for axis, stride in enumerate(strides):
        shape = [-1 if a == axis else 1 for a in range(x.rank)]
        places = places + (np.arange(x.shape[axis]) * stride).reshape(shape)
    reach = windows.reach()
    low = [0, 0, *(a for a, _ in reach)]
    high = [0, 0, *(b for _, b in reach)]
    padded = s.pad(x, r.neutral("maximum", x.dtype), low, high)
    numbers = s.pad(node.builder.constant(places), -1, low, high)
    best: tuple[Value, Value] | None = None
    for offset in np.ndindex(*windows.sizes):
        begin = [0, 0, *(o * d for o, d in zip(offset, windows.dilations, strict=True))]
        counts = [*x.shape[:2], *windows.outputs]
        steps = [1, 1, *windows.strides]
        end = [b + (n - 1) * t + 1 for b, n, t in zip(begin, counts, steps, strict=True)]
        value, number = (s.slice_(v, begin, end, steps) for v in (padded, numbers))
        if best is None:
            best = value, number
            continue
        # A place in the padding is worse than any in the input.
        larger = e.or_(value > best[0], e.and_(best[1] < 0, number >= 0))
        best = e.select(larger, value, best[0]), e.select(larger, number, best[1])
    assert best is not None
    return [best[0], best[1]]


@operator("AveragePool")
def average_pool(node: Node) -> Result:
    """The mean of each window, with or without its padding."""
    x = node.input(0)
    windows = pooling(node, x)
    total = windows.reduce(x, "add")
    counts = windows.counts(padding=bool(node.get("count_include_pad", 0)))
    if (counts == counts.flat[0]).all():
        return total / int(counts.flat[0])
    return total / node.builder.constant(counts, x.dtype)


@operator("LpPool")
def lp_pool(node: Node) -> Result:
    """The norm of each window."""
    x, p_ = node.input(0), node.get("p", 2)
    return root(pooling(node, x).reduce(powers(x, p_), "add"), p_)


def powers(x: Value, p_: float) -> Value:
    """Powers of absolute values."""
    if p_ == 2:
        return x * x
    return e.abs_(x) if p_ == 1 else e.power(e.abs_(x), p_)


def root(x: Value, p_: float) -> Value:
    """The root of a sum of powers."""
    if p_ == 2:
        return e.sqrt(x)
    return x if p_ == 1 else e.power(x, 1 / p_)


@operator("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
def global_pool(node: Node) -> Result:
    """One value of each channel."""
    x = node.input(0)
    axes = list(range(2, x.rank))
    if node.op == "GlobalMaxPool":
        return r.reduce(x, axes, "maximum", keep=True)
    if node.op == "GlobalAveragePool":
        return r.mean(x, axes, keep=True)
    p_ = node.get("p", 2)
    return root(r.reduce(powers(x, p_), axes, "add", keep=True), p_)


@operator("MaxUnpool")
def max_unpool(node: Node) -> Result:
    """Elements at the places from which MaxPool took them, zeros elsewhere."""
    x, places = node.input(0), node.input(1)
    spatial = x.rank - 2
    strides = _list(node, "strides", spatial)
    pads = [int(v) for v in node.get("pads", None) or [0] * (2 * spatial)]
    sizes = [int(v) for v in node.attributes["kernel_shape"]]
    plain = [
        (n - 1) * stride + size - pads[i] - pads[i + spatial]
        for i, (n, stride, size) in enumerate(zip(x.shape[2:], strides, sizes, strict=True))
    ]
    from .....stablehlo.writer.gathering import scatter_nd

    flat = s.full(node.builder, [math.prod([*x.shape[:2], *plain])], 0, x.dtype)
    indices = s.reshape(e.convert(places, INT64), [x.size, 1])
    result = scatter_nd(flat, indices, s.flatten(x), "set")
    result = s.reshape(result, [*x.shape[:2], *plain])
    if node.optional(2) is None:
        return result
    wanted = node.required(2, "its shape")  # places count in the plain result, which is filled up
    more = [int(n) - m for n, m in zip(wanted, result.shape, strict=True)]
    return s.pad(result, 0, [0] * x.rank, more)


@operator("Col2Im")
def col2im(node: Node) -> Result:
    """Blocks added up where they lie in an image: [batch, channels * block, blocks]."""
    x = node.input(0)
    image = [int(n) for n in node.required(1, "the shape of the image")]
    block = [int(n) for n in node.required(2, "the shape of its blocks")]
    count = len(image)
    strides, dilations = (_list(node, name, count) for name in ("strides", "dilations"))
    pads = [int(v) for v in node.get("pads", None) or [0] * (2 * count)]
    channels = x.shape[1] // math.prod(block)
    spans = [(k - 1) * d + 1 for k, d in zip(block, dilations, strict=True)]
    steps = [
        (image[i] + pads[i] + pads[i + count] - spans[i]) // strides[i] + 1 for i in range(count)
    ]
    parts = s.reshape(x, [x.shape[0], channels, *block, *steps])
    total: Value | None = None
    for offset in np.ndindex(*block):
        piece = parts
        for axis, position in enumerate(offset):
            piece = s.slice_axis(piece, 2 + axis, position, position + 1)
        piece = s.reshape(piece, [x.shape[0], channels, *steps])
        low = [o * d - pads[i] for i, (o, d) in enumerate(zip(offset, dilations, strict=True))]
        high = [image[i] - low[i] - (steps[i] - 1) * strides[i] - 1 for i in range(count)]
        placed = s.pad(
            piece, 0, [0, 0, *low], [0, 0, *high], [0, 0, *(stride - 1 for stride in strides)]
        )
        total = placed if total is None else total + placed
    assert total is not None
    return total
