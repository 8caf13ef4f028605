"""Brings the graph of a signature into canonical form: of fixed shapes, and only what outputs need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ...errors import UnsupportedModelError
from ...model.effects import TABLE_FIX, VERBS
from ...model.frozen_signature import c_names
from ...model.fusions.registry import Provider, Replaced
from ..graphs.graphs import Graph, layer_name, node_name
from ..graphs.inlining import inline_tf1_control_flow
from ..graphs.op_effects import effect_of
from ..graphs.random_numbers import replace_random_numbers
from ..loaded.base import Fetch, SignatureGraph, StateVariable, StaticShapes
from ..stablehlo.graph_modules import canonicalize_modules
from .canonical import canonicalize
from .clamps import fold_clamps
from .dilations import join_dilations
from .integers import keep_integers
from .replacing import replace
from .switch_case import split_switches


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
    state: tuple[StateVariable, ...] = ()
    """The variables that are left in the graph, sorted by name."""
    fusions: tuple[Replaced, ...] = ()
    """What was replaced in it."""


def freeze_graph(
    graph: SignatureGraph,
    shapes: StaticShapes,
    *,
    keep_state: bool = False,
    fusions: Sequence[Provider] = (),
) -> FrozenGraph:
    """Drops what no output needs, fixes the inputs' shapes and brings the graph into canonical form.

    Args:
        graph: The graph of a signature; it is changed.
        shapes: Of all inputs.
        keep_state: Whether calls may write variables; otherwise they are refused.
        fusions: What replaces calls that were kept, and patterns.

    Raises:
        EnvironmentProblemError: A fusion cannot be used.
        UnsupportedModelError: The signature uses something that such a graph cannot express.
    """
    graph_def, feeds = graph.graph_def, graph.feeds
    fetches = _add_fetches(graph_def, graph.fetches)
    if inline_tf1_control_flow(graph_def):
        raise UnsupportedModelError(
            "a branch or loop of TensorFlow 2 calls a function with control flow of TensorFlow 1, which "
            "XLA does not compile there; write it with tf.cond and tf.while_loop of TensorFlow 2"
        )
    # Graphs of TensorFlow 1 keep the free shapes with which they were saved.
    _fix_shapes(graph_def, {feeds[name]: shape for name, shape in shapes.items()})
    fold_clamps(graph_def)
    join_dilations(graph_def)
    replaced = replace(graph_def, fusions, fetches.values())
    canonicalize_modules(graph_def)  # after fusions, whose patterns are forms of the model
    split_switches(graph_def)
    replace_random_numbers(graph_def)
    keep_integers(graph_def)
    # Before canonicalize, which removes the control edges that lead to assignments.
    _refuse_state(graph_def, fetches, keep_state)
    canonicalize(graph_def, fetches.values(), ordered=bool(graph.state))
    # After it, as resources that no output needs are then gone, and nodes are sorted.
    _refuse_resources(graph_def, feeds)

    left = {node.name for node in graph_def.node}
    used = {name: node for name, node in feeds.items() if node in left}
    return FrozenGraph(
        graph_def,
        used,
        fetches,
        _output_specs(graph_def, used.values(), fetches, graph.state),
        tuple(name for name, node in feeds.items() if node not in left),
        graph.state,
        replaced,
    )


def _add_fetches(graph_def: Any, outputs: Mapping[str, Fetch]) -> dict[str, str]:
    """Adds a node for every output: one tensor may be several outputs, or an input too."""
    taken = {node.name for node in graph_def.node}
    fetches = {}
    for (name, fetch), c_name in zip(outputs.items(), c_names(outputs), strict=True):
        node = f"result_{c_name}"
        while node in taken:
            node += "_"
        fetches[name] = node
        identity = graph_def.node.add(name=node, op="Identity", input=[fetch.tensor])
        identity.attr["T"].type = fetch.dtype.as_datatype_enum
    return fetches


def _fix_shapes(graph_def: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for node in graph_def.node:
        if node.name in shapes:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(shapes[node.name]).as_proto())


def _refuse_state(graph_def: Any, fetches: Mapping[str, str], keep_state: bool) -> None:
    """Looks along control edges too, which may be all that links an assignment to an output."""
    graph = Graph(graph_def)
    for function, names in graph.reach(fetches.values(), control=True).items():
        for name in sorted(names):
            effect = effect_of(graph.nodes[function][name].op)
            if effect == "state" or (effect == "variable" and not keep_state):
                verb, fix = VERBS[effect]
                raise UnsupportedModelError(
                    f"the signature {verb} in {layer_name(name)!r}; {fix}", code="MW407"
                )


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
    graph_def: Any,
    feeds: Iterable[str],
    fetches: Mapping[str, str],
    state: Iterable[StateVariable],
) -> dict[str, tf.TensorSpec]:
    """Types and shapes; a shape that control flow hides is found by evaluating zeros."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.import_graph_def(graph_def, name="")
        inputs = [graph.get_tensor_by_name(f"{node}:0") for node in feeds]
        tensors = [graph.get_tensor_by_name(f"{node}:0") for node in fetches.values()]
        shapes = [tensor.shape for tensor in tensors]
        if not all(shape.is_fully_defined() for shape in shapes):
            session.run(list(_initializers(graph, state)))
            zeros = {t: np.zeros(t.shape, t.dtype.as_numpy_dtype) for t in inputs}
            shapes = [result.shape for result in session.run(tensors, zeros)]
    return {
        name: tf.TensorSpec(shape, tensor.dtype)
        for name, tensor, shape in zip(fetches, tensors, shapes, strict=True)
    }


def _initializers(graph: tf.Graph, state: Iterable[StateVariable]) -> Iterator[Any]:
    for variable in state:
        handle = graph.get_tensor_by_name(f"{variable.node}:0")
        yield tf.raw_ops.AssignVariableOp(resource=handle, value=variable.value)
