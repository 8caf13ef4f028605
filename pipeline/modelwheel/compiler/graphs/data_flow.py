"""Follows values through a graph with functions: which variables outputs depend on, and which writes nothing reads.

A write matters if an output depends on what it writes: in this call, or in a later one through variables whose writes
matter. All others are left out: the counters of seeds whose random numbers only training uses, say. Values are followed
result by result through calls, branches and loops; what is not understood depends on all that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

from .graphs import GRAPH, Graph, is_control, node_name
from .op_effects import effect_of

Tensor: TypeAlias = tuple[str, str]
"""A function, and a tensor in it."""
Place: TypeAlias = tuple[str, str]
"""A function, and a node in it."""

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
CONDITIONS = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
"""Their first input chooses a branch and is not passed to it."""
LOOPS = frozenset({"While", "StatelessWhile"})
_PIVOTS = frozenset({"Identity", "Switch"})
"""Of TensorFlow 1: what waits for one runs in its branch only."""
_RESOURCES = frozenset({"VarHandleOp", "Placeholder"})
_PASSES_ON = frozenset(
    {"Identity", "Enter", "Exit", "NextIteration", "Switch", "Merge", "IdentityN"}
)


@dataclass(frozen=True)
class Write:
    """An operation that writes variables."""

    place: Place
    node: Any
    targets: frozenset[str]
    """The nodes of the graph itself that are its variables."""


class Flow:
    """The values that some outputs depend on."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._callers = _callers(graph)

    # --- one step back ------------------------------------------------------------------------

    def back(self, function: str, tensor: str) -> Iterator[Tensor]:
        """The tensors that one tensor is computed from."""
        node = self.graph.nodes[function].get(node_name(tensor))
        if node is None:
            yield from self._passed(function, tensor)
            return
        inputs = [name for name in node.input if not is_control(name)]
        called = list(self.graph.called(node))
        if not called:
            wanted = _output(tensor) if node.op == "IdentityN" else None
            yield from ((function, name) for n, name in enumerate(inputs) if wanted in (None, n))
        elif node.op in CALLS or node.op in self.graph.functions:
            yield called[0], self._result(called[0], self._number(node, tensor))
        elif node.op in CONDITIONS:
            yield function, inputs[0]
            yield from ((name, self._result(name, _output(tensor))) for name in called)
        elif node.op in LOOPS:
            yield function, inputs[_output(tensor)]
            yield from self.condition(node)
            yield (
                node.attr["body"].func.name,
                self._result(node.attr["body"].func.name, _output(tensor)),
            )
        else:
            yield from ((function, name) for name in inputs)
            yield from ((name, result) for name in called for result in self._results(name))

    def condition(self, loop: Any) -> Iterator[Tensor]:
        """The tensor that decides whether a loop goes on."""
        name = loop.attr["cond"].func.name
        yield from ((name, result) for result in self._results(name))

    def _passed(self, function: str, tensor: str) -> Iterator[Tensor]:
        """The tensors that callers of a function pass as one of its arguments."""
        definition = self.graph.functions.get(function)
        names = [] if definition is None else [a.name for a in definition.signature.input_arg]
        if node_name(tensor) not in names:
            return
        position = names.index(node_name(tensor))
        for caller, node in self._callers.get(function, ()):
            inputs = [name for name in node.input if not is_control(name)]
            if node.op in LOOPS:
                body = node.attr["body"].func.name
                yield body, self._result(body, position)
            if node.op in CALLS | CONDITIONS | LOOPS or node.op in self.graph.functions:
                yield caller, inputs[position + (node.op in CONDITIONS)]
            else:
                yield from ((caller, name) for name in inputs)

    def _results(self, function: str) -> list[str]:
        definition = self.graph.functions[function]
        return [definition.ret[argument.name] for argument in definition.signature.output_arg]

    def _result(self, function: str, number: int) -> str:
        return self._results(function)[number]

    def _number(self, call: Any, tensor: str) -> int:
        """Which result of a function a tensor is: `f:1` in a graph, `f:name:0` in a function."""
        parts = tensor.split(":")
        if call.op in self.graph.functions and len(parts) == 3:
            outputs = self.graph.functions[call.op].signature.output_arg
            return [argument.name for argument in outputs].index(parts[1])
        return _output(tensor)

    # --- all the way --------------------------------------------------------------------------

    def reach(self, tensors: Iterable[Tensor], known: set[Tensor] | None = None) -> set[Tensor]:
        """Every tensor that some tensors are computed from, those included.

        Args:
            tensors: Where to begin.
            known: What was reached before; it is added to, and returned.
        """
        known = set() if known is None else known
        waiting = list(tensors)
        while waiting:
            place = waiting.pop()
            if place not in known:
                known.add(place)
                waiting += self.back(*place)
        return known

    def variables(self, reached: Iterable[Tensor]) -> set[str]:
        """The nodes of the graph itself among some tensors that may be variables."""
        nodes = self.graph.nodes[GRAPH]
        names = {node_name(tensor) for function, tensor in reached if function == GRAPH}
        return {name for name in names if name in nodes and nodes[name].op in _RESOURCES}

    def writes(self, running: Mapping[str, Iterable[str]]) -> list[Write]:
        """The operations among some nodes, by function, that write variables."""
        return [
            Write((function, name), node, self._targets(function, node))
            for function, names in sorted(running.items())
            for name in sorted(names)
            if effect_of((node := self.graph.nodes[function][name]).op) == "variable"
        ]

    def _targets(self, function: str, node: Any) -> frozenset[str]:
        """The nodes of the graph itself that the resources of a write come from."""
        # These operations have single inputs before any list, so positions are those of arguments.
        positions = [n for n in _resource_positions(node.op) if n < len(node.input)]
        waiting = [(function, node.input[n]) for n in positions]
        targets, seen = set(), set()
        while waiting:
            function, tensor = place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            source = self.graph.nodes[function].get(node_name(tensor))
            if source is None:  # an argument
                waiting += self._passed(function, tensor)
            elif source.op in _RESOURCES:
                if function == GRAPH:
                    targets.add(source.name)
            elif source.op in LOOPS:
                waiting.append((function, source.input[_output(tensor)]))
            elif source.op in _PASSES_ON:
                inputs = [name for name in source.input if not is_control(name)]
                chosen = {"Merge": inputs, "IdentityN": inputs[_output(tensor) :][:1]}
                waiting += [(function, name) for name in chosen.get(source.op, inputs[:1])]
        return frozenset(targets)

    def unread(
        self, outputs: Iterable[str], writes: Iterable[Write], read: Iterable[str] = ()
    ) -> list[Write]:
        """The writes of a signature that none of its outputs depends on, now or in a later call.

        Args:
            outputs: Tensors of the graph itself.
            writes: All that run.
            read: Variables that others read: nodes of the graph itself.
        """
        reached = self.reach((GRAPH, name) for name in (*outputs, *read))
        pending = list(writes)
        while True:
            variables = self.variables(reached)
            matters = [
                w
                for w in pending
                if _returns(w.node.op) or not w.targets.isdisjoint(variables) or not w.targets
            ]
            if not matters:
                return pending
            pending = [write for write in pending if write not in matters]
            for write in matters:
                self.reach(self._decided_by(write), reached)

    def _decided_by(self, write: Write) -> Iterator[Tensor]:
        """Everything that a write depends on: its inputs, and what decides whether it runs."""
        function, _ = write.place
        for name in write.node.input:
            pivot = self.graph.nodes[function].get(node_name(name))
            if not is_control(name):
                yield function, name
            elif pivot is not None and pivot.op in _PIVOTS:
                yield function, node_name(name)
        waiting, seen = [function], set()
        while waiting:
            function = waiting.pop()
            if function in seen:
                continue
            seen.add(function)
            for caller, node in self._callers.get(function, ()):
                waiting.append(caller)
                if node.op in CONDITIONS:
                    yield caller, node.input[0]
                elif node.op in LOOPS:
                    yield from self.condition(node)


