"""Activations, normalisations and what else networks are made of."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....stablehlo.writer import Value
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import reducing as r
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import FLOAT32, DType, is_float
from .onnx_node import Node, Result, operator


def gelu(x: Value, *, approximate: bool) -> Value:
    """x times the normal distribution function, exact or by tanh."""
    if approximate:
        cube = x * x * x
        return x * 0.5 * (e.tanh((x + cube * 0.044715) * math.sqrt(2 / math.pi)) + 1)
    return x * 0.5 * (e.erf(x * math.sqrt(0.5)) + 1)


def elu(x: Value, alpha: float) -> Value:
    """x above 0, alpha * (exp(x) - 1) below."""
    return e.select(x > 0, x, e.expm1(e.minimum(x, 0)) * alpha)


def hard_sigmoid(x: Value, alpha: float, beta: float) -> Value:
    """alpha * x + beta, limited to 0 and 1."""
    return e.clamp(0, x * alpha + beta, 1)


def softplus(x: Value) -> Value:
    """log(1 + exp(x)) without overflow."""
    return e.maximum(x, 0) + e.log1p(e.exp(-e.abs_(x)))


def _shrink(node: Node, x: Value) -> Value:
    bias, edge = node.get("bias", 0.0), node.get("lambd", 0.5)
    wide = x if is_float(x.dtype) else e.convert(x, FLOAT32)
    result = e.select(wide < -edge, wide + bias, e.select(wide > edge, wide - bias, 0))
    return e.convert(result, x.dtype)


def elu_scaled(x: Value, alpha: float) -> Value:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return e.maximum(x, 0) + e.minimum(e.expm1(e.minimum(x, 0) / alpha) * alpha, 0)


_ACTIVATIONS: dict[str, Callable[[Node, Value], Value]] = {
    "Celu": lambda n, x: elu_scaled(x, n.get("alpha", 1.0)),
    "Elu": lambda n, x: elu(x, n.get("alpha", 1.0)),
    "Gelu": lambda n, x: gelu(x, approximate=n.get("approximate", "none") == "tanh"),
    "HardSigmoid": lambda n, x: hard_sigmoid(x, n.get("alpha", 0.2), n.get("beta", 0.5)),
    "HardSwish": lambda _, x: x * hard_sigmoid(x, 1 / 6, 0.5),
    "LeakyRelu": lambda n, x: e.select(x < 0, x * n.get("alpha", 0.01), x),
    "Mish": lambda _, x: x * e.tanh(softplus(x)),
    "Relu": lambda _, x: e.maximum(x, 0),
    "Selu": lambda n, x: (
        elu(x, n.get("alpha", 1.6732632423543772)) * n.get("gamma", 1.0507009873554805)
    ),
    "Shrink": _shrink,
    "Softplus": lambda _, x: softplus(x),
    "Softsign": lambda _, x: x / (e.abs_(x) + 1),
    "Swish": lambda n, x: x * e.logistic(x * n.get("alpha", 1.0)),
    "ThresholdedRelu": lambda n, x: e.select(x > n.get("alpha", 1.0), x, 0),
}


@operator(*_ACTIVATIONS)
def activation(node: Node) -> Result:
    """A function of each element with the node's parameters."""
    return _ACTIVATIONS[node.op](node, node.input(0))


@operator("PRelu")
def p_relu(node: Node) -> Result:
    """x above 0, slope * x below."""
    x, slope = node.input(0), node.input(1)
    if slope.rank == 1 and slope.size not in (
        1,
        x.shape[-1],
    ):  # before opset 7: one for each channel
        slope = _channels(slope, x.rank)
    return e.select(x < 0, x * slope, x)


@operator("Dropout")
def dropout(node: Node) -> Result:
    """The input: compiled models do not train."""
    x = node.input(0)
    mode = node.optional(2)
    if mode is not None and mode.known is None:
        raise node.refuse(
            "trains where an input says so",
            "export the model for inference, or fix that input with source.constants",
        )
    if mode is not None and bool(node.required(2, "its mode").reshape(())):
        ratio = 0.5 if node.optional(1) is None else float(node.required(1, "its ratio"))
        if ratio != 0:
            raise node.refuse("draws random numbers", "export the model for inference")
    return [x, s.full(node.builder, x.shape, True, np.bool_)]  # noqa: FBT003


@operator("BatchNormalization", "SpatialBN")
def batch_normalization(node: Node) -> Result:
    """Scaled and shifted by what training has collected for each channel."""
    x = node.input(0)
    scale, shift, mean, variance = (node.input(number) for number in range(1, 5))
    epsilon = node.get("epsilon", 1e-5)
    if not node.get("training_mode", 0):
        return [_normalize(x, scale, shift, mean, variance, epsilon)]
    axes = [axis for axis in range(x.rank) if axis != 1]
    own = r.mean(x, axes)
    difference = x - _channels(own, x.rank)
    spread = r.mean(difference * difference, axes)
    momentum = node.get("momentum", 0.9)
    return [
        _normalize(x, scale, shift, own, spread, epsilon),
        mean * momentum + own * (1 - momentum),
        variance * momentum + spread * (1 - momentum),
    ]


def _channels(x: Value, rank: int) -> Value:
    """A vector of channels as it broadcasts to [batch, channels, ...]."""
    return s.reshape(x, [1, x.size, *[1] * (rank - 2)]) if rank > 1 else x


