"""Variables that a signature writes: they become the state of the compiled model.

TensorFlow passes variables as resources, through calls, loops and branches; `data_flow` follows them. tfcompile keeps the variables that its
Config names: their values become parameters and results of the program (tf2xla.proto, `Variable`), in the
order in which control edges put reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from ..graphs.data_flow import Flow
from ..graphs.graphs import Graph, node_name
from .base import StateVariable


def written_resources(graph_def: Any, outputs: Iterable[str]) -> tuple[str, ...]:
    """The nodes of a graph that are the resources written when `outputs` are computed, sorted."""
    graph = Graph(graph_def)
    writes = Flow(graph).writes(graph.reach(outputs, control=True))
    return tuple(sorted({name for write in writes for name in write.targets}))


def captured_variables(function: Any, nodes: Iterable[str]) -> dict[str, tf.Variable]:
    """The variables that a function captures, by the placeholders among `nodes` that stand for them.

    In the order of captures: nodes are named by a counter of the process.
    """
    handles = {id(variable.handle): variable for variable in function.graph.variables}
    captured = {
        inner.op.name: handles.get(id(outer))
        for (_, inner), outer in zip(function.graph.captures, function.captured_inputs, strict=True)
    }
    wanted = set(nodes)
    return {node: v for node, v in captured.items() if v is not None and node in wanted}


def keep_variables(
    graph_def: Any, variables: Mapping[str, tf.Variable]
) -> tuple[StateVariable, ...]:
    """Replaces the placeholders of variables by VarHandleOps, in place; sorted by name."""
    taken = {node.name for node in graph_def.node}
    kept, nodes = [], {node.name: node for node in graph_def.node}
    names = _distinct(variables)
    for number, placeholder in enumerate(sorted(variables, key=names.__getitem__)):
        variable, node = variables[placeholder], nodes[placeholder]
        name = f"state_{number}"
        while name in taken:
            name += "_"
        value = variable.numpy()
        node.name, node.op = name, "VarHandleOp"
        node.attr.clear()
        node.attr["shared_name"].s = name.encode()
        node.attr["dtype"].type = variable.dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(value.shape).as_proto())
        kept.append((placeholder, StateVariable(names[placeholder], name, value, variable.numpy)))
    renamed = {placeholder: variable.node for placeholder, variable in kept}
    for node in graph_def.node:
        node.input[:] = [_renamed(tensor, renamed) for tensor in node.input]
    return tuple(variable for _, variable in kept)


def _distinct(variables: Mapping[str, tf.Variable]) -> dict[str, str]:
    """A different name for each variable: TensorFlow does not require it of authors."""
    names: dict[str, str] = {}
    for node, variable in variables.items():
        wanted = candidate = variable.name.partition(":")[0]
        number = 2
        while candidate in names.values():
            candidate = f"{wanted}_{number}"
            number += 1
        names[node] = candidate
    return names


def _renamed(tensor: str, names: Mapping[str, str]) -> str:
    node = node_name(tensor)
    return tensor.replace(node, names[node], 1) if node in names else tensor


def snapshot(variables: Iterable[tf.Variable]) -> Callable[[], None]:
    """A function that puts variables back to what they hold now."""
    before = [(variable, variable.numpy()) for variable in variables]

    def restore() -> None:
        for variable, value in before:
            variable.assign(value)

    return restore
