"""Converts a loaded signature to a graph without variables, of fixed shapes, in canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

from ...errors import UnsupportedModelError
from ..effects import STATE_FIX, TABLE_FIX
from ..freeze import c_names
from .canonical import canonicalize
from .effects import effect_of
from .graphs import Graph, layer_name, node_name
from .saved_model import LoadedSignature

StaticShapes = Mapping[str, tuple[int, ...]]

# Without this, disable_lower_using_switch_merge overlooks them, and freezing lowers a switch with
# more than two branches to nodes that XLA refuses.
convert_to_constants._CONTROL_FLOW_OPS.update({"Case", "StatelessCase"})


@dataclass(frozen=True)
class FrozenGraph:
    """A graph whose inputs and outputs are nodes, by their names in the signature, sorted."""

    graph_def: Any
    feeds: Mapping[str, str]
    fetches: Mapping[str, str]
    outputs: Mapping[str, tf.TensorSpec]
    """Types and shapes of the outputs."""
    pruned: tuple[str, ...]
    """Inputs of the signature that no output depends on: they are not in the graph."""


def freeze_signature(loaded: LoadedSignature, shapes: StaticShapes) -> FrozenGraph:
    """Replaces variables by constants, drops what no output needs, and fixes the inputs' shapes.

    Raises:
        UnsupportedModelError: The signature uses something that such a graph cannot express.
    """
    names, function = _input_function(loaded, shapes)
    nodes = {name: t.op.name for name, t in zip(names, function.inputs, strict=False)}
    feeds = {name: nodes[name] for name in shapes}  # in function.inputs, captured ones follow
    graph_def = _replace_variables(function)
    fetches = _add_fetches(graph_def, dict(zip(loaded.output_names, function.outputs, strict=True)))
    # Before canonicalize, which removes the control edges that lead to assignments.
    _refuse_state(graph_def, fetches)
    # Graphs of TensorFlow 1 keep the free shapes with which they were saved.
    _fix_shapes(graph_def, {feeds[name]: shape for name, shape in shapes.items()})
    canonicalize(graph_def, fetches.values())
    # After it, as resources that no output needs are then gone, and nodes are sorted.
    _refuse_resources(graph_def, feeds)

    left = {node.name for node in graph_def.node}
    used = {name: node for name, node in feeds.items() if node in left}
    return FrozenGraph(
        graph_def,
        used,
        fetches,
        _output_specs(graph_def, used.values(), fetches),
        tuple(name for name, node in feeds.items() if node not in left),
    )


def _input_function(loaded: LoadedSignature, shapes: StaticShapes) -> tuple[list[str], Any]:
    """A function of the inputs, and the names of its arguments."""
    if loaded.is_tf1:
        # Such a graph cannot be inlined into another function.
        return list(loaded.function._arg_keywords), loaded.function
    specs = [
        tf.TensorSpec(shapes[tensor.name], tensor.dtype, f"arg_{name}")
        for tensor, name in zip(loaded.info.inputs, c_names(shapes), strict=True)
    ]

    def call(*tensors: Any) -> list[Any]:
        results = loaded(dict(zip(shapes, tensors, strict=True)))
        return [results[name] for name in loaded.output_names]

    return list(shapes), tf.function(call, input_signature=specs).get_concrete_function()


def _replace_variables(function: Any) -> Any:
    """The function's graph, calls inlined, with constants for variables.

    These are the steps of convert_variables_to_constants_v2
    (tensorflow/python/framework/convert_to_constants.py) without the last one, which would convert
    the graph to a function again and copy all weights several times.
    """
    try:
        # Private, but the version of TensorFlow is pinned. Its docstring calls aggressive inlining
        # unsafe where functions have state, which _refuse_state still has to find.
        data = convert_to_constants._FunctionConverterDataInEager(
            func=function, lower_control_flow=False, aggressive_inlining=False
        )
        return convert_to_constants._replace_variables_by_constants(converter_data=data)[0]
    except ValueError as error:
        if "2GB" not in str(error):
            raise
        raise UnsupportedModelError(
            "the weights exceed 2 GB, more than a TensorFlow graph holds as constants"
        ) from error


def _state_message(layer: str) -> str:
    return f"the signature keeps state in variables between calls in {layer!r}; {STATE_FIX}"


def _add_fetches(graph_def: Any, outputs: Mapping[str, Any]) -> dict[str, str]:
    """Adds a node for every output: one tensor may be several outputs, or an input too."""
    taken = {node.name for node in graph_def.node}
    fetches = {}
    for (name, tensor), c_name in zip(outputs.items(), c_names(outputs), strict=True):
        node = f"result_{c_name}"
        while node in taken:
            node += "_"
        fetches[name] = node
        identity = graph_def.node.add(name=node, op="Identity", input=[tensor.name])
        identity.attr["T"].type = tensor.dtype.as_datatype_enum
    return fetches


def _fix_shapes(graph_def: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for node in graph_def.node:
        if node.name in shapes:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(shapes[node.name]).as_proto())


def _refuse_state(graph_def: Any, fetches: Mapping[str, str]) -> None:
    """Looks along control edges too, which may be all that links an assignment to an output."""
    graph = Graph(graph_def)
    for function, names in graph.reach(fetches.values(), control=True).items():
        for name in sorted(names):
            if effect_of(graph.nodes[function][name].op) == "state":
                raise UnsupportedModelError(_state_message(layer_name(name)))


def _refuse_resources(graph_def: Any, feeds: Mapping[str, str]) -> None:
    for node in graph_def.node:
        if node.op == "Placeholder" and node.name not in feeds.values():
            users = _users(graph_def, node.name)
            used = ", ".join(f"{user.op} in {layer_name(user.name)!r}" for user in users)
            raise UnsupportedModelError(
                f"the signature uses a resource that is not a variable: {used}; {TABLE_FIX}"
            )


def _users(graph_def: Any, name: str) -> list[Any]:
    """The nodes that read a node, through identities; nodes are sorted after what they read."""
    names, users = {name}, []
    for node in graph_def.node:
        if names.isdisjoint(map(node_name, node.input)):
            continue
        if node.op == "Identity":
            names.add(node.name)
        else:
            users.append(node)
    return users


def _output_specs(
    graph_def: Any, feeds: Iterable[str], fetches: Mapping[str, str]
) -> dict[str, tf.TensorSpec]:
    """Types and shapes; a shape that control flow hides is found by evaluating zeros."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.import_graph_def(graph_def, name="")
        given = [graph.get_tensor_by_name(f"{node}:0") for node in feeds]
        tensors = [graph.get_tensor_by_name(f"{node}:0") for node in fetches.values()]
        shapes = [tensor.shape for tensor in tensors]
        if not all(shape.is_fully_defined() for shape in shapes):
            zeros = {t: np.zeros(t.shape, t.dtype.as_numpy_dtype) for t in given}
            shapes = [result.shape for result in session.run(tensors, zeros)]
    return {
        name: tf.TensorSpec(shape, tensor.dtype)
        for name, tensor, shape in zip(fetches, tensors, shapes, strict=True)
    }
