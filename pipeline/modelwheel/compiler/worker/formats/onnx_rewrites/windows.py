"""Pooling and transposed convolutions in the forms that torch-mlir lacks: uneven padding, and what is derived from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import TensorProto

from .straight import Array, Call, Straight

_SMALL_INTEGERS = frozenset({TensorProto.INT8, TensorProto.UINT8})


@dataclass(frozen=True)
class _Window:
    """A window along one axis."""

    size: int
    """With its gaps."""
    stride: int
    dilation: int
    extent: int
    """Of the input."""
    results: int
    begin: int
    """Padding before the input."""
    end: int

    @property
    def beyond(self) -> int:
        """How far the last window reaches beyond the input and its padding (`ceil_mode`)."""
        reach = (self.results - 1) * self.stride + self.size
        return max(0, reach - self.begin - self.extent - self.end)

    def counts(self, included: bool) -> Array:
        """How many elements each window has in the input, or also in its padding."""
        low, high = (-self.begin, self.extent + self.end) if included else (0, self.extent)
        starts = np.arange(self.results) * self.stride - self.begin
        taps = starts[:, None] + np.arange(0, self.size, self.dilation)
        counts: Array = ((taps >= low) & (taps < high)).sum(axis=1)
        return counts


def average_pool(straight: Straight, call: Call) -> Sequence[str]:
    """Averages of windows of the input padded with zeros, corrected by the number of elements."""
    windows = _windows(straight, call)
    included = bool(call.get("count_include_pad", 0))
    counts = [window.counts(included) for window in windows]
    area = math.prod(call.attributes["kernel_shape"])
    mean = _pool_padded(straight, call, call.inputs[0], windows)
    factor = area / _product(counts)
    if (factor == 1).all():
        return [mean]
    return [straight.add("Mul", mean, straight.constant(factor, straight.dtype(mean)))]


def max_pool(straight: Straight, call: Call) -> Sequence[str] | None:
    """Small integers as float32, in which they are exact: torch-mlir crashes on them.

    Windows that reach beyond the input (`ceil_mode`) get padding, which torch-mlir fills with the lowest
    value, instead.
    """
    element = straight.element(call.inputs[0])
    if element in _SMALL_INTEGERS:
        real = straight.add("Cast", call.inputs[0], to=TensorProto.FLOAT)
        results = straight.visit(replace(call, inputs=(real,)))
        return [straight.add("Cast", results[0], to=element), *results[1:]]
    if not call.get("ceil_mode", 0):
        return None
    windows = _windows(straight, call)
    pads = [*(w.begin for w in windows), *(w.end + w.beyond for w in windows)]
    kept = {n: v for n, v in call.attributes.items() if n not in ("auto_pad", "ceil_mode")}
    return straight.visit(replace(call, attributes={**kept, "pads": pads}))


def lp_pool(straight: Straight, call: Call) -> Sequence[str]:
    """The norm of each window."""
    power, dtype = call.get("p", 2), straight.dtype(call.inputs[0])
    exponent = straight.constant(power, dtype)
    powers = straight.add("Pow", straight.add("Abs", call.inputs[0]), exponent)
    mean = _pool_padded(straight, call, powers, _windows(straight, call))
    area = math.prod(call.attributes["kernel_shape"])
    sums = straight.add("Mul", mean, straight.constant(area, dtype))
    return [straight.add("Pow", sums, straight.constant(1 / power, dtype))]


def _product(counts: Sequence[Array]) -> Array:
    """Products over the axes, in a shape that broadcasts over batch and channels."""
    product: Array = np.ones((1, 1, *(len(c) for c in counts)))
    for number, each in enumerate(counts):
        shape = [-1 if axis == number + 2 else 1 for axis in range(len(counts) + 2)]
        product = product * each.reshape(shape)
    return product


def _pool_padded(straight: Straight, call: Call, value: str, windows: Sequence[_Window]) -> str:
    begins = [0, 0, *(window.begin for window in windows)]
    ends = [0, 0, *(window.end + window.beyond for window in windows)]
    if any(begins + ends):
        zero = straight.constant(0, straight.dtype(value))
        value = straight.add("Pad", value, straight.integers(*begins, *ends), zero)
    kept = ("kernel_shape", "strides", "dilations")
    attributes = {name: call.attributes[name] for name in kept if name in call.attributes}
    gapped = any(window.dilation != 1 for window in windows)
    if straight.opset < 19 and gapped:
        raise call.refuse("has dilations, which its opset does not know", "export it with opset 19")
    return straight.emit("AveragePool", value, **attributes)


def _windows(straight: Straight, call: Call) -> list[_Window]:
    shape, results = straight.shape(call.inputs[0])[2:], straight.infer(call)[2:]
    kernel = call.attributes["kernel_shape"]
    ones = [1] * len(kernel)
    strides, dilations = call.get("strides", ones), call.get("dilations", ones)
    sizes = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = call.get("pads", [0] * (2 * len(kernel)))
    begins, ends = list(pads[: len(kernel)]), list(pads[len(kernel) :])
    if call.get("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        upper = call.get("auto_pad", "") == "SAME_UPPER"
        for n, (extent, size, stride, result) in enumerate(
            zip(shape, sizes, strides, results, strict=True)
        ):
            total = max(0, (result - 1) * stride + size - extent)
            begins[n] = total // 2 if upper else total - total // 2
            ends[n] = total - begins[n]
    return [
        _Window(*row)
        for row in zip(sizes, strides, dilations, shape, results, begins, ends, strict=True)
    ]


def conv_transpose(straight: Straight, call: Call) -> Sequence[str] | None:
    """Without padding, then cut or extended to its size; None where torch-mlir does as well."""
    plain = call.get("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    sized = any(call.get("output_padding", ())) or "output_shape" in call.attributes
    if plain and not sized:
        return None
    result = straight.infer(call)[2:]
    kept = ("dilations", "group", "kernel_shape", "strides")
    attributes = {name: call.attributes[name] for name in kept if name in call.attributes}
    full = straight.emit("ConvTranspose", *call.inputs[:2], **attributes)
    whole = straight.shape(full)[2:]
    begins = _begins(call, whole, result)
    missing = [max(0, b + r - w) for b, r, w in zip(begins, result, whole, strict=True)]
    if any(missing):
        pads = straight.integers(*[0] * (4 + len(result)), *missing)
        full = straight.add("Pad", full, pads, straight.constant(0, straight.dtype(full)))
    starts = straight.integers(*begins)
    ends = straight.integers(*(b + r for b, r in zip(begins, result, strict=True)))
    cut = straight.add("Slice", full, starts, ends, straight.integers(*range(2, 2 + len(result))))
    if not call.input(2):
        return [cut]
    column = straight.integers(1, -1, *itertools.repeat(1, len(result)))
    return [straight.add("Add", cut, straight.add("Reshape", call.input(2), column))]


def _begins(call: Call, whole: Sequence[int], result: Sequence[int]) -> list[int]:
    if (
        call.get("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and "output_shape" not in call.attributes
    ):
        return list(call.get("pads", [0] * (2 * len(whole)))[: len(whole)])
    extra = call.get("output_padding", [0] * len(whole))
    totals = [w + e - r for w, e, r in zip(whole, extra, result, strict=True)]
    upper = call.get("auto_pad", "NOTSET") == "SAME_UPPER"
    return [max(0, t // 2 if upper else t - t // 2) for t in totals]
