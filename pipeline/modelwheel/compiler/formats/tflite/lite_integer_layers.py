"""Layers of 8-bit integers: what is computed from the integers themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from tensorflow.python.eager import context

from ...stablehlo.writer import Value as Written
from ...stablehlo.writer import contractions as p
from ...stablehlo.writer import gathering as g
from ...stablehlo.writer import pointwise as e
from ...stablehlo.writer import reducing as r
from ...stablehlo.writer import reshaping as s
from ...stablehlo.writer.integer_products import (
    Whole,
    integer_product,
    kept,
    whole_convolution,
)
from ...stablehlo.writer.mlir_types import FLOAT32, INT32
from .lite_layers import padding_of
from .lite_modules import (
    IntegerModule,
    ends,
    is_scaled,
    limits_of,
    requantized,
    rescaled,
    scaling_of,
    written,
)
from .lite_node import OPERATORS, Limits, LiteNode
from .tflite_file import LiteTensor

_CURVES = frozenset({"ELU", "EXP", "GELU", "LOG", "LOGISTIC", "RSQRT", "TANH"})
"""Functions of one element, which is one of 256."""

# --- sums of products -----------------------------------------------------------------------------


def _scales(node: LiteNode) -> Any:
    """Factors of sums of products in float32: one for each feature, or one for all."""
    data, weights, result = (
        scaling_of(t).scales for t in (node.operands[0], node.operands[1], node.results[0])
    )
    return (data * weights / result).astype(np.float32)


def _bias(module: IntegerModule, node: LiteNode) -> Written | None:
    return module.value(node[2]) if node.has(2) else None


def _finished(module: IntegerModule, node: LiteNode, sums: Written) -> Written:
    """Sums of products with the features last after the scales and the activation."""
    scales = _scales(node)
    factors = module.constant(scales if scales.size > 1 else scales.reshape(()))
    if scales.size > 1:
        factors = s.reshape(factors, [*[1] * (sums.rank - 1), scales.size])
    return requantized(e.convert(sums, FLOAT32) * factors, node.results[0], limits_of(node))


@written("CONV_2D", "DEPTHWISE_CONV_2D")
def _convolution(module: IntegerModule, node: LiteNode) -> Written:
    options, depthwise = node.options, node.operator.op != "CONV_2D"
    images, weights = module.value(node[0]), module.value(node[1])
    # [features, height, width, channels], or [1, height, width, features].
    order = [3, 0, 1, 2] if depthwise else [0, 3, 1, 2]
    kernel = module.whole(node, 1, weights)
    filters = s.transpose(weights, order)
    zero = kernel.zero
    if zero is not None and zero.rank:
        zero = s.transpose(zero, order)
    features_first = s.move_axis(images, -1, 1)
    groups = images.shape[-1] // filters.shape[1]
    window = p.Window(
        (options.strideH, options.strideW),
        p.paddings(
            padding_of(node),
            features_first.shape[2:],
            filters.shape[2:],
            (options.strideH, options.strideW),
            (options.dilationHFactor, options.dilationWFactor),
        ),
        (options.dilationHFactor, options.dilationWFactor),
    )
    first, second = module.whole(node, 0, features_first), Whole(filters, zero)
    sums = whole_convolution(first, second, window, groups, _bias(module, node))
    return _finished(module, node, s.move_axis(sums, 1, -1))


@written("FULLY_CONNECTED")
def _fully_connected(module: IntegerModule, node: LiteNode) -> Written:
    if node.options.weightsFormat:
        raise node.refuse("has weights in an order of one kind of machine")
    x, weights = module.value(node[0]), module.value(node[1])
    depth = weights.shape[1]
    rows = s.reshape(x, [x.size // depth, depth])
    factors = module.whole(node, 0, rows), module.whole(node, 1, weights).transposed()
    result = _finished(module, node, integer_product(*factors, _bias(module, node)))
    if node.options.keepNumDims:
        return s.reshape(result, [*x.shape[:-1], weights.shape[0]])
    return result


# --- elements -------------------------------------------------------------------------------------


@written("ADD", "SUB")
def _sum(module: IntegerModule, node: LiteNode) -> Written:
    scale = scaling_of(node.results[0]).scales
    first, second = (
        module.whole(node, n).as_floats()
        * module.constant((scaling_of(node.operands[n]).scales / scale).reshape(()))
        for n in range(2)
    )
    total = first + second if node.operator.op == "ADD" else first - second
    return requantized(total, node.results[0], limits_of(node))


@written("MUL")
def _product(module: IntegerModule, node: LiteNode) -> Written:
    product = module.whole(node, 0).as_floats() * module.whole(node, 1).as_floats()
    factor = module.constant(_scales(node).reshape(()))
    return requantized(product * factor, node.results[0], limits_of(node))


_LIMITS: Mapping[str, Limits] = {
    "RELU": (0, None),
    "RELU6": (0, 6),
    "RELU_0_TO_1": (0, 1),
    "RELU_N1_TO_1": (-1, 1),
}


@written(*_LIMITS)
def _limited(module: IntegerModule, node: LiteNode) -> Written:
    source, result = node.operands[0], node.results[0]
    assert source is not None
    return rescaled(module, module.value(node[0]), source, result, _LIMITS[node.operator.op])


def _real(module: IntegerModule, node: LiteNode) -> Written:
    """The real numbers of the first operand."""
    scale = scaling_of(node.operands[0]).scales.reshape(())
    return module.whole(node, 0).as_floats() * module.constant(scale)


def _rounded(module: IntegerModule, numbers: Written, result: LiteTensor) -> Written:
    """Real numbers as the integers of a result."""
    return requantized(numbers * module.constant(1 / scaling_of(result).scales[0]), result)


@written("QUANTIZE")
def _quantized(module: IntegerModule, node: LiteNode) -> Written:
    source, result, x = node.operands[0], node.results[0], module.value(node[0])
    if source is not None and is_scaled(source):
        return rescaled(module, x, source, result)
    return _rounded(module, x, result)


@written("DEQUANTIZE")
def _dequantized(module: IntegerModule, node: LiteNode) -> Written:
    return _real(module, node)


@written("HARD_SWISH")
def _hard_swish(module: IntegerModule, node: LiteNode) -> Written:
    x = _real(module, node)
    return _rounded(module, x * e.clamp(0, x + 3, 6) * (1 / 6), node.results[0])


@written("LEAKY_RELU")
def _leaky_relu(module: IntegerModule, node: LiteNode) -> Written:
    x = _real(module, node)
    return _rounded(module, e.select(x > 0, x, x * node.options.alpha), node.results[0])


@written(*_CURVES)
def _looked_up(module: IntegerModule, node: LiteNode) -> Written:
    """Of a table that has the result for each of the 256 integers."""
    source, result = node.operands[0], node.results[0]
    assert source is not None
    lowest = np.iinfo(source.dtype).min
    scaling = scaling_of(source)
    reals = (np.arange(256) + lowest - scaling.zeros[0]) * scaling.scales[0]
    with context.eager_mode():
        values = OPERATORS[node.operator.op](replace(node, inputs=[reals.astype(np.float32)]))
    table = _rounded(module, module.constant(np.asarray(values)), result)
    places = e.convert(module.value(node[0]), INT32) - lowest
    return kept(g.take(table, places, 0))


# --- poolings and means ---------------------------------------------------------------------------


def _window(node: LiteNode, x: Written) -> p.Window:
    options = node.options
    strides = options.strideH, options.strideW
    filters = options.filterHeight, options.filterWidth
    pads = p.paddings(padding_of(node), x.shape[1:3], filters, strides, (1, 1))
    return p.Window(strides, pads, (1, 1))


def _pooled(node: LiteNode, x: Written, kind: r.Kind) -> Written:
    window = _window(node, x)
    filters = [1, node.options.filterHeight, node.options.filterWidth, 1]
    pads = [(0, 0), *window.pads, (0, 0)]
    return r.reduce_window(x, kind, filters, [1, *window.strides, 1], pads)


@written("MAX_POOL_2D")
def _largest(module: IntegerModule, node: LiteNode) -> Written:
    result = node.results[0]
    largest = _pooled(node, module.value(node[0]), "maximum")
    if limits_of(node) == (None, None):
        return largest
    low, high = (module.constant(end, largest.dtype) for end in ends(result, limits_of(node)))
    return kept(e.minimum(e.maximum(largest, low), high))


@written("AVERAGE_POOL_2D")
def _average(module: IntegerModule, node: LiteNode) -> Written:
    """TensorFlow Lite divides the sums of integers, and rounds ties away from zero."""
    x, result = module.value(node[0]), node.results[0]
    total = _pooled(node, e.convert(x, FLOAT32), "add")
    numbers = module.constant(_numbers(node, x, total.shape))
    mean = total / s.broadcast_to(numbers, total.shape)
    low, high = ends(result, limits_of(node))
    rounded = e.clamp(float(low), e.round_away(mean), float(high))
    return kept(e.convert(rounded, np.dtype(result.dtype)))


def _numbers(node: LiteNode, x: Written, shape: Sequence[int]) -> Any:
    """How many pixels each window has, [1, height, width, 1]."""
    window = _window(node, x)
    filters = node.options.filterHeight, node.options.filterWidth
    counts = []
    for axis in range(2):
        first = np.arange(shape[1 + axis]) * window.strides[axis] - window.pads[axis][0]
        last = np.minimum(first + filters[axis], x.shape[1 + axis])
        counts.append(last - np.maximum(first, 0))
    return np.outer(*counts)[None, :, :, None].astype(np.float32)


@written("MEAN", "SUM")
def _mean(module: IntegerModule, node: LiteNode) -> Written:
    axes = [int(axis) for axis in node.constant(1, "an axis").reshape(-1)]
    x = module.whole(node, 0).as_floats()
    axes = sorted({axis % x.rank for axis in axes})
    total = r.reduce(x, axes, "add", keep=bool(node.options.keepDims))
    number = prod(x.shape[axis] for axis in axes) if node.operator.op == "MEAN" else 1
    factor = scaling_of(node.operands[0]).scales / scaling_of(node.results[0]).scales / number
    return requantized(total * module.constant(factor.reshape(())), node.results[0])
