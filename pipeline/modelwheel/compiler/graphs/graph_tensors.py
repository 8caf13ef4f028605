"""Tensors of a GraphDef: types and shapes as its nodes declare them, and other tensors in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

from ...model.inspection import Shape
from .graphs import Graph, is_control, node_name

_REFERENCES = 100
"""What a type's number is raised by for a reference to such a tensor (types.proto)."""
_SCALARS_KNOWN = 24
"""Graphs of earlier versions declare `[]` for placeholders of any shape (core/public/version.h)."""


@dataclass(frozen=True)
class Tensor:
    """An output of a node."""

    node: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"


def parse_tensor(text: str) -> Tensor:
    """The tensor of a name: `a/b:1`, or `a/b` for its output 0.

    Raises:
        ValueError: It is a control edge, or the index is not a number.
    """
    node, colon, index = text.partition(":")
    if node.startswith("^") or not node:
        raise ValueError
    # `isdigit` also accepts digits that `int` refuses.
    if colon and not (index.isascii() and index.isdigit()):
        raise ValueError
    return Tensor(node, int(index) if colon else 0)


def output_types(node: Any, graph: Graph) -> list[int] | None:
    """The element types of a node's outputs; None for an operation that TensorFlow does not know."""
    if node.op in graph.functions:
        definition = graph.functions[node.op].signature
    else:
        definition = op_def_registry.get(node.op)
    if definition is None:
        return None
    defaults = {attribute.name: attribute.default_value for attribute in definition.attr}
    return [
        kind % _REFERENCES
        for argument in definition.output_arg
        for kind in _argument_types(argument, {**defaults, **node.attr})
    ]


def _argument_types(argument: Any, attributes: Mapping[str, Any]) -> list[int]:
    if argument.type_list_attr:
        attribute = attributes.get(argument.type_list_attr)
        return list(attribute.list.type) if attribute is not None else []
    attribute = attributes.get(argument.type_attr)
    kind = argument.type or (attribute.type if attribute is not None else types_pb2.DT_INVALID)
    if not argument.number_attr:
        return [kind]
    number = attributes.get(argument.number_attr)
    return [kind] * (min(number.i, 1 << 16) if number is not None else 0)


def declared_shape(node: Any, index: int, producer: int) -> Shape | None:
    """The shape of an output, if the node has it in its attributes.

    Args:
        node: A NodeDef.
        index: Of the output.
        producer: The version of the graph that the node is in.
    """
    if "_output_shapes" in node.attr and index < len(node.attr["_output_shapes"].list.shape):
        return shape_of(node.attr["_output_shapes"].list.shape[index])
    if node.op in ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault"):
        shape = node.attr["shape"].shape if "shape" in node.attr else None
        unknown = shape is None or (not shape.dim and producer < _SCALARS_KNOWN)
        return None if unknown else shape_of(shape)
    if node.op in ("VarHandleOp", "VariableV2") and "shape" in node.attr:
        return shape_of(node.attr["shape"].shape)
    return shape_of(node.attr["value"].tensor.tensor_shape) if node.op == "Const" else None


def shape_of(message: Any) -> Shape | None:
    """The extents in a TensorShapeProto; None if even the rank is unknown."""
    if message is None or message.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in message.dim)


def set_shape(message: Any, shape: Shape | None) -> None:
    """The reverse of `shape_of`."""
    message.Clear()
    if shape is None:
        message.unknown_rank = True
        return
    for extent in shape:
        message.dim.add(size=-1 if extent is None else extent)


def redirect(graph_def: Any, tensors: Mapping[Tensor, str]) -> None:
    """Lets all nodes read other nodes in place of some tensors.

    What waits for the node of such a tensor waits for the other node, as in a session that is fed
    (core/graph/subgraph.cc).
    """
    instead: dict[str, str] = {}
    for tensor, node in tensors.items():
        instead.setdefault(f"^{tensor.node}", f"^{node}")
        instead[str(tensor)] = node
        if not tensor.index:
            instead[tensor.node] = node
    for node in graph_def.node:
        for position, read in enumerate(node.input):
            if read in instead:
                node.input[position] = instead[read]


def prune(graph_def: Any, tensors: Iterable[str]) -> Any:
    """The part of a graph that tensors depend on, also along control edges; the same if it is all."""
    reached = Graph(graph_def).reach(tensors, control=True)
    kept = [node for node in graph_def.node if node.name in reached.get("", ())]
    functions = [f for f in graph_def.library.function if f.signature.name in reached]
    if len(kept) == len(graph_def.node) and len(functions) == len(graph_def.library.function):
        return graph_def
    pruned = type(graph_def)(versions=graph_def.versions, node=kept)
    pruned.library.function.extend(functions)
    for gradient in graph_def.library.gradient:
        if {gradient.function_name, gradient.gradient_func} <= reached.keys():
            pruned.library.gradient.add().CopyFrom(gradient)
    return pruned


def sinks(graph_def: Any, graph: Graph) -> Iterator[Tensor]:
    """Outputs 0 of the nodes that no other node reads."""
    read = {node_name(i) for node in graph_def.node for i in node.input if not is_control(i)}
    for node in graph_def.node:
        if node.name not in read and output_types(node, graph):
            yield Tensor(node.name)
