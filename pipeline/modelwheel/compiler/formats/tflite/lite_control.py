"""Operators that call subgraphs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .lite_node import LiteNode, Value, operator

CALLS = frozenset({"CALL", "IF", "WHILE"})
"""What they compute stays in the graph even if it depends on no input."""


def _tensors(node: LiteNode, first: int) -> list[Value]:
    return [tf.convert_to_tensor(node[n]) for n in range(first, len(node.inputs))]


@operator("CALL")
def _call(node: LiteNode) -> list[Value]:
    return node.call(node.options.subgraph, _tensors(node, 0))


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
