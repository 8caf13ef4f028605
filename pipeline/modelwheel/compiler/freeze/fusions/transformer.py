"""Softmax, GELU, normalisations and attention.

XLA adds up a row of floats in its order, one after the other. A product with a matrix of ones adds them up in
any order, in vectors: that is how the sums of rows are computed here. The largest element of a row is found in
vectors, too, by comparing its halves.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from ....model.fusions.registry import Argument, Attribute, Fusion

_FLOATS = ("float32", "float64")
_VECTOR = 8
"""Elements that are compared one by one in the end: fewer than in a vector are no faster."""


def _sum(x: Any) -> Any:
    """The sum of each row, as an axis of extent 1."""
    extent = tf.shape(x)[-1]
    column = tf.ones([extent, 1], x.dtype)
    rows = tf.reshape(x, [-1, extent]) @ column
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], [1]], 0))


def _largest(x: Any) -> Any:
    """The largest element of each row, as an axis of extent 1."""
    while (x.shape[-1] or 0) > _VECTOR:
        half = -(-x.shape[-1] // 2)
        x = tf.maximum(x[..., :half], x[..., -half:])  # of an odd number, both have the middle one
    return tf.reduce_max(x, -1, keepdims=True)


def _exponentials(x: Any) -> Any:
    return tf.exp(x - _largest(x))


def _softmax(x: Any) -> Any:
    weights = _exponentials(x)
    return weights / _sum(weights)


def _gelu(x: Any, *, approximate: bool) -> Any:
    half = 0.5 * x
    if approximate:
        scale = math.sqrt(2 / math.pi)
        return half * (1 + tf.tanh(x * (scale + scale * 0.044715 * x * x)))
    return half * (1 + tf.math.erf(x * math.sqrt(0.5)))


def _layer_norm(x: Any, gamma: Any, beta: Any, *, epsilon: float) -> Any:
    count = x.shape[-1]
    if count is None:
        raise ValueError("the extent of the last axis is not known")
    distance = x - _sum(x) / count
    variance = _sum(distance * distance) / count
    return distance * tf.math.rsqrt(variance + epsilon) * gamma + beta


def _rms_norm(x: Any, gamma: Any, *, epsilon: float) -> Any:
    count = x.shape[-1]
    if count is None:
        raise ValueError("the extent of the last axis is not known")
    return x * tf.math.rsqrt(_sum(x * x) / count + epsilon) * gamma


def _attention(query: Any, key: Any, value: Any, bias: Any = None, *, scale: float) -> Any:
    scores = _scores(query, key, scale)
    return _attended(scores if bias is None else scores + bias, value)


def _masked_attention(
    query: Any, key: Any, value: Any, mask: Any, *, scale: float, fill: float, hides: bool
) -> Any:
    scores = _scores(query, key, scale)
    other = tf.constant(fill, scores.dtype)
    scores = tf.where(mask, other, scores) if hides else tf.where(mask, scores, other)
    return _attended(scores, value)


def _scores(query: Any, key: Any, scale: float) -> Any:
    depth = query.shape[-1]
    if depth is None:
        raise ValueError("the extent of the last axis of query is not known")
    return tf.matmul(query * (scale or 1 / math.sqrt(depth)), key, transpose_b=True)


def _attended(scores: Any, value: Any) -> Any:
    weights = _exponentials(scores)
    # Divided after the product: there are fewer numbers then.
    return tf.matmul(weights, value) / _sum(weights)


SOFTMAX = Fusion("modelwheel.softmax", (Argument("x", _FLOATS, ("...", "n")),), _softmax)
GELU = Fusion(
    "modelwheel.gelu",
    (Argument("x", _FLOATS),),
    _gelu,
    {"approximate": Attribute(bool, default=False)},
)
LAYER_NORM = Fusion(
    "modelwheel.layer_norm",
    (
        Argument("x", _FLOATS, ("...", "n")),
        Argument("gamma", _FLOATS, ("n",)),
        Argument("beta", _FLOATS, ("n",)),
    ),
    _layer_norm,
    {"epsilon": Attribute(float, 1e-3)},
)
RMS_NORM = Fusion(
    "modelwheel.rms_norm",
    (Argument("x", _FLOATS, ("...", "n")), Argument("gamma", _FLOATS, ("n",))),
    _rms_norm,
    {"epsilon": Attribute(float, 1e-6)},
)
ATTENTION = Fusion(
    "modelwheel.attention",
    (
        Argument("query", _FLOATS, ("...", "queries", "depth")),
        Argument("key", _FLOATS, ("...", "keys", "depth")),
        Argument("value", _FLOATS, ("...", "keys", "width")),
        Argument("bias", _FLOATS, optional=True),
    ),
    _attention,
    {"scale": Attribute(float, 0.0)},
)
MASKED_ATTENTION = Fusion(
    "modelwheel.masked_attention",
    (
        *ATTENTION.arguments[:3],
        Argument("mask", ("bool",)),
    ),
    _masked_attention,
    {
        "scale": Attribute(float, 0.0),
        "fill": Attribute(float, -math.inf),
        "hides": Attribute(bool, default=False),
    },
)
