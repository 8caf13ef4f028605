"""Inlines functions with control flow of TensorFlow 1, which tfcompile converts in the graph itself only.

TensorFlow's own inlining (grappler's function optimizer) leaves such functions alone where a result
may be dead, as a Switch makes it. It may be dead here too: nothing that runs for its side effects is
left in a frozen graph, and tfcompile turns every Switch into a branch before it compiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorflow.python.framework import op_def_registry

from .graphs import is_control, node_name

TF1_CONTROL_FLOW = frozenset({"Enter", "Exit", "Merge", "NextIteration", "Switch", "LoopCond"})

_STRAY = "unused_control_flow_input"
"""What TensorFlow leaves behind when it copies a loop (tensorflow/python/eager/lift_to_graph.py)."""
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_NO_CONTROL_FLOW: frozenset[str] = frozenset()


def inline_tf1_control_flow(graph_def: Any) -> bool:
    """Inlines all calls, from the graph itself, of functions with control flow of TensorFlow 1.

    Returns:
        Whether some is left, below an If or a While whose branches and bodies stay functions.
    """
    functions = {function.signature.name: function for function in graph_def.library.function}
    holders = _holders(functions)
    if not holders:
        return False
    while calls := [node for node in graph_def.node if called_by(node, functions) in holders]:
        # Nodes of the call come in its place, in any order: `canonicalize` sorts them.
        for call in calls:
            _inline(graph_def, call, functions)
        for call in calls:
            graph_def.node.remove(call)
    _drop_strays(graph_def.node)
    return any(reference in holders for node in graph_def.node for reference in _references(node))


def called_by(node: Any, functions: Any) -> str:
    """The function that a node calls; empty for a node of another kind."""
    if node.op in functions:
        return str(node.op)
    return str(node.attr["f"].func.name) if node.op in _CALLS else ""


def _references(node: Any) -> Iterator[str]:
    for attribute in node.attr.values():
        for reference in (attribute.func, *attribute.list.func):
            if reference.name:
                yield reference.name


def _holders(functions: Any) -> frozenset[str]:
    """The functions that hold control flow of TensorFlow 1, or refer to such a function."""
    holders = {
        name
        for name, function in functions.items()
        if any(node.op in TF1_CONTROL_FLOW for node in function.node_def)
    }
    uses = {
        name: {used for node in function.node_def for used in (node.op, *_references(node))}
        for name, function in functions.items()
    }
    while callers := {name for name in uses.keys() - holders if uses[name] & holders}:
        holders |= callers
    return frozenset(holders)


def _inline(graph_def: Any, call: Any, functions: Any) -> None:
    function = functions[called_by(call, functions)]
    inputs = [tensor for tensor in call.input if not is_control(tensor)]
    before = [tensor for tensor in call.input if is_control(tensor)]
    arguments = dict(zip((a.name for a in function.signature.input_arg), inputs, strict=True))
    # A node without inputs is outside of every loop; a control edge puts it where the call is.
    anchors = [*before, *(f"^{node_name(tensor)}" for tensor in inputs[:1])]
    tensors = flat_tensors(function, functions, f"{call.name}/")
    tensors |= arguments
    for node in function.node_def:
        copy = graph_def.node.add()
        copy.CopyFrom(node)
        copy.name = f"{call.name}/{node.name}"
        copy.input[:] = [_renamed(tensor, tensors, call.name) for tensor in node.input]
        if not copy.input:
            copy.input.extend(anchors)
        if "frame_name" in copy.attr:  # otherwise two calls would share a loop
            copy.attr["frame_name"].s = f"{call.name}/".encode() + copy.attr["frame_name"].s
        copy.attr.pop("_class", None)
    results = [
        _renamed(function.ret[r.name], tensors, call.name) for r in function.signature.output_arg
    ]
    _reconnect(graph_def, call.name, results)


def flat_tensors(function: Any, functions: Any, prefix: str) -> dict[str, str]:
    """The tensors of a function's nodes, `node:output:0`, by their names in a graph, `node:0`."""
    tensors = {}
    for node in function.node_def:
        called = functions.get(node.op)
        definition = called.signature if called else op_def_registry.get(node.op)
        position = 0
        for result in definition.output_arg:
            for number in range(_extent(result, node, definition)):
                tensors[f"{node.name}:{result.name}:{number}"] = f"{prefix}{node.name}:{position}"
                position += 1
    return tensors


def _extent(result: Any, node: Any, definition: Any) -> int:
    """How many tensors an output is (core/framework/node_def_util.cc, ComputeArgRange)."""
    for name in filter(None, (result.number_attr, result.type_list_attr)):
        default = next(a.default_value for a in definition.attr if a.name == name)
        value = node.attr.get(name, default)
        return int(value.i) if name == result.number_attr else len(value.list.type)
    return 1


def _renamed(tensor: str, tensors: dict[str, str], call: str) -> str:
    if not is_control(tensor):
        return tensors[tensor]
    name = node_name(tensor)
    return f"^{node_name(tensors[name])}" if name in tensors else f"^{call}/{name}"


def _reconnect(graph_def: Any, call: str, results: list[str]) -> None:
    """Readers of a call's results read those of the inlined nodes."""
    after = [f"^{name}" for name in dict.fromkeys(map(node_name, results))]
    for node in graph_def.node:
        if not any(node_name(tensor) == call for tensor in node.input):
            continue
        inputs: list[str] = []
        for tensor in node.input:
            if node_name(tensor) != call:
                inputs.append(tensor)
            elif is_control(tensor):
                inputs += after
            else:
                inputs.append(results[int(tensor.partition(":")[2] or 0)])
        node.input[:] = inputs


def _drop_strays(nodes: Any) -> None:
    strays = {
        node.name
        for node in nodes
        if node.op == "Placeholder" and node.name.rpartition("/")[2].startswith(_STRAY)
    }
    for node in nodes:
        if any(node_name(tensor) in strays for tensor in node.input):
            node.input[:] = [t for t in node.input if node_name(t) not in strays]
