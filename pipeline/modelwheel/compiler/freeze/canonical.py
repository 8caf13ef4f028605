"""The canonical form of a frozen graph: the same model leads to the same bytes in every process.

TensorFlow numbers functions and captured variables in the order in which a process creates them, lists
functions in the order of a hash table, and keeps traces of where and how a graph was made. All this
is removed, together with everything that no output depends on. The bytes are part of the keys of
compile steps, and XLA derives names from them: a change here changes the machine code of every wheel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..graphs.graphs import GRAPH, Graph, is_control, node_name

_TF1_CONTROL_FLOW = frozenset({"Enter", "Switch"})
# It keeps Case, If and While functional; every other attribute that begins with _ is only a hint.
_KEPT_HINT = "_lower_using_switch_merge"
_NUMBERS = re.compile(r"\d+(_\d+)*")


def canonicalize(graph_def: Any, fetches: Iterable[str], *, ordered: bool = False) -> None:
    """Converts a frozen graph to its canonical form, in place.

    Args:
        graph_def: The GraphDef; its nodes have no side effects that matter, unless it is `ordered`.
        fetches: Names of the nodes whose values are wanted.
        ordered: Whether control edges order reads and writes of variables, and are kept.
    """
    if not (ordered or _has_tf1_control_flow(graph_def)):
        # Loops and branches of TensorFlow 1 rely on control edges; elsewhere these only order side
        # effects, of which there are none.
        _drop_control_edges(graph_def)
    fetches = list(fetches)
    _prune(graph_def, Graph(graph_def).reach(fetches, control=True))
    _strip(graph_def)
    _sort(graph_def.node, fetches)
    for function in graph_def.library.function:
        results = [function.ret[out.name] for out in function.signature.output_arg]
        _sort(function.node_def, [*results, *sorted(function.control_ret.values())])
    # New names are numbered by position, so the order must be final, and every function called.
    _rename_nodes(graph_def)
    _rename_functions(graph_def)


def _bodies(graph_def: Any) -> Iterator[tuple[str, Any]]:
    """Every list of nodes, with the name of its function."""
    yield GRAPH, graph_def.node
    for function in graph_def.library.function:
        yield function.signature.name, function.node_def


def _has_tf1_control_flow(graph_def: Any) -> bool:
    return any(node.op in _TF1_CONTROL_FLOW for _, nodes in _bodies(graph_def) for node in nodes)


def _drop_control_edges(graph_def: Any) -> None:
    for _, nodes in _bodies(graph_def):
        for node in nodes:
            node.input[:] = [tensor for tensor in node.input if not is_control(tensor)]
    for function in graph_def.library.function:
        function.control_ret.clear()
        del function.signature.control_output[:]


def _prune(graph_def: Any, reached: dict[str, set[str]]) -> None:
    functions = graph_def.library.function
    _keep(functions, lambda function: function.signature.name in reached)
    for name, nodes in _bodies(graph_def):
        _keep(nodes, lambda node, kept=reached[name]: node.name in kept)  # type: ignore[misc]


def _keep(items: Any, wanted: Callable[[Any], bool]) -> None:
    """Deletes unwanted items of a repeated field in place: copies of weights would double memory."""
    for index in range(len(items) - 1, -1, -1):
        if not wanted(items[index]):
            del items[index]


def _strip(graph_def: Any) -> None:
    for _, nodes in _bodies(graph_def):
        for node in nodes:
            node.ClearField("device")
            node.ClearField("experimental_debug_info")
            _drop_hints(node.attr)
            if "config_proto" in node.attr:  # of calls: the devices of the machine that traced them
                node.attr["config_proto"].s = b""
    for function in graph_def.library.function:
        function.attr.clear()
        function.arg_attr.clear()
        function.resource_arg_unique_id.clear()
    # Gradients are for training, and they name functions that are renamed later.
    del graph_def.library.gradient[:]
    del graph_def.library.registered_gradients[:]
    graph_def.ClearField("debug_info")


def _drop_hints(attributes: Any) -> None:
    for name in [name for name in attributes if name.startswith("_") and name != _KEPT_HINT]:
        del attributes[name]


def _sort(nodes: Any, tensors: Iterable[str]) -> None:
    """Sorts nodes topologically: each after those that it reads, in the order `tensors` need them."""
    by_name = {node.name: node for node in nodes}
    position: dict[str, int] = {}
    seen: set[str] = set()
    # An explicit stack, as chains of nodes may be longer than Python's limit of recursion.
    waiting = [(node_name(tensor), False) for tensor in reversed(list(tensors))]
    while waiting:
        name, done = waiting.pop()
        if done:
            position[name] = len(position)
        # Loops of TensorFlow 1 are cycles: `seen` also ends the walk where one closes.
        elif name in by_name and name not in seen:  # otherwise an argument of a function
            seen.add(name)
            waiting.append((name, True))
            waiting += [(node_name(tensor), False) for tensor in reversed(by_name[name].input)]
    nodes.sort(key=lambda node: position[node.name])


def _rename_nodes(graph_def: Any) -> None:
    """Renames captured variables, named by a counter of the process, by their order in the graph."""
    taken = {node.name for node in graph_def.node}
    names: dict[str, str] = {}
    for node in graph_def.node:
        if _NUMBERS.fullmatch(node.name):
            names[node.name] = node.name = _free_name("variable", len(names), taken)
    for node in graph_def.node:
        node.input[:] = [_renamed(tensor, names) for tensor in node.input]


def _free_name(stem: str, number: int, taken: set[str]) -> str:
    name = f"{stem}_{number}"
    while name in taken:
        name = f"{name}_"
    taken.add(name)
    return name


def _renamed(tensor: str, names: dict[str, str]) -> str:
    node = node_name(tensor)
    return tensor.replace(node, names[node], 1) if node in names else tensor


def _rename_functions(graph_def: Any) -> None:
    """Names and sorts functions by the order in which the graph, walked breadth-first, calls them."""
    graph = Graph(graph_def)
    order: dict[str, str] = {}
    bodies = [GRAPH]
    for body in bodies:  # grows while it is walked
        for node in graph.nodes[body].values():
            for called in graph.called(node):
                if called not in order:
                    order[called] = f"function_{len(order)}"
                    bodies.append(called)
    rename_functions(graph_def, order)
    numbers = {name: number for number, name in enumerate(order.values())}
    graph_def.library.function.sort(key=lambda function: numbers[function.signature.name])


def rename_functions(graph_def: Any, names: Mapping[str, str]) -> None:
    """Gives every function of a graph the name that `names` has for it, in place."""
    for _, nodes in _bodies(graph_def):
        for node in nodes:
            _rename_calls(node, names)
    for function in graph_def.library.function:
        function.signature.name = names[function.signature.name]


def _rename_calls(node: Any, names: Mapping[str, str]) -> None:
    node.op = names.get(node.op, node.op)
    for attribute in node.attr.values():
        for reference in (attribute.func, *attribute.list.func):
            if reference.name in names:
                reference.name = names[reference.name]
