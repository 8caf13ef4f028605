"""Rewrites a frozen graph from float32 to float64.

Types are attributes of nodes and of functions' arguments (tensorflow/core/framework/graph.proto,
function.proto), so most operations need nothing else. Weights keep their values, which float64 holds exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

from ...graphs.graphs import bodies, is_function, nodes_of, rename_tensor
from ...stablehlo.judge_module import MODULE_OP
from .double_functions import WRITTEN_OUT, write_out
from .double_module import widen_module
from .missing import NoTruthError

_WIDER = {
    types_pb2.DT_FLOAT: types_pb2.DT_DOUBLE,
    types_pb2.DT_COMPLEX64: types_pb2.DT_COMPLEX128,
}
_EXACT = frozenset(
    {
        types_pb2.DT_DOUBLE,
        types_pb2.DT_COMPLEX128,
        types_pb2.DT_BOOL,
        types_pb2.DT_STRING,
        types_pb2.DT_RESOURCE,
        types_pb2.DT_VARIANT,
        types_pb2.DT_INVALID,
        types_pb2.DT_INT2,
        types_pb2.DT_INT4,
        types_pb2.DT_INT8,
        types_pb2.DT_INT16,
        types_pb2.DT_INT32,
        types_pb2.DT_INT64,
        types_pb2.DT_UINT2,
        types_pb2.DT_UINT4,
        types_pb2.DT_UINT8,
        types_pb2.DT_UINT16,
        types_pb2.DT_UINT32,
        types_pb2.DT_UINT64,
    }
)
"""Types that stay as they are. All others, such as float16, round by design: float64 would be another model."""

_RANDOM = re.compile(r"Random|Multinomial|TruncatedNormal")

_FLOWS = re.compile(r"TensorArray(Write|Scatter|Split|)V3")
"""Arrays of TensorFlow 1 return a float32 that says only what comes before what."""


def widen_graph(graph_def: Any) -> Any:
    """A copy of a frozen graph that computes in float64.

    Args:
        graph_def: It is left as it is.

    Raises:
        NoTruthError: It has operations that do not compute the same in float64; the message is a
            clause.
    """
    wide = type(graph_def)()
    wide.CopyFrom(graph_def)
    for body in bodies(wide):
        for node in nodes_of(body):
            require_exact(node)
    write_out(wide)
    for function in wide.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            argument.type = _WIDER.get(argument.type, argument.type)
    for body in bodies(wide):
        for node in nodes_of(body):
            _widen(node)
    if wide == graph_def:
        raise NoTruthError("it does not compute in float32")
    for body in bodies(wide):
        _widen_flows(body)
        _narrow_fixed_inputs(body)
    return wide


def _types(node: Any) -> Iterator[int]:
    for attribute in node.attr.values():
        yield attribute.type
        yield from attribute.list.type
        yield attribute.tensor.dtype


def _is_narrow(node: Any) -> bool:
    return not _WIDER.keys().isdisjoint(_types(node))


def require_exact(node: Any) -> None:
    """Raises NoTruthError if a node of a graph in float32 computes something else in float64."""
    for dtype in _types(node):
        if dtype not in _WIDER and dtype not in _EXACT:
            raise NoTruthError(
                f"{node.op} computes in {tf.dtypes.as_dtype(dtype).name}, whose rounding is part of the model"
            )
    if node.op == "Bitcast" and _is_narrow(node):
        raise NoTruthError("it uses the bits of float32 numbers (Bitcast)")
    if _RANDOM.search(node.op) and _is_narrow(node):  # integers are the same
        raise NoTruthError(f"{node.op} draws other numbers in float64")
    if node.op in WRITTEN_OUT or _FLOWS.fullmatch(node.op):
        return
    operation = op_def_registry.get(node.op)
    if operation is not None and any(a.type in _WIDER for a in operation.output_arg):
        raise NoTruthError(f"{node.op} computes in float32 only")


def _widen(node: Any) -> None:
    if node.op == MODULE_OP:
        node.attr["module"].s = widen_module(node.attr["module"].s)
    for attribute in node.attr.values():
        # Assigning a field of a union would clear the others.
        if attribute.type in _WIDER:
            attribute.type = _WIDER[attribute.type]
        elif attribute.list.type:
            attribute.list.type[:] = [_WIDER.get(dtype, dtype) for dtype in attribute.list.type]
        elif attribute.tensor.dtype in _WIDER:
            values = tf.make_ndarray(attribute.tensor)
            wide = np.complex128 if values.dtype.kind == "c" else np.float64
            exact = values.astype(wide)
            attribute.tensor.CopyFrom(tf.make_tensor_proto(exact, exact.dtype, exact.shape))


def _widen_flows(body: Any) -> None:
    """Casts the flows of arrays, which loops and branches pass on as float64."""
    for node in [node for node in nodes_of(body) if _FLOWS.fullmatch(node.op)]:
        results = op_def_registry.get(node.op).output_arg
        position = next(n for n, result in enumerate(results) if result.type in _WIDER)
        inside = is_function(body)
        old = f"{node.name}:{position}" if position else node.name
        if inside:
            old = f"{node.name}:{results[position].name}:0"
        name = f"{node.name}/widened"
        rename_tensor(body, old, f"{name}:y:0" if inside else name)
        nodes_of(body).append(_cast(name, old, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE))


def _cast(name: str, tensor: str, source: int, wanted: int) -> Any:
    cast = tf.compat.v1.NodeDef(name=name, op="Cast", input=[tensor])
    cast.attr["SrcT"].type, cast.attr["DstT"].type = source, wanted
    return cast


def _narrow_fixed_inputs(body: Any) -> None:
    """Casts what operations take as float32 whatever their types are, such as a threshold."""
    added = []
    for node in nodes_of(body):
        operation = op_def_registry.get(node.op)
        if operation is None or any(a.number_attr or a.type_list_attr for a in operation.input_arg):
            continue
        for position, argument in enumerate(operation.input_arg):
            if argument.type in _WIDER:
                name = f"{node.name}/narrowed_{position}"
                tensor = node.input[position]
                added.append(_cast(name, tensor, _WIDER[argument.type], argument.type))
                node.input[position] = f"{name}:y:0" if is_function(body) else name
    nodes_of(body).extend(added)