def _normalize(
    x: Value, scale: Value, shift: Value, mean: Value, variance: Value, epsilon: float
) -> Value:
    """A multiplication and an addition, with what is known of them computed beforehand."""
    kind = scale.dtype
    factor = scale / e.sqrt(e.convert(variance, kind) + epsilon)
    moved = e.convert(shift, kind) - e.convert(mean, kind) * factor
    result = e.convert(x, kind) * _channels(factor, x.rank) + _channels(moved, x.rank)
    return e.convert(result, x.dtype)


@operator("InstanceNormalization")
def instance_normalization(node: Node) -> Result:
    """Each channel of each image with a mean of 0 and a variance of 1, scaled and shifted."""
    x = node.input(0)
    parts = _groups(x)
    normal = standardize(parts, list(range(2, parts.rank)), node.get("epsilon", 1e-5))
    scale, shift = (_channels(node.input(number), parts.rank) for number in (1, 2))
    result = normal * scale + shift
    if parts is x or x.origin is None:
        return result
    return s.reshape(s.reshape(result, x.origin.shape), x.shape)


def _groups(x: Value) -> Value:
    """Groups of channels that PyTorch puts into one channel each, [images, groups, -1], with their own axes: in memory they stay."""
    origin = x.origin
    if origin is None or origin.rank < 3 or origin.shape[0] != x.shape[0]:
        return x
    groups, channels = x.shape[1], origin.shape[1]
    if channels % groups:
        return x
    return s.reshape(origin, [x.shape[0], groups, channels // groups, *origin.shape[2:]])


def standardize(x: Value, axes: list[int], epsilon: float) -> Value:
    """With a mean of 0 and a variance of 1 along these axes."""
    centred = x - r.mean(x, axes, keep=True)
    return centred * e.rsqrt(r.mean(centred * centred, axes, keep=True) + epsilon)


@operator("LayerNormalization")
def layer_normalization(node: Node) -> Result:
    """A mean of 0 and a variance of 1 over the last axes, scaled and shifted."""
    x = node.input(0)
    kind = _stash(node, x.dtype)
    axes = list(range(node.get("axis", -1) % x.rank, x.rank))
    wide = e.convert(x, kind)
    mean = r.mean(wide, axes, keep=True)
    centred = wide - mean
    inverse = e.rsqrt(r.mean(centred * centred, axes, keep=True) + node.get("epsilon", 1e-5))
    result = e.convert(centred * inverse, x.dtype) * node.input(1)
    shift = node.optional(2)
    return [result if shift is None else result + shift, mean, inverse]


def _stash(node: Node, dtype: DType) -> DType:
    """The type in which a normalisation computes."""
    from onnx import helper

    stash = np.dtype(helper.tensor_dtype_to_np_dtype(node.get("stash_type", 1)))
    return dtype if dtype.itemsize > stash.itemsize else stash


@operator("RMSNormalization")
def rms_normalization(node: Node) -> Result:
    """Divided by the root of the mean square over the last axes, and scaled."""
    x = node.input(0)
    axes = list(range(node.get("axis", -1) % x.rank, x.rank))
    wide = e.convert(x, _stash(node, x.dtype))
    inverse = e.rsqrt(r.mean(wide * wide, axes, keep=True) + node.get("epsilon", 1e-5))
    return e.convert(wide * inverse, x.dtype) * node.input(1)


@operator("GroupNormalization")
def group_normalization(node: Node) -> Result:
    """Groups of channels with a mean of 0 and a variance of 1, scaled and shifted."""
    x, scale, shift = node.input(0), node.input(1), node.input(2)
    groups, channels = node.get("num_groups", 1), x.shape[1]
    kind = _stash(node, x.dtype)
    parts = s.reshape(e.convert(x, kind), [x.shape[0], groups, channels // groups, *x.shape[2:]])
    normal = standardize(parts, list(range(2, parts.rank)), node.get("epsilon", 1e-5))
    if scale.size != channels:  # before opset 21 there was one for each group
        scale, shift = (_repeat(v, channels // groups) for v in (scale, shift))
    result = e.convert(s.reshape(normal, x.shape), x.dtype)
    return result * _channels(scale, x.rank) + _channels(shift, x.rank)


def _repeat(x: Value, count: int) -> Value:
    return s.flatten(s.broadcast_to(s.reshape(x, [x.size, 1]), [x.size, count]))


@operator("LpNormalization")
def lp_normalization(node: Node) -> Result:
    """Divided by the norm along an axis; where that is 0, so is the result."""
    x, axis = node.input(0), node.get("axis", -1)
    if node.get("p", 2) == 1:
        norm = r.reduce(e.abs_(x), [axis], "add", keep=True)
    else:
        norm = e.sqrt(r.reduce(x * x, [axis], "add", keep=True))
    return e.select(e.equal(norm, 0), 0, x / e.select(e.equal(norm, 0), 1, norm))


@operator("LRN")
def lrn(node: Node) -> Result:
    """Divided by a power of the mean square of the channels nearby."""
    x, count = node.input(0), node.get("size", 1)
    low = (count - 1) // 2
    window = [count if axis == 1 else 1 for axis in range(x.rank)]
    pads = [(low, count - 1 - low) if axis == 1 else (0, 0) for axis in range(x.rank)]
    squares = r.reduce_window(x * x, "add", window, pads=pads)
    base = squares * (node.get("alpha", 1e-4) / count) + node.get("bias", 1.0)
    return x / e.power(base, node.get("beta", 0.75))


@operator("MeanVarianceNormalization")
def mean_variance_normalization(node: Node) -> Result:
    """With a mean of 0 and a variance of 1 along axes."""
    x = node.input(0)
    axes = list(node.get("axes", [0, 2, 3]))
    centred = x - r.mean(x, axes, keep=True)
    return centred / (e.sqrt(r.mean(centred * centred, axes, keep=True)) + 1e-9)
