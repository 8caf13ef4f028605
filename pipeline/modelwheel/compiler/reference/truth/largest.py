"""The size of the largest value that a graph computes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from ...stablehlo.judge_module import MODULE_OP, reached_ops
from ...stablehlo.mlir_text import tensor_types
from ...stablehlo.xla_module import embedded_module


def largest_value(graph_def: Any) -> int:
    """The elements of the largest value, as far as shapes are known; constants are none."""
    return max(_sizes(graph_def), default=0)


def _sizes(graph_def: Any) -> Iterator[int]:
    """The elements of the values that are computed, as far as their shapes are known."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        for operation in graph.get_operations():
            if operation.type != "Const":
                yield from (tensor.shape.num_elements() or 0 for tensor in operation.outputs)
    for node in graph_def.node:
        if node.op == MODULE_OP:
            module = embedded_module(node.attr["module"].s)
            for _, op in reached_ops(module):
                for tensor in tensor_types(op.text):
                    yield math.prod(extent or 1 for extent in tensor.shape)
