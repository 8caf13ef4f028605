"""Batch normalisation as plain arithmetic: its operations have kernels for float32 and narrower types only."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from .missing import NoTruthError

BATCH_NORMS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})

_RESULTS = {"Const": "output", "Reshape": "output", "Rsqrt": "y"}
"""Names of the results of operations, where functions refer to them; `z` of the others."""


def expand_batch_norm(node: Any, *, in_function: bool) -> list[Any]:
    """The nodes that compute `(x - mean) / sqrt(variance + epsilon) * scale + offset` in its place.

    Args:
        node: With the statistics as inputs; the last of the nodes has its name.
        in_function: Whether it is in a function, whose references have the names of results in them.

    Raises:
        NoTruthError: It computes the statistics from the batch.
    """
    if node.attr["is_training"].b:
        raise NoTruthError(f"{node.op} with statistics of the batch has no float64 kernel")
    layout, nodes = node.attr["data_format"].s.decode() or "NHWC", []

    def add(name: str, op: str, *inputs: str, dtype: int = types_pb2.DT_FLOAT) -> str:
        made = tf.compat.v1.NodeDef(name=f"{node.name}/{name}", op=op, input=inputs)
        made.attr["T"].type = dtype
        nodes.append(made)
        return f"{made.name}:{_RESULTS.get(op, 'z')}:0" if in_function else made.name

    def constant(name: str, value: np.ndarray[Any, Any]) -> str:
        made = tf.compat.v1.NodeDef(name=f"{node.name}/{name}", op="Const")
        made.attr["dtype"].type = tf.dtypes.as_dtype(value.dtype).as_datatype_enum
        made.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        nodes.append(made)
        return f"{made.name}:output:0" if in_function else made.name

    def channels(name: str, tensor: str) -> str:
        """A vector along the axis of channels."""
        if layout[-1] == "C":
            return tensor
        extents = [-1 if axis == "C" else 1 for axis in layout]
        shape = constant(f"{name}_shape", np.array(extents, np.int32))
        reshaped = add(name, "Reshape", tensor, shape)
        nodes[-1].attr["Tshape"].type = types_pb2.DT_INT32
        return reshaped

    x, scale, offset, mean, variance, *control = node.input
    # Rounded to float32 in the operation, and so in the truth.
    epsilon = constant("epsilon", np.array(node.attr["epsilon"].f, np.float32))
    inverse = add("inverse", "Rsqrt", add("shifted", "AddV2", variance, epsilon))
    factor = channels("factor", add("scaled", "Mul", inverse, scale))
    centred = add("centred", "Sub", x, channels("mean", mean))
    scaled = add("product", "Mul", centred, factor)
    added = add("sum", "AddV2", scaled, channels("offset", offset))
    # A result that functions call `y`, as that of the operation.
    last = tf.compat.v1.NodeDef(name=node.name, op="Cast", input=[added, *control])
    last.attr["SrcT"].type = last.attr["DstT"].type = types_pb2.DT_FLOAT
    return [*nodes, last]
