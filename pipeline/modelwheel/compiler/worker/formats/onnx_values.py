"""The values that the inputs of an ONNX graph can have: indices within the table that they select from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import helper, numpy_helper

from ...inspection import SignatureInfo, ValidValues

_MOVES = frozenset(
    {
        *("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice"),
        *("Expand", "Tile", "Split"),
    }
)
"""Operations whose results hold values of their first input only."""


def with_valid_values(signature: SignatureInfo, graph: Any) -> SignatureInfo:
    """The signature with bounds for inputs whose values reach indices; branches and loops are not followed."""
    valid = _find(graph)
    inputs = tuple(
        tensor.model_copy(update={"valid": valid.get(tensor.name)}) for tensor in signature.inputs
    )
    return signature.model_copy(update={"inputs": inputs})


def _find(graph: Any) -> dict[str, ValidValues]:
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {
        node.output[0]: attribute.t
        for node in graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    }
    holds = {value.name: {value.name} for value in graph.input if value.name not in constants}
    found: dict[str, ValidValues] = {}
    for node in graph.node:
        if node.op_type in _MOVES or node.op_type == "Concat":
            read = node.input if node.op_type == "Concat" else node.input[:1]
            names = set[str]().union(*(holds.get(name, set()) for name in read))
            holds |= dict.fromkeys(node.output, names)
        position, limit = _limit(node, constants)
        if limit is None or limit < 1:
            continue
        for name in holds.get(node.input[position], ()):
            if name not in found or limit < (found[name].high or limit):
                place = node.name or node.output[0]
                found[name] = ValidValues(low=0, high=limit, op=node.op_type, layer=place)
    return found


def _limit(node: Any, constants: Mapping[str, Any]) -> tuple[int, int | None]:
    """The input that holds indices, and how many values they may have; None if that is not known."""
    if node.op_type in ("Gather", "GatherElements") and node.input[0] in constants:
        shape = constants[node.input[0]].dims
        axis = next((helper.get_attribute_value(a) for a in node.attribute if a.name == "axis"), 0)
        return 1, shape[axis] if -len(shape) <= axis < len(shape) else None
    if node.op_type == "OneHot" and node.input[1] in constants:
        depth = numpy_helper.to_array(constants[node.input[1]])
        return 0, int(depth.ravel()[0]) if depth.size else None
    return 0, None
