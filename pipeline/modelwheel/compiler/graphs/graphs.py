"""Walks a GraphDef with its library of functions (tensorflow/core/framework/graph.proto)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

GRAPH = ""
"""The name of the graph itself among the functions."""

_CALLS = frozenset({"StatefulPartitionedCall", "PartitionedCall", "Func"})


class Graph:
    """A GraphDef's nodes by function and name."""

    def __init__(self, graph_def: Any) -> None:
        self.functions = {
            function.signature.name: function for function in graph_def.library.function
        }
        self.nodes: dict[str, dict[str, Any]] = {
            name: {node.name: node for node in function.node_def}
            for name, function in self.functions.items()
        }
        self.nodes[GRAPH] = {node.name: node for node in graph_def.node}

    def reach(self, tensors: Iterable[str], *, control: bool) -> dict[str, set[str]]:
        """The nodes that the graph's `tensors` depend on: names of nodes by function.

        Args:
            tensors: Names of nodes or tensors of the graph itself.
            control: Whether to follow control edges too, which lead to what runs for its side effects.
        """
        reached: dict[str, set[str]] = {}
        waiting = [(GRAPH, tensor) for tensor in tensors]
        while waiting:
            function, tensor = waiting.pop()
            name = node_name(tensor)
            known = reached.setdefault(function, set())
            if name in known or name not in self.nodes[function]:  # known, or an argument
                continue
            known.add(name)
            node = self.nodes[function][name]
            waiting += [
                (function, tensor) for tensor in node.input if control or not is_control(tensor)
            ]
            for called in self.called(node):
                if called not in reached:
                    # Once for each function: all its results count, even if a caller uses one.
                    reached[called] = set()
                    waiting += [(called, tensor) for tensor in self._results(called, control)]
        return reached

    def called(self, node: Any) -> Iterator[str]:
        """Names of the functions that a node refers to, in a fixed order."""
        if node.op in self.functions:
            yield node.op
        # A protobuf map has no order of its own; functions are numbered in this one.
        for _, attribute in sorted(node.attr.items()):
            for reference in (attribute.func, *attribute.list.func):
                if reference.name in self.functions:
                    yield reference.name

    def _results(self, function: str, control: bool) -> list[str]:
        definition = self.functions[function]
        controls = definition.control_ret.values() if control else ()
        return [*definition.ret.values(), *controls]


def is_control(tensor: str) -> bool:
    """Whether an input of a node is a control edge."""
    return tensor.startswith("^")


def node_name(tensor: str) -> str:
    """The node of a tensor (`a/b:0`), of a function's tensor (`a/b:out:0`) or of a control edge."""
    return tensor.removeprefix("^").partition(":")[0]


def layer_name(node: str) -> str:
    """The layer of a node: its name without leading calls and without the operation at the end.

    >>> layer_name("StatefulPartitionedCall/model/dense/MatMul")
    'model/dense'
    """
    parts = node.split("/")
    while len(parts) > 1 and parts[0].rstrip("_0123456789") in _CALLS:
        del parts[0]
    return "/".join(parts[:-1]) or parts[-1]


def call_function(
    node: Any, function: str, arguments: Sequence[int], results: Sequence[int]
) -> None:
    """Makes a node call a function of its inputs instead of what it does.

    Args:
        node: It is changed, but for its name and inputs.
        function: The name of a function in the library.
        arguments: Types of its arguments, by their numbers in types.proto.
        results: Types of its results.
    """
    node.op = "PartitionedCall"
    node.attr.clear()
    node.attr["Tin"].list.type.extend(arguments)
    node.attr["Tout"].list.type.extend(results)
    node.attr["f"].func.name = function


def rename_tensor(body: Any, old: str, new: str) -> None:
    """Makes what reads a tensor read another one.

    Args:
        body: A GraphDef (tensors are `a/b:0`), or a FunctionDef with its results (`a/b:output:0`).
        old: A tensor as nodes of the body call it.
        new: The other one.
    """
    for node in nodes_of(body):
        node.input[:] = [new if tensor == old else tensor for tensor in node.input]
    results = body.ret if is_function(body) else {}
    for name, tensor in results.items():
        if tensor == old:
            results[name] = new


def bodies(graph_def: Any) -> list[Any]:
    """The graph itself, and its functions."""
    return [graph_def, *graph_def.library.function]


def nodes_of(body: Any) -> Any:
    """The nodes of a GraphDef or FunctionDef."""
    return body.node_def if is_function(body) else body.node


def is_function(body: Any) -> bool:
    """Whether it is a FunctionDef: the tensors in it have names of results in them."""
    return hasattr(body, "node_def")
