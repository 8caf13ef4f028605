"""Makes nodes of a graph calls of functions that are written with other operations."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from .graphs import call_function, is_function, rename_tensor


class NodeFunctions:
    """The functions that take the place of nodes of a graph; one for all nodes that differ in names only."""

    def __init__(self, graph_def: Any, prefix: str) -> None:
        """Replaces nothing yet.

        Args:
            graph_def: The graph; it is changed.
            prefix: What names of the functions begin with; no other function's name does.
        """
        self._library = graph_def.library.function
        self._prefix = prefix
        self._made: dict[tuple[Hashable, ...], Any] = {}

    def replace(
        self, body: Any, node: Any, build: Callable[..., Any], distinct: Hashable = None
    ) -> None:
        """Makes a node call a function.

        Args:
            body: The GraphDef or FunctionDef that has the node.
            node: It is changed, but for its name and inputs.
            build: The first results of the node, from its inputs; traced for any shape.
            distinct: What `build` depends on beside the operation and the attributes.
        """
        operation = op_def_registry.get(node.op)
        types = [
            argument.type or node.attr[argument.type_attr].type for argument in operation.input_arg
        ]
        key = (node.op, *types, _attributes(node), distinct)
        if key not in self._made:
            specs = [tf.TensorSpec(None, tf.dtypes.as_dtype(kind)) for kind in types]
            traced = tf.function(build, autograph=False).get_concrete_function(*specs)
            definition = self._library.add()
            definition.CopyFrom(traced.function_def)
            definition.signature.name = f"{self._prefix}_{node.op}_{len(self._made)}"
            self._made[key] = definition
        signature = self._made[key].signature
        call_function(
            node, signature.name, types, [argument.type for argument in signature.output_arg]
        )
        if is_function(body):
            for number, result in enumerate(operation.output_arg[: len(signature.output_arg)]):
                rename_tensor(body, f"{node.name}:{result.name}:0", f"{node.name}:output:{number}")


def _attributes(node: Any) -> bytes:
    return b"".join(
        name.encode() + value.SerializeToString() for name, value in sorted(node.attr.items())
    )
