"""Operators on 8-bit integers with a scale, each of which stands for the real number (integer - zero point) * scale.

What a sum of products is, or an addition, is computed of the integers themselves: as a module of StableHLO, whose products the runtime
computes with instructions for bytes (docs/design/integer-products.md). Operators that only move elements, or compare them, do so with
the integers. All others compute with the real numbers and round their results, to even if two integers are as near. So do the kernels of XNNPACK, which
LiteRT takes by default; its others round in fixed point, to a neighbour beside a tie.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import tensorflow as tf

from ...stablehlo.writer import Value as Written
from . import lite_integer_layers, lite_integer_moves
from .lite_control import CALLS
from .lite_modules import BYTES, WRITTEN, IntegerModule, along, is_alike, is_scaled, scaling_of
from .lite_node import LiteNode, Value, converted
from .tflite_file import LiteTensor

_MODULES = (lite_integer_layers, lite_integer_moves)
"""They fill the table of what is written."""

_MOVES = frozenset(
    {
        *("BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DENSIFY", "DEPTH_TO_SPACE"),
        *("DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP"),
        *("EXPAND_DIMS", "GATHER", "GATHER_ND", "MIRROR_PAD", "PACK", "PAD", "PADV2"),
        *("RESHAPE", "REVERSE_SEQUENCE", "REVERSE_V2", "SELECT", "SELECT_V2", "SLICE"),
        *("SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE"),
        *("SET_ITEM", "TILE", "TRANSPOSE", "UNPACK"),
    }
)
"""Operators whose results have elements of their operands."""
_ORDERED = frozenset(
    {
        *("ARG_MAX", "ARG_MIN", "EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
        *("MAXIMUM", "MINIMUM", "NOT_EQUAL", "REDUCE_MAX", "REDUCE_MIN"),
        *("RESIZE_NEAREST_NEIGHBOR", "TOPK_V2"),
    }
)
"""Operators that find the same elements if all of them are scaled."""
_CALLS = CALLS | {"ASSIGN_VARIABLE", "READ_VARIABLE"}
SIZES = frozenset({"RANK", "SHAPE"})
"""Operators that do not read the elements of their operand."""
_FLOATS_ONLY = frozenset({"UNIDIRECTIONAL_SEQUENCE_LSTM"})


def has_integers(node: LiteNode) -> bool:
    """Whether operands or results are integers with a scale."""
    tensors = [*node.operands, *node.results]
    return node.operator.op not in _CALLS | SIZES and any(map(is_scaled, tensors))


def write(node: LiteNode, module: IntegerModule) -> list[Written] | None:
    """The results of an operator, written to a module.

    Returns:
        None if it is computed by TensorFlow: see `compute`.

    Raises:
        UnsupportedModelError: It cannot be computed with these integers.
    """
    op = node.operator.op
    between = op in ("DEQUANTIZE", "QUANTIZE")  # of integers and floats
    fits = op in WRITTEN and (between or all(map(is_scaled, (_data(node), *node.results))))
    shapes = [tf.TensorShape(value.shape) for value in node.inputs if value is not None]
    if not fits or not all(shape.is_fully_defined() for shape in shapes):
        return None
    results = WRITTEN[op](module, node)
    return results if isinstance(results, list) or results is None else [results]


def _data(node: LiteNode) -> LiteTensor | None:
    """The first operand that is not an axis."""
    return next((t for t in node.operands if t is not None and t.dtype in BYTES), None)


def compute(node: LiteNode) -> list[Value]:
    """The results of an operator with operands or results that are integers with a scale, by TensorFlow.

    Raises:
        UnsupportedModelError: It is not computed with integers.
    """
    op = node.operator.op
    if op in _FLOATS_ONLY:
        raise node.refuse("computes with integers of 8 bits")
    if op in _MOVES:
        return _moved(node)
    if op in _ORDERED and _alike(node):
        return _ordered(node)
    return _of_real_numbers(node)


# --- all others -----------------------------------------------------------------------------------


def _alike(node: LiteNode) -> bool:
    """Whether all operands and results that are scaled have one scale and zero point."""
    scaled = [tensor for tensor in (*node.operands, *node.results) if is_scaled(tensor)]
    return all(is_alike(tensor, scaled[0]) for tensor in scaled)


def _moved(node: LiteNode) -> list[Value]:
    """Of operands with the scale of the first result, if it has one."""
    result = node.results[0]
    if not is_scaled(result):
        return converted(node)
    if not all(is_alike(other, result) for other in node.results):
        raise node.refuse("has results with several scales")
    inputs: list[Value | None] = []
    for value, tensor in zip(node.inputs, node.operands, strict=True):
        if value is not None and is_scaled(tensor) and not is_alike(tensor, result):
            assert tensor is not None
            inputs.append(_scaled(_real(value, tensor), result))
        else:
            inputs.append(value)
    return converted(replace(node, inputs=inputs))


def _ordered(node: LiteNode) -> list[Value]:
    """As floating-point numbers, which TensorFlow compares everywhere."""
    inputs = [
        tf.cast(value, tf.float32) if is_scaled(tensor) else value
        for value, tensor in zip(node.inputs, node.operands, strict=True)
    ]
    return [
        tf.cast(value, tensor.dtype) if is_scaled(tensor) else value
        for value, tensor in zip(converted(replace(node, inputs=inputs)), node.results, strict=True)
    ]


def _of_real_numbers(node: LiteNode) -> list[Value]:
    """The results for the real numbers, rounded."""
    inputs = [
        value if value is None or tensor is None else _real(value, tensor)
        for value, tensor in zip(node.inputs, node.operands, strict=True)
    ]
    results = []
    for value, tensor in zip(converted(replace(node, inputs=inputs)), node.results, strict=True):
        if is_scaled(tensor):
            results.append(_scaled(value, tensor))
        else:
            results.append(value)
    return results


def _real(value: Value, tensor: LiteTensor) -> Value:
    """The real numbers that integers stand for, in float32."""
    scaling = tensor.scaling
    if scaling is None or not np.issubdtype(np.dtype(tensor.dtype), np.integer):
        return value
    zeros, scales = (along(scaling, values, value) for values in (scaling.zeros, scaling.scales))
    if isinstance(value, np.ndarray):
        return ((value.astype(np.int64) - zeros) * scales).astype(np.float32)
    return (tf.cast(value, tf.float32) - np.float32(zeros)) * scales


def _scaled(value: Value, tensor: LiteTensor) -> Value:
    """Real numbers as the integers of a tensor."""
    scaling, kind = scaling_of(tensor), np.iinfo(tensor.dtype)
    whole = tf.round(value * (np.float32(1) / scaling.scales[0])) + np.float32(scaling.zeros[0])
    return tf.cast(tf.clip_by_value(whole, kind.min, kind.max), tensor.dtype)
