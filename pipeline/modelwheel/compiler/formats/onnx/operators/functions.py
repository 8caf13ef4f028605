"""Operations that ONNX itself defines as functions of simpler ones."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import defs, helper

from ....stablehlo.writer import Value
from .onnx_node import Item, Node, TensorList


def function_of(node: Node) -> onnx.FunctionProto | None:
    """The definition of an operation for these inputs, its attributes set; None if it has none."""
    try:
        schema: Any = defs.get_schema(node.op, node.opset, node.domain)
    except defs.SchemaError:
        return None
    names = [f"in{i}" if item is not None else "" for i, item in enumerate(node.inputs)]
    outputs = [f"out{i}" if read else "" for i, read in enumerate(node.outputs)]
    settings = {
        name: getattr(value, "graph", value)
        for name, value in node.attributes.items()
        if value is not None
    }
    message = helper.make_node(node.op, names, outputs, domain=node.domain, **settings)
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        types = [_type(item).SerializeToString() for item in node.inputs]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
        if not versions:
            return None
        content = schema.get_context_dependent_function_with_opset_version(
            max(versions), message.SerializeToString(), types
        )
        function.ParseFromString(content)
    elif schema.has_function:
        function.CopyFrom(schema.function_body)
    if not function.node:
        return None
    attributes = {a.name: a for a in message.attribute}
    attributes |= {a.name: a for a in _defaults(schema) if a.name not in attributes}
    bound = [bind(inner, attributes) for inner in function.node]
    del function.node[:]
    function.node.extend(bound)
    return function


def _type(item: Item) -> onnx.TypeProto:
    if isinstance(item, Value):
        return helper.make_tensor_type_proto(
            helper.np_dtype_to_tensor_dtype(item.dtype), item.shape
        )
    if isinstance(item, TensorList) and item.values:
        return helper.make_sequence_type_proto(_type(item.values[0]))
    return onnx.TypeProto()


def _defaults(schema: Any) -> list[onnx.AttributeProto]:
    """The attributes that have a default."""
    every = (a.default_value for a in schema.attributes.values())
    return [default for default in every if default.name]


def bind(node: onnx.NodeProto, attributes: dict[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """The node with values for the attributes that it takes from its function."""
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in attributes:
                value = bound.attribute.add()
                value.CopyFrom(attributes[attribute.ref_attr_name])
                value.name = attribute.name
            continue
        value = bound.attribute.add()
        value.CopyFrom(attribute)
        for graph in (value.g, *value.graphs) if value.HasField("g") or value.graphs else ():
            inner = [bind(inner, attributes) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return bound
