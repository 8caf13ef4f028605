"""Layers: convolutions, products, poolings, sizes of images, spectra."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from .lite_node import LiteNode, Value, activated, operator

_PADDINGS = {0: "SAME", 1: "VALID"}
"""By the numbers of Padding in the schema."""


def padding_of(node: LiteNode) -> str:
    """How images of an operator are padded: `SAME` or `VALID`."""
    return _PADDINGS[node.options.padding]


def _moved(weights: Value, order: list[int]) -> Value:
    """Weights with their axes in the order of TensorFlow: at once if they are known."""
    return (
        np.transpose(weights, order)
        if isinstance(weights, np.ndarray)
        else tf.transpose(weights, order)
    )


def _reshaped(weights: Value, shape: list[int]) -> Value:
    return weights.reshape(shape) if isinstance(weights, np.ndarray) else tf.reshape(weights, shape)


def _finished(node: LiteNode, value: Value, bias: int) -> Value:
    """After the bias, the input of this number, and the activation."""
    return activated(node, value + node[bias] if node.has(bias) else value)


@operator("CONV_2D")
def _convolution(node: LiteNode) -> Value:
    o = node.options
    value = tf.nn.conv2d(
        node[0],
        _moved(node[1], [1, 2, 3, 0]),
        [1, o.strideH, o.strideW, 1],
        padding_of(node),
        dilations=[1, o.dilationHFactor, o.dilationWFactor, 1],
    )
    return _finished(node, value, 2)


@operator("DEPTHWISE_CONV_2D")
def _depthwise(node: LiteNode) -> Value:
    o, weights, features = node.options, node[1], node[0].shape[-1]
    _, height, width, columns = (int(extent) for extent in weights.shape)
    weights = _reshaped(weights, [height, width, features, columns // features])
    dilations = [o.dilationHFactor, o.dilationWFactor]
    strides = [1, o.strideH, o.strideW, 1]
    if o.strideH == o.strideW:
        value = tf.nn.depthwise_conv2d(
            node[0], weights, strides, padding_of(node), dilations=dilations
        )
    else:  # as a convolution of as many groups as there are features
        weights = _reshaped(weights, [height, width, 1, columns])
        value = tf.nn.conv2d(
            node[0], weights, strides, padding_of(node), dilations=[1, *dilations, 1]
        )
    return _finished(node, value, 2)


@operator("TRANSPOSE_CONV")
def _transposed(node: LiteNode) -> Value:
    o = node.options
    value = tf.nn.conv2d_transpose(
        node[2],
        _moved(node[1], [1, 2, 0, 3]),
        node[0],
        [1, o.strideH, o.strideW, 1],
        padding_of(node),
    )
    return _finished(node, value, 3)


@operator("CONV_3D")
def _convolution_3d(node: LiteNode) -> Value:
    o = node.options
    value = tf.nn.conv3d(
        node[0],
        node[1],
        [1, o.strideD, o.strideH, o.strideW, 1],
        padding_of(node),
        dilations=[1, o.dilationDFactor, o.dilationHFactor, o.dilationWFactor, 1],
    )
    return _finished(node, value, 2)


@operator("FULLY_CONNECTED")
def _fully_connected(node: LiteNode) -> Value:
    o, x, weights = node.options, node[0], node[1]
    if o.weightsFormat:
        raise node.refuse("has weights in an order of one kind of machine")
    depth = int(weights.shape[1])
    if not o.keepNumDims and len(x.shape) != 2:
        x = tf.reshape(x, [-1, depth])
    rows = x.shape
    if len(rows) > 2:
        # A product of all rows; the free extent, if there is one, is found again.
        free = [-1 if extent is None else int(extent) for extent in rows[:-1]]
        flat = tf.matmul(tf.reshape(x, [-1, depth]), _moved(weights, [1, 0]))
        return tf.reshape(_finished(node, flat, 2), [*free, int(weights.shape[0])])
    return _finished(node, tf.matmul(x, _moved(weights, [1, 0])), 2)


@operator("BATCH_MATMUL")
def _batch_matmul(node: LiteNode) -> Value:
    o = node.options
    return tf.matmul(node[0], node[1], adjoint_a=bool(o.adjX), adjoint_b=bool(o.adjY))


def _pooled(node: LiteNode, pool: Callable[..., Value], x: Value) -> Value:
    o = node.options
    window, strides = [o.filterHeight, o.filterWidth], [o.strideH, o.strideW]
    return pool(x, window, strides, padding_of(node))


@operator("AVERAGE_POOL_2D", "MAX_POOL_2D")
def _pooling(node: LiteNode) -> Value:
    pool = tf.nn.max_pool2d if node.operator.op == "MAX_POOL_2D" else tf.nn.avg_pool2d
    return activated(node, _pooled(node, pool, node[0]))


@operator("L2_POOL_2D")
def _l2_pooling(node: LiteNode) -> Value:
    return activated(node, tf.sqrt(_pooled(node, tf.nn.avg_pool2d, tf.square(node[0]))))


@operator("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(node: LiteNode) -> Value:
    raw = tf.raw_ops
    resize = raw.ResizeBilinear if node.operator.op == "RESIZE_BILINEAR" else raw.ResizeNearestNeighbor  # fmt: skip
    return resize(
        images=node[0],
        size=node.constant(1, "the size"),
        align_corners=bool(node.options.alignCorners),
        half_pixel_centers=bool(node.options.halfPixelCenters),
    )


@operator("LOCAL_RESPONSE_NORMALIZATION")
def _local_response(node: LiteNode) -> Value:
    o = node.options
    return tf.nn.local_response_normalization(node[0], o.radius, o.bias, o.alpha, o.beta)


@operator("RFFT2D")
def _rfft(node: LiteNode) -> Value:
    rows, length = (int(n) for n in node.constant(1, "the length").reshape(-1))
    if rows == 1:  # as converters write transforms along one axis
        return tf.signal.rfft(node[0][..., :1, :], [length])
    return tf.signal.rfft2d(node[0], [rows, length])
