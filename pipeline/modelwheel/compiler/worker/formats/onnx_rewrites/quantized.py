"""Quantised operations as arithmetic on floating-point numbers and integers.

torch-mlir makes quantised types of them, which TensorFlow does not compile. Sums of products are exact:
integers are multiplied as float64 where no integer operation exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import TensorProto

from .straight import Call, Straight

_LIMITS: Mapping[int, tuple[int, int]] = {
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT4: (0, 15),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT8: (0, 255),
    TensorProto.INT16: (-(2**15), 2**15 - 1),
    TensorProto.UINT16: (0, 2**16 - 1),
}


def dequantize_linear(straight: Straight, call: Call) -> Sequence[str]:
    """(x - zero_point) * scale, for a tensor, an axis or blocks of an axis."""
    return [_dequantize(straight, call, call.inputs[0], call.inputs[1], call.input(2))]


def quantize_linear(straight: Straight, call: Call) -> Sequence[str]:
    """x / scale, rounded to even, plus zero_point, within the limits of the type."""
    wanted = call.get("output_dtype", 0)
    if call.input(2):
        wanted = straight.element(call.input(2))
    return [_quantize(straight, call, call.inputs[0], call.inputs[1], call.input(2), wanted)]


def q_linear_conv(straight: Straight, call: Call) -> Sequence[str]:
    """A convolution of integers, scaled."""
    x, w = (_centred(straight, call, call.inputs[n], call.input(n + 2), n == 3) for n in (0, 3))
    return _q_linear(
        straight, call, straight.add("Conv", x, w, **call.attributes), call.input(8), 1
    )


def q_linear_mat_mul(straight: Straight, call: Call) -> Sequence[str]:
    """A product of matrices of integers, scaled."""
    a, b = (_centred(straight, call, call.inputs[n], call.input(n + 2), False) for n in (0, 3))  # noqa: FBT003
    return _q_linear(straight, call, straight.add("MatMul", a, b), "", -1)


def conv_integer(straight: Straight, call: Call) -> Sequence[str]:
    """A convolution of integers."""
    x, w = (_centred(straight, call, call.inputs[n], call.input(n + 2), n == 1) for n in (0, 1))
    result = straight.add("Conv", x, w, **call.attributes)
    return [straight.add("Cast", result, to=TensorProto.INT32)]


def mat_mul_integer(straight: Straight, call: Call) -> Sequence[str]:
    """A product of matrices of integers."""
    a, b = (_centred(straight, call, call.inputs[n], call.input(n + 2), False) for n in (0, 1))  # noqa: FBT003
    result = straight.add("MatMul", a, b)
    return [straight.add("Cast", result, to=TensorProto.INT32)]


def _centred(straight: Straight, call: Call, value: str, zero: str, of_rows: bool) -> str:
    """Integers minus their zero point, as float64, in which their products are exact."""
    del call
    wide = straight.add("Cast", value, to=TensorProto.DOUBLE)
    if not zero:
        return wide
    point = straight.add("Cast", zero, to=TensorProto.DOUBLE)
    if of_rows and len(straight.shape(zero)) == 1 and straight.shape(zero)[0] > 1:
        rank = len(straight.shape(value))
        point = straight.add("Reshape", point, straight.integers(-1, *[1] * (rank - 1)))
    return straight.add("Sub", wide, point)


def _q_linear(straight: Straight, call: Call, sums: str, bias: str, axis: int) -> list[str]:
    """Adds the bias and scales sums of products to the type of the output."""
    rank = len(straight.shape(sums))

    def wide(name: str) -> str:
        value = straight.add("Cast", name, to=TensorProto.DOUBLE)
        if axis == 1 and len(straight.shape(name)) == 1:
            value = straight.add("Reshape", value, straight.integers(1, -1, *[1] * (rank - 2)))
        return value

    if bias:
        sums = straight.add("Add", sums, wide(bias))
    factor = straight.add("Mul", wide(call.inputs[1]), wide(call.inputs[4]))
    real = straight.add("Mul", sums, factor)
    scale, zero = call.inputs[6], call.inputs[7]
    result = straight.add("Cast", real, to=TensorProto.FLOAT)
    return [_quantize(straight, call, result, scale, zero, straight.element(zero))]


def _dequantize(straight: Straight, call: Call, value: str, scale: str, zero: str) -> str:
    shape = straight.shape(value)
    element = straight.element(scale)
    real = straight.add("Cast", value, to=element)
    if zero:
        point = straight.add("Cast", zero, to=element)
        real = straight.add("Sub", real, _spread(straight, call, point, shape))
    return straight.add("Mul", real, _spread(straight, call, scale, shape))


def _quantize(
    straight: Straight, call: Call, value: str, scale: str, zero: str, wanted: int
) -> str:
    wanted = wanted or TensorProto.UINT8
    if wanted not in _LIMITS:
        kind = TensorProto.DataType.Name(wanted)
        raise call.refuse(f"quantises to {kind}", "quantise to int8 or uint8")
    shape, dtype = straight.shape(value), straight.dtype(value)
    spread = _spread(straight, call, straight.add("Cast", scale, to=straight.element(value)), shape)
    rounded = straight.add("Round", straight.add("Div", value, spread))
    if zero:
        point = straight.add("Cast", zero, to=straight.element(value))
        rounded = straight.add("Add", rounded, _spread(straight, call, point, shape))
    limits = (straight.constant(limit, dtype) for limit in _LIMITS[wanted])
    return straight.add("Cast", straight.add("Clip", rounded, *limits), to=wanted)


def _spread(straight: Straight, call: Call, value: str, shape: Sequence[int]) -> str:
    """Scales or zero points in a shape that broadcasts."""
    own = straight.shape(value)
    if not own or own == (1,):
        return straight.add("Reshape", value, straight.integers())
    axis = call.get("axis", 1) % max(len(shape), 1)
    block = call.get("block_size", 0)
    if block:
        column = straight.add("Unsqueeze", value, straight.integers(axis + 1))
        wide = straight.integers(*own[: axis + 1], block, *own[axis + 1 :])
        joined: list[Any] = [*own[:axis], own[axis] * block, *own[axis + 1 :]]
        blocks = straight.add(
            "Reshape", straight.add("Expand", column, wide), straight.integers(*joined)
        )
        ends, axes = straight.integers(shape[axis]), straight.integers(axis)
        return straight.add("Slice", blocks, straight.integers(0), ends, axes)
    if len(own) != 1:
        return value
    target = [-1 if n == axis else 1 for n in range(len(shape))]
    return straight.add("Reshape", value, straight.integers(*target))
