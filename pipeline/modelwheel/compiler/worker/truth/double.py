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

from ..formats.judge_module import MODULE_OP
from .double_module import widen_module
from .missing import NoTruthError
from .nudge import nudge
from .written_out import WRITTEN_OUT, write_out

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

_RANDOM = re.compile(r"Random|Multinomial|ParameterizedTruncatedNormal")


def widen_graph(graph_def: Any, *, nudged: bool = False) -> Any:
    """A copy of a frozen graph that computes in float64.

    Args:
        graph_def: It is left as it is.
        nudged: Whether weights are changed by half a unit in the last place of float32, each up or down.

    Raises:
        NoTruthError: It has operations that do not compute the same in float64; the message is a
            clause.
    """
    wide = type(graph_def)()
    wide.CopyFrom(graph_def)
    for nodes in _bodies(wide):
        for node in nodes:
            _require_exact(node)
    write_out(wide)
    for function in wide.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            argument.type = _WIDER.get(argument.type, argument.type)
    for nodes in _bodies(wide):
        for node in nodes:
            _widen(node, nudged=nudged)
    if wide == graph_def:
        raise NoTruthError("it does not compute in float32")
    _narrow_fixed_inputs(wide.node, in_function=False)
    for function in wide.library.function:
        _narrow_fixed_inputs(function.node_def, in_function=True)
    return wide


def _bodies(graph_def: Any) -> Iterator[Any]:
    yield graph_def.node
    for function in graph_def.library.function:
        yield function.node_def


def _types(node: Any) -> Iterator[int]:
    for attribute in node.attr.values():
        yield attribute.type
        yield from attribute.list.type
        yield attribute.tensor.dtype


def _is_narrow(node: Any) -> bool:
    return not _WIDER.keys().isdisjoint(_types(node))


def _require_exact(node: Any) -> None:
    for dtype in _types(node):
        if dtype not in _WIDER and dtype not in _EXACT:
            raise NoTruthError(
                f"{node.op} computes in {tf.dtypes.as_dtype(dtype).name}, whose rounding is part of the model"
            )
    if node.op == "Bitcast" and _is_narrow(node):
        raise NoTruthError("it uses the bits of float32 numbers (Bitcast)")
    if _RANDOM.search(node.op):
        raise NoTruthError(f"{node.op} draws other numbers in float64")
    if node.op in WRITTEN_OUT:
        return
    operation = op_def_registry.get(node.op)
    if operation is not None and any(a.type in _WIDER for a in operation.output_arg):
        raise NoTruthError(f"{node.op} computes in float32 only")


def _widen(node: Any, *, nudged: bool) -> None:
    if node.op == MODULE_OP:
        node.attr["module"].s = widen_module(node.attr["module"].s, nudged=nudged)
    for attribute in node.attr.values():
        # Assigning a field of a union would clear the others.
        if attribute.type in _WIDER:
            attribute.type = _WIDER[attribute.type]
        elif attribute.list.type:
            attribute.list.type[:] = [_WIDER.get(dtype, dtype) for dtype in attribute.list.type]
        elif attribute.tensor.dtype in _WIDER:
            values = tf.make_ndarray(attribute.tensor)
            wide = np.complex128 if values.dtype.kind == "c" else np.float64
            exact = nudge(values, node.name) if nudged else values.astype(wide)
            attribute.tensor.CopyFrom(tf.make_tensor_proto(exact, exact.dtype, exact.shape))


def _narrow_fixed_inputs(nodes: Any, *, in_function: bool) -> None:
    """Casts what operations take as float32 whatever their types are, such as a threshold."""
    added = []
    for node in nodes:
        operation = op_def_registry.get(node.op)
        if operation is None or any(a.number_attr or a.type_list_attr for a in operation.input_arg):
            continue
        for position, argument in enumerate(operation.input_arg):
            if argument.type in _WIDER:
                name = f"{node.name}/narrowed_{position}"
                cast = tf.compat.v1.NodeDef(name=name, op="Cast", input=[node.input[position]])
                cast.attr["SrcT"].type, cast.attr["DstT"].type = (
                    _WIDER[argument.type],
                    argument.type,
                )
                node.input[position] = f"{name}:y:0" if in_function else name
                added.append(cast)
    nodes.extend(added)
