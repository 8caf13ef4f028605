"""Sums of products of 8-bit integers, from which zero points are subtracted.

With constant weights these are products of 8-bit integers, for which the runtime has kernels:

    sum (x - a)(w - b)  =  sum x w  -  a sum w  -  b (sum x - K a)

where the sums of weights are constants, and b, of weights that may not be moved to 0, is rare. Others are computed in floating
point, where the kernels are fast, in pieces that are short enough to be exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

import numpy as np

from ....thresholds import MOST_BYTE_TAPS
from . import Value
from . import contractions as p
from . import pointwise as e
from . import reducing as r
from . import reshaping as s
from .mlir_types import FLOAT32, INT32

_EXACT = 1 << 24
"""Float32 holds all whole numbers up to this one."""
_LARGEST = 255 * 255
"""Of products of 8-bit integers whose zero points are subtracted."""
_MOST_SUMMED = (1 << 31) // _LARGEST
"""Products whose sum 32 bits hold."""
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_INT8 = np.dtype(np.int8)


@dataclass(frozen=True)
class Whole:
    """Whole numbers: 8-bit integers minus a zero point, which broadcasts to them."""

    numbers: Value
    zero: Value | None = None

    def as_floats(self) -> Value:
        """The differences as float32."""
        wide = e.convert(self.numbers, FLOAT32)
        return wide if self.zero is None else wide - e.convert(self.zero, FLOAT32)

    def transposed(self) -> Whole:
        """The numbers of a matrix with its axes exchanged."""
        zero = (
            self.zero if self.zero is None or self.zero.rank < 2 else s.transpose(self.zero, [1, 0])
        )
        return Whole(s.transpose(self.numbers, [1, 0]), zero)

    def signed(self) -> Whole:
        """These numbers as signed integers, with a zero point of 32 bits, or none if it is 0."""
        numbers, zero = self.numbers, self.zero
        wide = None if zero is None else e.convert(zero, INT32)
        if numbers.dtype != _INT8:
            numbers = _moved(numbers)
            wide = numbers.builder.constant(-128, INT32) if wide is None else wide - 128
        if wide is None or wide.known is None:
            return Whole(numbers, wide)
        if numbers.known is not None:
            moved = numbers.known.astype(np.int32) - wide.known
            if np.all(np.abs(moved + 0.5) < 128):
                return Whole(numbers.builder.constant(moved, np.int8))
        return Whole(numbers, wide if np.any(wide.known) else None)


@dataclass(frozen=True, eq=False)
class Dequantized(Value):
    """A value that is whole numbers times a scale, which broadcasts to them."""

    whole: Whole = field(kw_only=True)
    scale: Value = field(kw_only=True)

    @classmethod
    def of(cls, value: Value, whole: Whole, scale: Value) -> Dequantized:
        """A value of which that is known."""
        own = {one.name: getattr(value, one.name) for one in fields(Value)}
        return cls(**own, whole=whole, scale=scale)


@dataclass(frozen=True, eq=False)
class Quantized(Value):
    """8-bit integers that are computed once, whoever reads them."""

    signed: Value = field(kw_only=True)
    """They, less 128 if they are unsigned."""


def kept(numbers: Value) -> Value:
    """8-bit integers as a value in memory, which XLA does not compute again for each of its readers.

    Windows of one element each are that for XLA; the compiler leaves them out (`stablehlo/canonical/kept_bytes.py`).
    """
    size = numbers.size
    if numbers.dtype not in _BYTES or numbers.known is not None or not numbers.rank or not size:
        return numbers
    if numbers.builder.regions:
        return numbers
    signed = _moved(numbers)
    last = [2 if axis == numbers.rank - 1 else 1 for axis in numbers.axes]
    pads = [(0, 1) if extent == 2 else (0, 0) for extent in last]
    signed = r.reduce_window(signed, "maximum", last, last, pads, spread=last)
    value = signed
    if numbers.dtype != _INT8:
        value = e.convert(e.convert(signed, INT32) + 128, numbers.dtype)
    own = {one.name: getattr(value, one.name) for one in fields(Value)}
    return Quantized(**own, signed=signed)


def _moved(numbers: Value) -> Value:
    """8-bit integers as signed ones, less 128 if they are not."""
    if isinstance(numbers, Quantized):
        return numbers.signed
    if numbers.dtype == _INT8:
        return numbers
    return e.convert(e.convert(numbers, INT32) - 128, np.int8)


def dequantized_product(x: Value, y: Value, *, transposed: bool = False) -> Value | None:
    """The product with a matrix of constants, exactly summed; None if it is not one of 8-bit integers.

    Args:
        x: The first factor, [..., K].
        y: The matrix, [K, N].
        transposed: Whether it is given as [N, K].
    """
    if not isinstance(x, Dequantized) or not isinstance(y, Dequantized):
        return None
    if y.rank != 2 or x.rank < 2 or x.scale.rank or (x.whole.zero and x.whole.zero.rank):
        return None
    weights, scale = y.whole, y.scale
    if transposed:
        weights = weights.transposed()
        scale = s.transpose(scale, [1, 0]) if scale.rank else scale
    if scale.rank and scale.shape[0] != 1:
        return None
    total = _narrow_product(x.whole, weights)
    if total is None or x.dtype != FLOAT32:
        return None
    scale = s.reshape(scale, [scale.size]) if scale.rank else scale
    return e.convert(total, FLOAT32) * (x.scale * scale)


def integer_product(x: Whole, y: Whole, bias: Value | None = None) -> Value:
    """The matrix product of whole numbers, plus a bias that broadcasts to it, as int32."""
    if (total := _narrow_product(x, y, bias)) is not None:
        return total
    product = _float_product(x, y)
    return product if bias is None else product + bias


def _float_product(x: Whole, y: Whole) -> Value:
    left, right = x.as_floats(), y.as_floats()
    if left.rank == 1 or right.rank == 1:
        return e.convert(p.matmul(left, right), INT32)
    return _in_pieces(
        left.shape[-1],
        1,
        lambda a, b: p.matmul(s.slice_axis(left, -1, a, b), s.slice_axis(right, -2, a, b)),
    )


def _narrow_product(x: Whole, y: Whole, bias: Value | None = None) -> Value | None:
    """The product as one of 8-bit integers; None if the second factor is no matrix of constants.

    In loops and branches, constants are values from outside, which XLA would convert to 32 bits.
    """
    numbers = x.numbers, y.numbers
    fits = (
        all(v.dtype in _BYTES for v in numbers)
        and not numbers[0].builder.regions
        and numbers[0].known is None
        and numbers[1].known is not None
        and numbers[0].rank > 1
        and numbers[1].rank == 2
        and 0 < numbers[1].shape[0] <= _MOST_SUMMED
        and (y.zero is None or y.zero.rank == 0 or y.zero.size == y.zero.shape[-1])
    )
    if not fits:
        return None
    left, right = x.signed(), y.signed()
    total = p.matmul(left.numbers, right.numbers, INT32)
    known = None if bias is None else -bias
    if left.zero is not None:
        sums = left.zero * r.reduce(e.convert(right.numbers, INT32), [0], "add")
        known = sums if known is None else known + sums
    if known is not None:
        total = less(total, known)
    if right.zero is not None:
        rows = r.reduce(e.convert(left.numbers, INT32), [left.numbers.rank - 1], "add", keep=True)
        if left.zero is not None:
            rows = rows - left.zero * right.numbers.shape[0]
        total = total - rows * right.zero
    return total


def less(total: Value, x: Value) -> Value:
    """Sums less what follows from constants, which XLA would otherwise add in its own kernel of the product."""
    return total - _hidden(x)


def _hidden(x: Value) -> Value:
    """A value that XLA knows nothing of."""
    return x.builder.emit("stablehlo.optimization_barrier", [x], x.dtype, x.shape)


def _in_pieces(count: int, size: int, multiply: Callable[[int, int], Value]) -> Value:
    """An exact sum of products as int32.

    Args:
        count: Over how many positions of an axis is summed.
        size: How many products belong to each of them.
        multiply: The sum over a part of the positions, as float32.
    """
    length = max(_EXACT // (_LARGEST * max(size, 1)), 1)
    parts = [
        e.convert(multiply(first, min(first + length, count)), INT32)
        for first in range(0, count, length)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def integer_convolution(
    first: Whole, second: Whole, window: p.Window, groups: int, bias: Value | None = None
) -> Value:
    """The convolution of whole numbers, plus a bias for each feature, as int32."""
    return e.convert(whole_convolution(first, second, window, groups, bias), INT32)


def whole_convolution(
    first: Whole, second: Whole, window: p.Window, groups: int, bias: Value | None = None
) -> Value:
    """The convolution of whole numbers, plus a bias for each feature, as int32, or as float32 that holds it exactly."""
    total = _narrow_convolution(first, second, window, groups, bias)
    if total is not None:
        return total
    total = _float_convolution(first, second, window, groups)
    return total if bias is None else total + _for_features(bias, total.rank)


def _for_features(values: Value, rank: int) -> Value:
    """Numbers for each feature as they broadcast to [batch, features, *spatial]."""
    return s.reshape(values, [1, values.size, *[1] * (rank - 2)])


def _float_convolution(first: Whole, second: Whole, window: p.Window, groups: int) -> Value:
    x, kernel = first.as_floats(), second.as_floats()
    channels = kernel.shape[1]
    size = math.prod(kernel.shape[2:])
    if groups > 1 or channels * size * _LARGEST <= _EXACT:
        if channels * size * _LARGEST <= _EXACT:
            return e.convert(p.convolution(x, kernel, window, groups), INT32)
        wide = [e.convert(v, np.float64) for v in (x, kernel)]
        return e.convert(p.convolution(wide[0], wide[1], window, groups), INT32)
    return _in_pieces(
        channels,
        size,
        lambda a, b: p.convolution(s.slice_axis(x, 1, a, b), s.slice_axis(kernel, 1, a, b), window),
    )


def dequantized_convolution(x: Value, kernel: Value, window: p.Window, groups: int) -> Value | None:
    """The convolution with constants, exactly summed, if it is a product of 8-bit integers; None of any other."""
    if not isinstance(x, Dequantized) or not isinstance(kernel, Dequantized):
        return None
    scale = kernel.scale
    if x.scale.rank or x.dtype != FLOAT32 or (scale.rank and scale.shape[0] != scale.size):
        return None
    total = _narrow_convolution(x.whole, kernel.whole, window, groups)
    if total is None:
        return None
    each = s.reshape(scale, [1, scale.size, *[1] * (x.rank - 2)]) if scale.rank else scale
    return e.convert(total, FLOAT32) * (x.scale * each)


def _narrow_convolution(
    x: Whole, kernel: Whole, window: p.Window, groups: int, bias: Value | None = None
) -> Value | None:
    """The convolution as one of 8-bit integers; None if the kernel is not constant, or may not be moved to 0.

    Sums are integers, or float32 of depthwise convolutions.
    """
    weights = kernel.signed()
    features = weights.numbers.shape[0]
    fits = (
        all(v.dtype in _BYTES for v in (x.numbers, kernel.numbers))
        and not x.numbers.builder.regions
        and x.numbers.known is None
        and weights.numbers.known is not None
        and 0 < weights.numbers.size <= _MOST_SUMMED * features
        and (x.zero is None or x.zero.rank == 0)
        and (groups == 1 or _is_depthwise(x.numbers, weights.numbers, groups))
    )
    if not fits:
        return None
    single = groups == 1 and math.prod(weights.numbers.shape[2:]) == 1
    if single and not any(map(any, window.pads)):
        return _product_of_pixels(x, kernel, window, bias)
    images = x.signed()
    if weights.zero is not None:
        return None
    numbers = images.numbers
    if any(map(any, window.pads)):
        zero = images.zero or numbers.builder.constant(0, INT32)
        low, high = ([0, *(pads[side] for pads in window.pads), 0] for side in (0, 1))
        padded = s.pad(_features_last(numbers), e.convert(zero, np.int8), low, high)
        numbers = s.move_axis(padded, -1, 1)
        window = replace(window, pads=((0, 0),) * len(window.pads))
    if groups > 1:
        total = _depthwise(numbers, weights.numbers, window)
    else:
        total = p.convolution(numbers, weights.numbers, window, groups, INT32)
    known = None if bias is None else -bias
    if images.zero is not None:
        axes = list(range(1, weights.numbers.rank))
        sums = images.zero * r.reduce(e.convert(weights.numbers, INT32), axes, "add")
        known = sums if known is None else known + sums
    if known is None:
        return total
    if total.dtype != INT32 and not _is_exact(known, weights.numbers):
        total = e.convert(total, INT32)
    return less(total, e.convert(_for_features(known, total.rank), total.dtype))


def _is_exact(known: Value, weights: Value) -> bool:
    """Whether float32 holds the sums of products with filters, less known numbers."""
    most = math.prod(weights.shape[1:]) * 128 * 128
    return known.known is not None and most + int(np.abs(known.known).max(initial=0)) <= _EXACT


def _is_depthwise(images: Value, filters: Value, groups: int) -> bool:
    """Whether there is a filter for each feature, whose sums float32 holds, zero points included."""
    shape = filters.shape
    alone = groups == images.shape[1] == shape[0] and shape[1] == 1
    return alone and len(shape) <= 4 and math.prod(shape[2:]) <= MOST_BYTE_TAPS


def _depthwise(images: Value, filters: Value, window: p.Window) -> Value:
    """The convolution of signed bytes in each feature, as float32, which holds every sum.

    XLA makes kernels of all features, mostly zeros, of filters of integers for one feature. What is converted is in memory as
    bytes, where the runtime's convolution reads them (`passes/recognise/byte_convolutions.py`).
    """
    last = s.move_axis(s.move_axis(filters, 0, -1), 0, -2)  # [spatial, 1, features]
    wide = e.convert(_hidden(last), FLOAT32)
    kernel = s.move_axis(s.move_axis(wide, -2, 0), -1, 0)
    source = s.move_axis(kept(_features_last(images)), -1, 1)
    return p.convolution(e.convert(source, FLOAT32), kernel, window, images.shape[1])


def _product_of_pixels(
    x: Whole, kernel: Whole, window: p.Window, bias: Value | None
) -> Value | None:
    """The convolution with kernels of one pixel as a product of matrices; None if that is none of 8-bit integers."""
    images, weights, zero = x.numbers, kernel.numbers, kernel.zero
    for axis, stride in enumerate(window.strides, 2):
        images = s.slice_axis(images, axis, 0, images.shape[axis], stride)
    pixels = _features_last(images)
    matrix = s.transpose(s.reshape(weights, list(weights.shape[:2])), [1, 0])
    points = s.reshape(zero, [zero.size]) if zero is not None and zero.rank else zero
    total = _narrow_product(Whole(pixels, x.zero), Whole(matrix, points), bias)
    return None if total is None else s.move_axis(total, -1, 1)


def _features_last(images: Value) -> Value:
    """Images whose features are the last axis, in memory too: the kernels of the runtime read them so."""
    moved = s.move_axis(images, 1, -1)
    return Value(moved.builder, moved.dtype, moved.shape, moved.builder.operand(moved))
