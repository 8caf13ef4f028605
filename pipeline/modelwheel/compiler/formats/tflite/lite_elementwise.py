"""Operators that compute each element of their result from elements of their operands, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .lite_node import OPERATORS, LiteNode, Value, activated, operator

_BINARY: dict[str, Callable[[Any, Any], Value]] = {
    "ADD": tf.add,
    "SUB": tf.subtract,
    "MUL": tf.multiply,
    "DIV": tf.divide,
    "FLOOR_DIV": tf.math.floordiv,
    "FLOOR_MOD": tf.math.floormod,
    "MINIMUM": tf.minimum,
    "MAXIMUM": tf.maximum,
    "POW": tf.pow,
    "SQUARED_DIFFERENCE": tf.math.squared_difference,
    "ATAN2": tf.math.atan2,
    "EQUAL": tf.equal,
    "NOT_EQUAL": tf.not_equal,
    "LESS": tf.less,
    "LESS_EQUAL": tf.less_equal,
    "GREATER": tf.greater,
    "GREATER_EQUAL": tf.greater_equal,
    "LOGICAL_AND": tf.logical_and,
    "LOGICAL_OR": tf.logical_or,
    "BITWISE_XOR": tf.bitwise.bitwise_xor,
    "RIGHT_SHIFT": tf.bitwise.right_shift,
}
_WITH_ACTIVATION = frozenset({"ADD", "SUB", "MUL", "DIV"})

_UNARY: dict[str, Callable[[Any], Value]] = {
    "ABS": tf.abs,
    "CEIL": tf.math.ceil,
    "COMPLEX_ABS": tf.abs,
    "COS": tf.cos,
    "ELU": tf.nn.elu,
    "EXP": tf.exp,
    "FLOOR": tf.floor,
    "HARD_SWISH": lambda x: x * tf.nn.relu6(x + 3.0) * (1.0 / 6.0),
    "IMAG": tf.math.imag,
    "LOG": tf.math.log,
    "LOGICAL_NOT": tf.logical_not,
    "LOGISTIC": tf.sigmoid,
    "LOG_SOFTMAX": tf.nn.log_softmax,
    "NEG": tf.negative,
    "REAL": tf.math.real,
    "RELU": tf.nn.relu,
    "RELU6": tf.nn.relu6,
    "RELU_0_TO_1": lambda x: tf.clip_by_value(x, 0.0, 1.0),
    "RELU_N1_TO_1": lambda x: tf.clip_by_value(x, -1.0, 1.0),
    "ROUND": tf.round,
    "RSQRT": tf.math.rsqrt,
    "SIGN": tf.sign,
    "SIN": tf.sin,
    "SQRT": tf.sqrt,
    "SQUARE": tf.square,
    "TANH": tf.tanh,
    "ZEROS_LIKE": tf.zeros_like,
}

_REDUCTIONS: dict[str, Callable[..., Value]] = {
    "MEAN": tf.reduce_mean,
    "SUM": tf.reduce_sum,
    "REDUCE_PROD": tf.reduce_prod,
    "REDUCE_MAX": tf.reduce_max,
    "REDUCE_MIN": tf.reduce_min,
    "REDUCE_ANY": tf.reduce_any,
    "REDUCE_ALL": tf.reduce_all,
}


def _binary(compute: Callable[[Any, Any], Value]) -> Callable[[LiteNode], Value]:
    return lambda node: compute(node[0], node[1])


def _with_activation(compute: Callable[[Any, Any], Value]) -> Callable[[LiteNode], Value]:
    return lambda node: activated(node, compute(node[0], node[1]))


def _unary(compute: Callable[[Any], Value]) -> Callable[[LiteNode], Value]:
    return lambda node: compute(node[0])


def _reduction(compute: Callable[..., Value]) -> Callable[[LiteNode], Value]:
    def convert(node: LiteNode) -> Value:
        axes = [int(axis) for axis in node.constant(1, "an axis").reshape(-1)]
        return compute(node[0], axis=axes, keepdims=bool(node.options.keepDims))

    return convert


for _name, _function in _BINARY.items():
    OPERATORS[_name] = (_with_activation if _name in _WITH_ACTIVATION else _binary)(_function)
OPERATORS.update({name: _unary(function) for name, function in _UNARY.items()})
OPERATORS.update({name: _reduction(function) for name, function in _REDUCTIONS.items()})


@operator("DEQUANTIZE")
def _dequantize(node: LiteNode) -> Value:
    """Of weights that are stored as float16; integers with a scale are real numbers already."""
    return tf.cast(node[0], tf.float32)


@operator("QUANTIZE")
def _quantize(node: LiteNode) -> Value:
    """Real numbers, which become the integers of the result."""
    return node[0]


@operator("DENSIFY")
def _densify(node: LiteNode) -> Value:
    """A constant that holds only the elements which are not 0 has all of them since it was read."""
    return node[0]


@operator("CAST")
def _cast(node: LiteNode) -> Value:
    return tf.cast(node[0], node.results[0].dtype)


@operator("BITCAST")
def _bitcast(node: LiteNode) -> Value:
    return tf.bitcast(node[0], node.results[0].dtype)


@operator("SELECT")
def _select(node: LiteNode) -> Value:
    # A vector of conditions selects whole rows.
    condition, rank = node[0], len(node[1].shape)
    if len(condition.shape) == 1 and rank > 1:
        condition = tf.reshape(condition, [-1] + [1] * (rank - 1))
    return tf.where(condition, node[1], node[2])


@operator("SELECT_V2")
def _select_v2(node: LiteNode) -> Value:
    return tf.where(node[0], node[1], node[2])


@operator("ADD_N")
def _add_n(node: LiteNode) -> Value:
    return tf.add_n([node[number] for number in range(len(node.inputs))])


@operator("LEAKY_RELU")
def _leaky_relu(node: LiteNode) -> Value:
    return tf.nn.leaky_relu(node[0], node.options.alpha)


@operator("PRELU")
def _prelu(node: LiteNode) -> Value:
    return tf.nn.relu(node[0]) + node[1] * tf.minimum(node[0], 0.0)


@operator("GELU")
def _gelu(node: LiteNode) -> Value:
    return tf.nn.gelu(node[0], approximate=bool(node.options.approximate))


@operator("SOFTMAX")
def _softmax(node: LiteNode) -> Value:
    beta = node.options.beta
    return tf.nn.softmax(node[0] if beta == 1 else node[0] * np.float32(beta))


@operator("ARG_MAX", "ARG_MIN")
def _arg(node: LiteNode) -> Value:
    find = tf.argmax if node.operator.op == "ARG_MAX" else tf.argmin
    axis = int(node.constant(1, "the axis").reshape(()))
    return find(node[0], axis, output_type=tf.dtypes.as_dtype(node.results[0].dtype))


@operator("CUMSUM")
def _cumsum(node: LiteNode) -> Value:
    axis = int(node.constant(1, "the axis").reshape(()))
    options = node.options
    return tf.cumsum(
        node[0], axis, exclusive=bool(options.exclusive), reverse=bool(options.reverse)
    )


@operator("L2_NORMALIZATION")
def _l2_normalization(node: LiteNode) -> Value:
    x = node[0]
    length = tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1, keepdims=True))
    return activated(node, x / tf.maximum(length, 1e-6))


@operator("TOPK_V2")
def _top_k(node: LiteNode) -> list[Value]:
    values, indices = tf.math.top_k(node[0], int(node.constant(1, "k").reshape(())))
    return [values, indices]
