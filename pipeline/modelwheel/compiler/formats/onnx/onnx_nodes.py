"""Checks the nodes and constants of an ONNX file against ONNX's own definitions, before anything follows them.

`onnx.checker` does the same for whole files, but opens files that a tensor names and stops at operations that only
the model defines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, defs, helper
from onnx.external_data_helper import uses_external_data

from ....errors import UnsupportedModelError
from ....util.text import one_line

MAX_ELEMENTS = 1 << 60
"""Of a tensor: more bytes than any machine has."""
_FIX = "export the model again, or check the file with onnx.checker.check_model"
_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


@dataclass(frozen=True)
class _Definition:
    """An operation, as ONNX defines it."""

    inputs: tuple[int, int]
    """The least and the largest number."""
    outputs: tuple[int, int]
    attributes: Mapping[str, int]
    """Types by name."""
    required: frozenset[str]


def check_nodes(
    graph: Any,
    opsets: Mapping[str, int],
    functions: Collection[tuple[str, str]],
    *,
    within_function: bool,
) -> None:
    """Refuses nodes that are not as their operations are defined.

    Args:
        graph: A graph or function.
        opsets: The version of each domain, the main one as ''.
        functions: Domains and names of those that the model defines.
        within_function: Whether it is a function, or inside one.

    Raises:
        UnsupportedModelError: The message names the node.
    """
    for number, node in enumerate(graph.node):
        problem = _problem(node, opsets, functions, within_function=within_function)
        if problem:
            name = node.name or next(filter(None, node.output), "")
            place = (
                repr(name) if name else f"number {number} of {one_line(graph.name or 'the graph')}"
            )
            raise UnsupportedModelError(
                f"the ONNX file is damaged: the node {one_line(node.op_type or 'without an operation')} "
                f"{one_line(place)} {one_line(problem)}; {_FIX}",
                code="MW416",
            )


def _problem(
    node: onnx.NodeProto,
    opsets: Mapping[str, int],
    functions: Collection[tuple[str, str]],
    *,
    within_function: bool,
) -> str:
    """The mistake of a node, as the rest of a sentence."""
    if not node.op_type:
        return "has no name of an operation"
    if not node.output:
        return "has no outputs"
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if not within_function:
                return f"takes the attribute {attribute.name!r} from a function, but is in none"
        elif attribute.type == AttributeProto.UNDEFINED:
            return f"has an attribute {attribute.name!r} without a type"
    domain = "" if node.domain == "ai.onnx" else node.domain
    if (node.domain, node.op_type) in functions:
        return ""
    definition = _definition(node.op_type, domain, opsets.get(domain, 1))
    return "" if definition is None else _difference(node, definition)


def _difference(node: onnx.NodeProto, definition: _Definition) -> str:
    for what, count, (least, most) in (
        ("inputs", len(node.input), definition.inputs),
        ("outputs", len(node.output), definition.outputs),
    ):
        if not least <= count <= most:
            allowed = f"{least}" if least == most else f"{least} to {most}"
            allowed = f"{least} or more" if most >= 1 << 30 else allowed
            return f"has {count} {what}, and ONNX defines {allowed}"
    for attribute in node.attribute:
        wanted = definition.attributes.get(attribute.name)
        if wanted is not None and wanted != attribute.type:
            kind, defined = map(AttributeProto.AttributeType.Name, (attribute.type, wanted))
            return f"has the attribute {attribute.name!r} as {kind}, and ONNX defines {defined}"
    missing = definition.required - {attribute.name for attribute in node.attribute}
    return f"has no attribute {min(missing)!r}, which ONNX requires" if missing else ""


@cache
def _definition(op: str, domain: str, version: int) -> _Definition | None:
    """None for an operation that ONNX does not define."""
    try:
        schema: Any = defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None
    return _Definition(
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        {name: int(attribute.type.value) for name, attribute in schema.attributes.items()},
        frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
    )


def check_tensor(name: str, tensor: TensorProto) -> None:
    """Refuses a constant whose values cannot be what its type and shape say.

    Args:
        name: Of the constant or its node.
        tensor: Its values may be in a file beside the model.

    Raises:
        UnsupportedModelError: The message names it.
    """
    problem = _tensor_problem(tensor)
    if problem:
        raise UnsupportedModelError(
            f"the ONNX file is damaged: {one_line(repr(name))} {one_line(problem)}; export it again",
            code="MW416",
        )


def _tensor_problem(tensor: TensorProto) -> str:
    if any(extent < 0 for extent in tensor.dims):
        return "has a negative extent"
    if math.prod(extent or 1 for extent in tensor.dims) > MAX_ELEMENTS:
        return "has a shape of more elements than any machine can hold"
    bits = bits_of(tensor)
    if not bits:
        return f"has elements of the type number {tensor.data_type}, which ONNX does not define"
    count = math.prod(tensor.dims)
    if uses_external_data(tensor) or not count:
        return ""
    if tensor.HasField("raw_data"):
        size, wanted = len(tensor.raw_data), -(-count * bits // 8)
        return "" if size == wanted else f"has {size} bytes of values, and its shape needs {wanted}"
    return "" if any(len(getattr(tensor, field)) for field in _FIELDS) else "has no values"


def bits_of(tensor: TensorProto) -> int:
    """Bits of an element; 0 for a type that ONNX does not define."""
    try:
        name = TensorProto.DataType.Name(tensor.data_type)
        if packed := re.search(r"(?:INT|FLOAT)([24])(?:\D|$)", name):
            return int(packed[1])
        return int(8 * np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize)
    except (KeyError, ValueError, TypeError):
        return 0
