"""Shapes of one operation's results, by TensorFlow's own shape functions.

Each operation gets a graph of placeholders and small constants only, so that TensorFlow has nothing
to evaluate (on a whole graph, shape inference runs constant parts: core/common_runtime/
eval_const_tensor.cc) and nothing large to allocate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import op_def_registry, ops

from .values import Shape, Tensor

_GRAPH_NODES = 2000  # then a new graph, so that the old one can be freed
_INTEGERS = (tf.int32, tf.int64)


def count_outputs(node: Any, definition: Any, name: str | None = None) -> int:
    """The number of a node's outputs, or of those before the output argument `name`."""
    total = 0
    for argument in definition.output_arg:
        if argument.name == name:
            return total
        total += len(list(_types(argument, node, definition)))
    return total


def _types(argument: Any, node: Any, definition: Any) -> Iterator[int]:
    if argument.type_list_attr:
        yield from _attribute(node, definition, argument.type_list_attr).list.type
        return
    count = _attribute(node, definition, argument.number_attr).i if argument.number_attr else 1
    kind = argument.type or _attribute(node, definition, argument.type_attr).type
    for _ in range(min(count, 10_000)):
        yield kind


def _attribute(node: Any, definition: Any, name: str) -> Any:
    default = next(a.default_value for a in definition.attr if a.name == name)
    return node.attr.get(name, default)


class OpShapes:
    """Results are kept: most nodes of a model are like another."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Shape | None, ...]] = {}
        self._graph = tf.Graph()
        self._made = 0
        self._sources: dict[Any, Any] = {}

    def infer(self, node: Any, inputs: Sequence[Tensor]) -> tuple[Shape | None, ...]:
        """The shapes of a node's outputs; () if TensorFlow refuses the node."""
        attributes = tuple(
            sorted((k, v.SerializeToString()) for k, v in node.attr.items() if k[0] != "_")
        )
        key = (node.op, attributes, tuple((i.shape, i.value) for i in inputs))
        if key not in self._known:
            try:
                self._known[key] = self._infer(node, inputs)
            except Exception:  # noqa: BLE001 - nodes of hostile models fail in every way
                self._known[key] = ()
        return self._known[key]

    def _infer(self, node: Any, inputs: Sequence[Tensor]) -> tuple[Shape | None, ...]:
        if self._made > _GRAPH_NODES:
            self._graph, self._made, self._sources = tf.Graph(), 0, {}
        self._made += 1
        definition = op_def_registry.get(node.op)
        with self._graph.as_default():
            waiting = iter(inputs)
            sources = [
                self._source(kind, next(waiting))
                for argument in definition.input_arg
                for kind in _types(argument, node, definition)
            ]
            copy = node_def_pb2.NodeDef(name=f"node_{self._made}", op=node.op)
            for name, value in node.attr.items():
                if not name.startswith("_"):
                    copy.attr[name].CopyFrom(value)
            made = ops._create_c_op(self._graph, copy, sources, [], definition)
            outputs = ops.Operation._from_c_op(made, self._graph).outputs
            return tuple(_shape(output) for output in outputs)

    def _source(self, kind: int, tensor: Tensor) -> Any:
        """A tensor of which TensorFlow knows as much as we do."""
        key = (kind, tensor.shape, tensor.value)
        if key not in self._sources:
            self._sources[key] = self._make_source(tf.dtypes.as_dtype(kind), tensor)
        return self._sources[key]

    @staticmethod
    def _make_source(dtype: tf.DType, tensor: Tensor) -> Any:
        if tensor.value is not None and None not in tensor.value:
            return tf.constant(tensor.value, dtype, tensor.shape)
        if tensor.value is not None and dtype in _INTEGERS and len(tensor.shape or ()) == 1:
            return tf.stack(
                [tf.compat.v1.placeholder(dtype, []) if n is None else tf.constant(n, dtype)
                 for n in tensor.value]
            )  # fmt: skip
        return tf.compat.v1.placeholder(dtype, tensor.shape)


def _shape(output: Any) -> Shape | None:
    shape: Shape | None = None
    if output.shape.rank is not None:
        shape = tuple(output.shape.as_list())
    return shape
