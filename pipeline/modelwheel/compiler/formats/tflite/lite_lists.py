"""Finds where a loop of TensorFlow Lite puts a row into a tensor.

It has no operator for it, so its converter cuts the tensor in two and joins the parts, whose sizes are not fixed:

    CONCATENATION(SLICE(x, [0, ...], [i, -1, ...]), row, SLICE(x, [i + 1, 0, ...], [-1, ...])), axis 0

becomes SET_ITEM(x, i, row).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from .lite_node import LiteNode, Value, operator
from .tflite_file import LiteGraph, LiteOperator

SET_ITEM = "SET_ITEM"
"""The operator that the schema lacks."""


def with_items(graph: LiteGraph) -> LiteGraph:
    """A subgraph with SET_ITEM, and without operators that no output needs."""
    finder = _Finder(graph, {n: o for o in graph.operators for n in o.outputs})
    operators = [finder.item_of(operator) or operator for operator in graph.operators]
    needed, kept = set(graph.outputs), []
    for operator_ in reversed(operators):
        if not operator_.outputs or needed.intersection(operator_.outputs):
            kept.append(operator_)
            needed.update(operator_.inputs)
    return replace(graph, operators=kept[::-1])


@dataclass(frozen=True)
class _Finder:
    graph: LiteGraph
    producers: Mapping[int, LiteOperator]

    def item_of(self, joined: LiteOperator) -> LiteOperator | None:
        """SET_ITEM in place of a concatenation; None if it is another one."""
        if joined.op != "CONCATENATION" or joined.options.axis != 0 or len(joined.inputs) != 3:
            return None
        before, after = (self._made(joined.inputs[n], "SLICE") for n in (0, 2))
        if before is None or after is None or before.inputs[0] != after.inputs[0]:
            return None
        number, following = self._first(before.inputs[2]), self._first(after.inputs[1])
        if number is None or following is None or not self._is_next(number, following):
            return None
        if not self._is_all(before.inputs[1], 0) or not self._is_all(after.inputs[2], -1):
            return None
        row = joined.inputs[1]
        if self.graph.tensors[row].shape[:1] != (1,):
            return None
        return LiteOperator(SET_ITEM, [before.inputs[0], number, row], joined.outputs, None)

    def _made(self, number: int, op: str) -> LiteOperator | None:
        producer = self.producers.get(number)
        return producer if producer is not None and producer.op == op else None

    def _first(self, number: int) -> int | None:
        """The number that comes first in sizes or places that are otherwise constants for whole axes."""
        joined = self._made(number, "CONCATENATION")
        if joined is None or len(joined.inputs) != 2:
            return None
        rest = self._constant(joined.inputs[1])
        if rest is None or not np.isin(rest, (0, -1)).all():
            return None
        reshaped = self._made(joined.inputs[0], "RESHAPE")
        return None if reshaped is None else reshaped.inputs[0]

    def _is_next(self, number: int, following: int) -> bool:
        added = self._made(following, "ADD")
        if added is None or number not in added.inputs:
            return False
        (other,) = [n for n in added.inputs if n != number] or [number]
        one = self._constant(other)
        return one is not None and one.size == 1 and bool(one.reshape(()) == 1)

    def _is_all(self, number: int, value: int) -> bool:
        constant = self._constant(number)
        return constant is not None and bool((constant == value).all())

    def _constant(self, number: int) -> np.ndarray[Any, Any] | None:
        return self.graph.tensors[number].value if number >= 0 else None


@operator(SET_ITEM)
def _set_item(node: LiteNode) -> Value:
    """As Keras writes it: XLA updates the list in place."""
    x, row, raw = node[0], node[2], tf.raw_ops
    shape = [int(extent) for extent in x.shape[1:]]
    items = raw.TensorListFromTensor(tensor=x, element_shape=tf.constant(shape, tf.int32))
    items = raw.TensorListSetItem(
        input_handle=items, index=tf.reshape(node[1], []), item=tf.reshape(row, shape)
    )
    return raw.TensorListStack(
        input_handle=items,
        element_shape=tf.constant(shape, tf.int32),
        element_dtype=x.dtype,
        num_elements=x.shape[0],
    )
