"""Variables that a signature writes: they become the state of the compiled model.

TensorFlow passes variables as resources, through calls, loops and branches. What is written is found by
following the resource of every write back to where it comes from. tfcompile keeps the variables that its
Config names: their values become parameters and results of the program (tf2xla.proto, `Variable`), in the
order in which control edges put reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

from .effects import effect_of
from .formats.base import StateVariable
from .graphs import GRAPH, Graph, is_control, node_name

_PASSES_ON = frozenset(
    {"Identity", "Enter", "Exit", "NextIteration", "Switch", "Merge", "IdentityN"}
)
_CONDITIONS = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
"""Their first input chooses a branch and is not passed to it."""

_Tensor: TypeAlias = tuple[str, str]
"""A function, and a tensor in it."""


def written_resources(graph_def: Any, outputs: Iterable[str]) -> tuple[str, ...]:
    """The nodes of a graph that are the resources written when `outputs` are computed, sorted."""
    graph = Graph(graph_def)
    callers = _callers(graph)
    found: set[str] = set()
    for function, names in graph.reach(outputs, control=True).items():
        for name in sorted(names):
            node = graph.nodes[function][name]
            if effect_of(node.op) == "variable":
                found |= set(_sources(graph, callers, _resources(node, function)))
    return tuple(sorted(found))


def _resources(node: Any, function: str) -> Iterator[_Tensor]:
    """The tensors that a write names its variables by."""
    # These operations have single inputs before any list, so positions are those of arguments.
    for position in _resource_positions(node.op):
        yield function, node.input[position]


@cache
def _resource_positions(op: str) -> tuple[int, ...]:
    arguments = op_def_registry.get(op).input_arg
    return tuple(i for i, a in enumerate(arguments) if a.type == types_pb2.DT_RESOURCE)


_Callers: TypeAlias = Mapping[str, list[tuple[str, Any]]]


def _callers(graph: Graph) -> _Callers:
    """For each function, the nodes that refer to it, each with the function that it is in."""
    callers: dict[str, list[tuple[str, Any]]] = {}
    for function, nodes in graph.nodes.items():
        for node in nodes.values():
            for called in graph.called(node):
                callers.setdefault(called, []).append((function, node))
    return callers


def _sources(graph: Graph, callers: _Callers, tensors: Iterable[_Tensor]) -> Iterator[str]:
    """The nodes of the graph itself that resources come from."""
    waiting, seen = list(tensors), set()
    while waiting:
        function, tensor = place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        node = graph.nodes[function].get(node_name(tensor))
        if node is None:  # an argument
            waiting += _passed(graph, callers, function, tensor)
        elif node.op in ("Placeholder", "VarHandleOp"):
            if function == GRAPH:
                yield node.name
        elif node.op in ("While", "StatelessWhile"):
            waiting.append((function, node.input[_output(tensor)]))
        elif node.op in _PASSES_ON:
            inputs = [i for i in node.input if not is_control(i)]
            chosen = {"Merge": inputs, "IdentityN": inputs[_output(tensor) :][:1]}
            waiting += [(function, i) for i in chosen.get(node.op, inputs[:1])]


def _passed(graph: Graph, callers: _Callers, function: str, name: str) -> Iterator[_Tensor]:
    """What the callers of a function pass as its argument `name`."""
    arguments = [argument.name for argument in graph.functions[function].signature.input_arg]
    position = arguments.index(node_name(name))
    for caller, node in callers.get(function, ()):
        yield caller, node.input[position + (node.op in _CONDITIONS)]


def _output(tensor: str) -> int:
    """The number of an output: 0 in `a`, 2 in `a:2` and in `a:output:2`."""
    number = tensor.rpartition(":")[2]
    return int(number) if number.isdigit() else 0


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
