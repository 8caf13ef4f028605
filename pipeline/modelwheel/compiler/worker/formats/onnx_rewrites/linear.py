"""Determinants, sequences backwards, pooling undone, Fourier transforms: operations that are a few others at fixed shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from .straight import Array, Call, Straight

_MAX_MATRIX = 32
_MAX_TRANSFORM = 1024


def det(straight: Straight, call: Call) -> Sequence[str]:
    """Elimination with the largest pivot of each column."""
    value, size = call.inputs[0], straight.shape(call.inputs[0])[-1]
    if size > _MAX_MATRIX:
        raise call.refuse(
            f"is of {size} x {size} matrices, above {_MAX_MATRIX}", "end the model before it"
        )
    add, dtype = straight.add, straight.dtype(value)
    zero, one = straight.constant(0, dtype), straight.constant(1, dtype)
    result = ""
    for rows in range(size, 0, -1):
        column = _cut(straight, value, -1, 0, 1)  # [..., rows, 1]
        place = add("ArgMax", add("Abs", column), axis=-2, keepdims=1)  # [..., 1, 1]
        chosen = add("Equal", place, straight.constant(np.arange(rows).reshape(-1, 1), np.int64))
        mask = add("Cast", chosen, to=straight.element(value))
        row = _sum(straight, add("Mul", value, mask))  # [..., 1, rows]
        pivot = _cut(straight, row, -1, 0, 1)
        sign = add(
            "Where", add("Equal", place, straight.constant(0, np.int64)), one, add("Neg", one)
        )
        factor = add("Mul", pivot, sign)
        result = add("Mul", result, factor) if result else factor
        if rows > 1:
            swapped = add("Where", chosen, _cut(straight, value, -2, 0, 1), value)
            below = _cut(straight, swapped, -2, 1, rows)
            safe = add("Where", add("Equal", pivot, zero), one, pivot)
            factors = add("Div", _cut(straight, below, -1, 0, 1), safe)
            value = add("Sub", below, add("Mul", factors, row))
            value = _cut(straight, value, -1, 1, rows)
    return [add("Squeeze", result, straight.integers(-2, -1))]


def _cut(straight: Straight, value: str, axis: int, start: int, end: int) -> str:
    axis %= len(straight.shape(value))
    places = [straight.integers(number) for number in (start, end, axis)]
    return straight.add("Slice", value, *places)


def _sum(straight: Straight, value: str) -> str:
    return straight.add("ReduceSum", value, straight.integers(-2), keepdims=1)


def reverse_sequence(straight: Straight, call: Call) -> Sequence[str]:
    """The first elements of each row backwards, as many as its length."""
    value, lengths = call.inputs
    shape = straight.shape(value)
    time, batch = call.get("time_axis", 0), call.get("batch_axis", 1)
    steps = straight.constant(
        np.arange(shape[time]).reshape([-1 if axis == time else 1 for axis in range(len(shape))]),
        np.int64,
    )
    extents = [-1 if axis == batch else 1 for axis in range(len(shape))]
    limit = straight.add("Cast", lengths, to=TensorProto.INT64)
    limit = straight.add("Reshape", limit, straight.integers(*extents))
    last = straight.add("Sub", limit, straight.constant(1, np.int64))
    within = straight.add("Less", steps, limit)
    index = straight.add("Where", within, straight.add("Sub", last, steps), steps)
    index = straight.add("Expand", index, straight.integers(*shape))
    return [straight.add("GatherElements", value, index, axis=time)]


def max_unpool(straight: Straight, call: Call) -> Sequence[str]:
    """Values at the places where `MaxPool` found them, zeros elsewhere."""
    shape = straight.shape(call.inputs[0])
    kernel = call.attributes["kernel_shape"]
    count = len(kernel)
    strides, pads = call.get("strides", [1] * count), call.get("pads", [0] * 2 * count)
    extents = [
        (shape[2 + n] - 1) * strides[n] + kernel[n] - pads[n] - pads[n + count]
        for n in range(count)
    ]
    result = (*shape[:2], *extents)
    if call.input(2):
        wanted = straight.value(call.input(2))
        if wanted is None or tuple(wanted.ravel()) != result:
            raise call.refuse(
                f"has an output_shape other than {list(result)}, which its window gives",
                "leave output_shape out",
            )
    zeros = straight.constant(np.zeros(int(np.prod(result)), straight.dtype(call.inputs[0])))
    flat = [straight.add("Reshape", name, straight.integers(-1)) for name in call.inputs[:2]]
    made = straight.add("ScatterElements", zeros, flat[1], flat[0], axis=0)
    return [straight.add("Reshape", made, straight.integers(*result))]


def compress(straight: Straight, call: Call) -> Sequence[str]:
    """Constant places of an axis."""
    condition = straight.value(call.inputs[1])
    if condition is None:
        raise call.refuse(
            "returns as many elements as the values of the inputs decide, which needs shapes that are not fixed",
            "end the model before it",
        )
    value, axis = call.inputs[0], call.get("axis", None)
    if axis is None:
        value, axis = straight.add("Reshape", value, straight.integers(-1)), 0
    places = straight.constant(np.flatnonzero(condition), np.int64)
    return [straight.add("Gather", value, places, axis=axis)]


def top_k(straight: Straight, call: Call) -> Sequence[str] | None:
    """Without an order asked for, in the order of the values."""
    if call.get("sorted", 1):
        return None
    return straight.add_all("TopK", call.inputs, call.outputs, **{**call.attributes, "sorted": 1})


def global_lp_pool(straight: Straight, call: Call) -> Sequence[str]:
    """The norm over all spatial axes."""
    value, power = call.inputs[0], call.get("p", 2)
    dtype, rank = straight.dtype(value), len(straight.shape(value))
    powers = straight.add("Pow", straight.add("Abs", value), straight.constant(power, dtype))
    sums = straight.add("ReduceSum", powers, straight.integers(*range(2, rank)), keepdims=1)
    return [straight.add("Pow", sums, straight.constant(1 / power, dtype))]


def dft(straight: Straight, call: Call) -> Sequence[str]:
    """A Fourier transform along one axis, as a product with its matrix."""
    value = call.inputs[0]
    shape = straight.shape(value)
    axis = call.get("axis", 1)
    if call.input(2):
        given = straight.value(call.input(2))
        if given is None:
            raise call.refuse(
                "has an axis that the inputs decide", "export it with a constant axis"
            )
        axis = int(given.reshape(()))
    elif call.opset >= 20:
        axis = -2
    axis %= len(shape)
    size = shape[axis]
    if call.input(1):
        length = straight.value(call.input(1))
        if length is None:
            raise call.refuse(
                "has a length that the inputs decide", "export it with a constant length"
            )
        size = int(length.reshape(()))
    inverse, onesided = bool(call.get("inverse", 0)), bool(call.get("onesided", 0))
    if inverse and onesided:
        raise call.refuse("makes real values of half a spectrum", "use the whole spectrum")
    order = [*(a for a in range(len(shape) - 1) if a != axis), axis]
    parts = [
        straight.add(
            "Transpose",
            straight.add("Gather", value, straight.constant(np.int64(n)), axis=-1),
            perm=order,
        )
        for n in range(shape[-1])
    ]
    known = min(size, shape[axis])
    parts = [_cut(straight, part, -1, 0, known) for part in parts]
    matrix = _matrix(call, known, size, inverse=inverse, onesided=onesided)
    made = _transform(straight, parts, matrix)
    back = list(np.argsort(order))
    stacked = [
        straight.add("Unsqueeze", straight.add("Transpose", part, perm=back), straight.integers(-1))
        for part in made
    ]
    return [straight.add("Concat", *stacked, axis=-1)]


def _matrix(call: Call, known: int, size: int, *, inverse: bool, onesided: bool) -> Array:
    if size > _MAX_TRANSFORM:
        raise call.refuse(
            f"transforms {size} values, above {_MAX_TRANSFORM}",
            "transform the data outside the model",
        )
    results = size // 2 + 1 if onesided else size
    angle = 2j * np.pi * np.outer(np.arange(known), np.arange(results)) / size
    matrix: Array = np.exp(angle) / size if inverse else np.exp(-angle)
    return matrix


def _transform(
    straight: Straight,
    parts: Sequence[str],
    matrix: Array,
) -> list[str]:
    """Real and imaginary part of values, given by one or both, times a matrix."""
    dtype = straight.dtype(parts[0])
    real, imaginary = (straight.constant(part, dtype) for part in (matrix.real, matrix.imag))
    made = [straight.add("MatMul", parts[0], each) for each in (real, imaginary)]
    if len(parts) == 1:
        return made
    other = [straight.add("MatMul", parts[1], each) for each in (imaginary, real)]
    return [straight.add("Sub", made[0], other[0]), straight.add("Add", made[1], other[1])]


def stft(straight: Straight, call: Call) -> Sequence[str]:
    """Fourier transforms of windows of a signal: [batch, frames, bins, 2]."""
    step = straight.value(call.inputs[1])
    window = call.input(2)
    length = straight.value(call.input(3)) if call.input(3) else None
    if step is None or (length is None and not window):
        raise call.refuse(
            "has a step or length that the inputs decide", "export it with constant sizes"
        )
    size = int(length.reshape(())) if length is not None else straight.shape(window)[0]
    shape, hop = straight.shape(call.inputs[0]), int(step.reshape(()))
    frames = 1 + (shape[1] - size) // hop
    places = np.arange(frames)[:, None] * hop + np.arange(size)
    index = straight.constant(places, np.int64)
    channels = shape[2] if len(shape) == 3 else 0
    signals = (
        [
            straight.add("Gather", call.inputs[0], straight.constant(np.int64(n)), axis=2)
            for n in range(channels)
        ]
        if channels
        else [call.inputs[0]]
    )
    parts = [straight.add("Gather", signal, index, axis=1) for signal in signals]
    if window:
        parts = [straight.add("Mul", part, window) for part in parts]
    matrix = _matrix(call, size, size, inverse=False, onesided=bool(call.get("onesided", 1)))
    made = [
        straight.add("Unsqueeze", part, straight.integers(-1))
        for part in _transform(straight, parts, matrix)
    ]
    return [straight.add("Concat", *made, axis=-1)]
