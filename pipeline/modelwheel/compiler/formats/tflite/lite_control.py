"""Operators that call subgraphs, and variables that only hold weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ....util.text import one_line
from .lite_node import LiteNode, Value, operator
from .lite_rewriting import variable_name

CALLS = frozenset({"CALL", "CALL_ONCE", "IF", "STABLEHLO_COMPOSITE", "WHILE"})
"""What they compute stays in the graph even if it depends on no input."""


def _tensors(node: LiteNode, first: int) -> list[Value]:
    return [tf.convert_to_tensor(node[n]) for n in range(first, len(node.inputs))]


@operator("CALL")
def _call(node: LiteNode) -> list[Value]:
    return node.call(node.options.subgraph, _tensors(node, 0))


@operator("STABLEHLO_COMPOSITE")
def _composite(node: LiteNode) -> list[Value]:
    """A layer that converters of PyTorch and JAX keep as one, by the subgraph that it is made of."""
    return node.call(node.options.decompositionSubgraphIndex, _tensors(node, 0))


@operator("IF")
def _if(node: LiteNode) -> list[Value]:
    options, values = node.options, _tensors(node, 1)

    def branch(number: int) -> Any:
        return lambda: [tf.convert_to_tensor(value) for value in node.call(number, values)]

    condition = tf.reshape(node[0], [])
    then, other = branch(options.thenSubgraphIndex), branch(options.elseSubgraphIndex)
    return list(tf.cond(condition, then, other))


@operator("WHILE")
def _while(node: LiteNode) -> list[Value]:
    options, values = node.options, _tensors(node, 0)

    def goes_on(*state: Value) -> Value:
        return tf.reshape(node.call(options.condSubgraphIndex, state)[0], [])

    def step(*state: Value) -> list[Value]:
        results = [tf.convert_to_tensor(v) for v in node.call(options.bodySubgraphIndex, state)]
        for result, value in zip(results, state, strict=True):
            result.set_shape(value.shape)  # loops of TensorFlow Lite do not change them
        return results

    return list(tf.while_loop(goes_on, step, values))


@operator("CALL_ONCE")
def _call_once(node: LiteNode) -> list[Value]:
    """Assigns variables before the first call."""
    return node.call(node.options.initSubgraphIndex, [])[:0]


@operator("VAR_HANDLE")
def _variable(node: LiteNode) -> Value:
    return np.array(variable_name(node.options))


@operator("ASSIGN_VARIABLE")
def _assign(node: LiteNode) -> list[Value]:
    name = str(node.constant(0, "the variable"))
    if name in node.variables or not isinstance(node[1], np.ndarray):
        raise node.refuse(f"changes the variable {one_line(name)} in a loop or a branch")
    node.variables[name] = node[1]
    return []


@operator("READ_VARIABLE")
def _read(node: LiteNode) -> Value:
    name = str(node.constant(0, "the variable"))
    if name not in node.variables:
        raise node.refuse(
            f"reads the variable {one_line(name)}, which has no value before the first call"
        )
    return node.variables[name]
