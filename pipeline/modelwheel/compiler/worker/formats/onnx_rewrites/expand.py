"""Operations that ONNX itself defines as functions of simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import defs, helper

from .graphs import write_graph
from .straight import Call, Straight

EXPANDED = frozenset(
    {
        *("AffineGrid", "CastLike", "Celu", "CenterCropPad", "DynamicQuantizeLinear"),
        *("GroupNormalization", "HammingWindow", "HannWindow", "BlackmanWindow"),
        *("MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
    }
)
"""torch-mlir lacks them, or some of their forms."""


def expand(straight: Straight, call: Call) -> Sequence[str] | None:
    """The function's nodes; None if ONNX defines none for these inputs."""
    names = [f"in{number}" if name else "" for number, name in enumerate(call.inputs)]
    outputs = [f"out{number}" for number in range(call.outputs)]
    node = helper.make_node(call.op, names, outputs, **call.attributes)
    schema: Any = defs.get_schema(call.op, straight.opset)
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        types = [
            (straight.types[name] if name else onnx.TypeProto()).SerializeToString()
            for name in call.inputs
        ]
        versions = schema.context_dependent_function_opset_versions
        version = max(v for v in versions if v <= straight.opset)
        content = schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), types
        )
        function.ParseFromString(content)
    elif schema.has_function:
        function.CopyFrom(schema.function_body)
    if not function.node:
        return None
    given = {a.name: a for a in node.attribute}
    given |= {a.name: a for a in _defaults(schema) if a.name not in given}
    graph = onnx.GraphProto(name=call.op)
    graph.node.extend(_bind(inner, given) for inner in function.node)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output[: call.outputs])
    scope = dict.fromkeys(function.input, "")
    scope |= dict(zip(function.input, call.inputs, strict=False))
    opset = max((o.version for o in function.opset_import if not o.domain), default=straight.opset)
    return write_graph(straight, graph, scope, opset)


def _defaults(schema: Any) -> list[onnx.AttributeProto]:
    """The attributes that have a default."""
    every = (a.default_value for a in schema.attributes.values())
    return [default for default in every if default.name]


def _bind(node: onnx.NodeProto, given: dict[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """The node with values for the attributes that it takes from its function."""
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            value = bound.attribute.add()
            value.CopyFrom(given[attribute.ref_attr_name])
            value.name = attribute.name
    return bound