def drop_unread_writes(graph_def: Any, outputs: Iterable[str], read: Iterable[str] = ()) -> None:
    """Removes the writes that no output depends on, in place; what waited for one waits for what it waited for.

    Args:
        graph_def: The graph of a signature.
        outputs: Its tensors.
        read: Variables that others read: nodes of the graph.
    """
    graph, outputs = Graph(graph_def), list(outputs)
    running = graph.reach(outputs, control=True)
    if not any(
        effect_of(graph.nodes[f][n].op) == "variable" for f, ns in running.items() for n in ns
    ):
        return
    flow = Flow(graph)
    unread: dict[str, dict[str, Any]] = {}
    for write in flow.unread(outputs, flow.writes(running), read):
        function, name = write.place
        unread.setdefault(function, {})[name] = write.node
    for function, nodes in unread.items():
        body = graph.functions[function].node_def if function else graph_def.node
        for node in body:
            if any(is_control(name) and node_name(name) in nodes for name in node.input):
                node.input[:] = _without(node.input, nodes)
        if function:
            _drop_results(graph.functions[function], nodes)
        for number in range(len(body) - 1, -1, -1):
            if body[number].name in nodes:
                del body[number]


def _without(inputs: Iterable[str], removed: Mapping[str, Any]) -> list[str]:
    """The inputs of a node, with what removed nodes wait for in the place of these."""
    kept: dict[str, None] = {}
    waiting = list(inputs)[::-1]
    while waiting:
        name = waiting.pop()
        if is_control(name) and node_name(name) in removed:
            waiting += [tensor for tensor in removed[node_name(name)].input if is_control(tensor)]
        else:
            kept[name] = None
    data = [name for name in inputs if not is_control(name)]
    return [*data, *(name for name in kept if is_control(name))]


def _drop_results(function: Any, removed: Mapping[str, Any]) -> None:
    """Removed nodes are not what a function waits for."""
    for key in [key for key, name in function.control_ret.items() if name in removed]:
        del function.control_ret[key]
        function.signature.control_output.remove(key)


Callers: TypeAlias = Mapping[str, list[tuple[str, Any]]]


def _callers(graph: Graph) -> Callers:
    """For each function, the nodes that refer to it, each with the function that it is in."""
    callers: dict[str, list[tuple[str, Any]]] = {}
    for function, nodes in graph.nodes.items():
        for node in nodes.values():
            for called in graph.called(node):
                callers.setdefault(called, []).append((function, node))
    return callers


def _output(tensor: str) -> int:
    """The number of an output: 0 in `a`, 2 in `a:2` and in `a:output:2`."""
    number = tensor.rpartition(":")[2]
    return int(number) if number.isdigit() else 0


def _returns(op: str) -> bool:
    """Whether a write has results too."""
    return len(op_def_registry.get(op).output_arg) > 0


@cache
def _resource_positions(op: str) -> tuple[int, ...]:
    arguments = op_def_registry.get(op).input_arg
    return tuple(i for i, a in enumerate(arguments) if a.type == types_pb2.DT_RESOURCE)
