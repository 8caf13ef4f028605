"""A model's graph and functions, checked, with what each node reads and calls as numbers of nodes.

A model may have 100 000 nodes, so each message is read once, and walking is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import UnsupportedModelError
from .graph_tensors import output_types
from .graphs import GRAPH, Graph, node_name

_MANY = 10**18
_GRADIENT_TYPE = "_gradient_op_type"
# Of functions: names of others that TensorFlow puts in their place or takes their gradients from.
_NAMING = ("forward_function_name", "backward_function_name")
_IMPLEMENTS = "api_implements"
# As TensorFlow writes a tensor that is not output 0 of its node (core/graph/tensor_id.cc, and in functions with the
# output's name, core/framework/function.proto).
_OF_GRAPH = re.compile(r"[^^:][^:]*:[0-9]{1,9}")
_OF_FUNCTION = re.compile(r"[^^:][^:]*(:\w+)?:[0-9]{1,9}")


class Body:
    """The nodes of one function, or of the graph itself."""

    def __init__(self, name: str, nodes: Iterable[Any], arguments: Iterable[str] = ()) -> None:
        self.name = name
        self.nodes = list(nodes)
        self.names = [node.name for node in self.nodes]
        self.ops = [node.op for node in self.nodes]
        self.index = {node: number for number, node in enumerate(self.names)}
        self.arguments = {argument: number for number, argument in enumerate(arguments)}
        if len(self.index) != len(self.nodes):
            seen: set[str] = set()
            twice = next(node for node in self.names if node in seen or seen.add(node))  # type: ignore[func-returns-value]
            raise _damage(f"it has two nodes called {twice!r}{self._where()}")
        self.tensors: list[list[str]] = []
        """What each node reads: tensors, then control edges."""
        self.data: list[list[int]] = []
        """As numbers of nodes, without arguments of the function."""
        self.controls: list[list[int]] = []
        """The nodes that each node waits for."""
        for number, node in enumerate(self.nodes):
            self._read_inputs(number, node)
        self.order = self._sort()
        """Numbers of all nodes, each after what it reads."""
        self.calls: list[tuple[str, ...]] = [()] * len(self.nodes)
        """The functions that each node names."""

    def _read_inputs(self, number: int, node: Any) -> None:
        tensors = list(node.input)
        data: list[int] = []
        controls: list[int] = []
        for tensor in tensors:
            name = node_name(tensor)
            position = self.index.get(name)
            if position is not None:
                (controls if tensor[0] == "^" else data).append(position)
            elif name not in self.arguments:
                raise _damage(
                    f"node {self.names[number]!r} reads {tensor!r}, which does not exist{self._where()}"
                )
            if ":" in tensor and not (_OF_FUNCTION if self.name else _OF_GRAPH).fullmatch(tensor):
                raise _damage(
                    f"node {self.names[number]!r} reads {tensor!r}, which is not the name of a "
                    f"tensor{self._where()}"
                )
        self.tensors.append(tensors)
        self.data.append(data)
        self.controls.append(controls)

    def _sort(self) -> list[int]:
        waiting = [0] * len(self.nodes)
        readers: list[list[int]] = [[] for _ in self.nodes]
        for number in range(len(self.nodes)):
            # Loops of TensorFlow 1 are cycles, which close from NextIteration to Merge.
            merges = self.ops[number] == "Merge"
            for read in {*self.data[number], *self.controls[number]}:
                if not (merges and self.ops[read] == "NextIteration"):
                    readers[read].append(number)
                    waiting[number] += 1
        order = [number for number, count in enumerate(waiting) if not count]
        for number in order:  # grows while it is walked
            for reader in readers[number]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    order.append(reader)
        if len(order) < len(self.nodes):
            stuck = next(number for number, count in enumerate(waiting) if count)
            raise _damage(f"node {self.names[stuck]!r} depends on its own result{self._where()}")
        return order

    def _where(self) -> str:
        return f" in function {self.name!r}" if self.name else ""

    def find(self, tensors: Iterable[str]) -> Iterator[int]:
        """The nodes of tensors; arguments of the function are left out."""
        for tensor in tensors:
            number = self.index.get(node_name(tensor))
            if number is not None:
                yield number

    def reach(self, start: Iterable[int], *, control: bool) -> set[int]:
        """The nodes that others depend on, those included."""
        reached = set(start)
        waiting = list(reached)
        while waiting:
            number = waiting.pop()
            for read in self.data[number]:
                if read not in reached:
                    reached.add(read)
                    waiting.append(read)
            if control:
                for read in self.controls[number]:
                    if read not in reached:
                        reached.add(read)
                        waiting.append(read)
        return reached


@dataclass(frozen=True)
class Roots:
    """Where running begins."""

    tensors: tuple[str, ...] = ()
    """Of the graph itself."""
    functions: tuple[str, ...] = ()


@dataclass
class Reach:
    """The nodes that run from some roots, as numbers of nodes by function."""

    values: dict[str, set[int]] = field(default_factory=dict)
    """The nodes on whose values the results depend."""
    runs: dict[str, set[int]] = field(default_factory=dict)
    """All nodes that run: also along control edges, and whatever is in a function that is called."""


class Library:
    """All bodies of a model."""

    def __init__(self, graph_def: Any) -> None:
        definitions = graph_def.library.function
        self.definitions = {f.signature.name: f for f in definitions}
        if len(self.definitions) != len(definitions):
            raise _damage("it has two functions of one name")
        self.bodies = {GRAPH: Body(GRAPH, graph_def.node)}
        for name, function in self.definitions.items():
            arguments = [argument.name for argument in function.signature.input_arg]
            self.bodies[name] = Body(name, function.node_def, arguments)
        self._gradients = _read_gradients(graph_def.library)
        self._implementations: dict[str, list[str]] = {}
        for name, function in self.definitions.items():
            if _IMPLEMENTS in function.attr:
                group = function.attr[_IMPLEMENTS].s.decode("utf-8", "replace")
                self._implementations.setdefault(group, []).append(name)
        self._missing: dict[str, str] = {}
        self._check_outputs(graph_def)
        for body in self.bodies.values():
            self._read_calls(body)
        self.sizes, self.depths = self._measure()

    def _read_calls(self, body: Body) -> None:
        for number, node in enumerate(body.nodes):
            called = list(_functions_of(node))
            if body.ops[number] in self.definitions:
                called.append(body.ops[number])
            if called:
                known = tuple(dict.fromkeys(n for n in called if n in self.definitions))
                body.calls[number] = known
                if len(known) < len(set(called)):
                    absent = next(n for n in called if n not in self.definitions)
                    self._missing.setdefault(
                        body.name,
                        f"node {body.names[number]!r} calls {absent!r}, which does not exist",
                    )

    def _check_outputs(self, graph_def: Any) -> None:
        """Refuses inputs of the graph's nodes that are outputs which their nodes do not have."""
        body, graph = self.bodies[GRAPH], Graph(graph_def)
        for name, tensors in zip(body.names, body.tensors, strict=True):
            for tensor in tensors:
                node, colon, index = tensor.partition(":")
                # Output 0 is what most read, and what a node without outputs fails at when it is imported.
                if colon and int(index):
                    types = output_types(body.nodes[body.index[node]], graph)
                    if types is not None and int(index) >= len(types):
                        raise _damage(
                            f"node {name!r} reads {tensor!r}, but {node!r} has {len(types)} outputs"
                        )

    def results(self, function: str) -> list[str]:
        """The tensors that a function returns."""
        definition = self.definitions[function]
        for argument in definition.signature.output_arg:
            if argument.name not in definition.ret:
                raise _damage(f"function {function!r} has no result {argument.name!r}")
        return [definition.ret[argument.name] for argument in definition.signature.output_arg]

    def reach(self, roots: Roots) -> Reach:
        """The nodes that run from some roots."""
        reach = Reach()
        graph = self.bodies[GRAPH]
        start = list(graph.find(roots.tensors))
        self._follow(reach.values, graph.reach(start, control=False), roots.functions, values=True)
        self._follow(reach.runs, graph.reach(start, control=True), roots.functions, values=False)
        return reach

    def _follow(
        self,
        reached: dict[str, set[int]],
        nodes: set[int],
        functions: Iterable[str],
        *,
        values: bool,
    ) -> None:
        reached[GRAPH] = nodes
        waiting = [(GRAPH, name) for name in functions if name in self.bodies]
        self._add_calls(GRAPH, nodes, waiting, values=values)
        while waiting:
            _, name = waiting.pop()
            if name in reached:
                continue
            body = self.bodies[name]
            # TensorFlow may run every stateful node of a function that it calls, even one that no
            # edge leads to (PruneFunctionGraph in core/common_runtime/function_utils.cc keeps it).
            reached[name] = (
                body.reach(body.find(self.results(name)), control=False)
                if values
                else set(range(len(body.nodes)))
            )
            self._add_calls(name, reached[name], waiting, values=values)

    def _add_calls(
        self, name: str, nodes: set[int], waiting: list[tuple[str, str]], *, values: bool
    ) -> None:
        if name in self._missing:
            raise _damage(self._missing[name])
        body = self.bodies[name]
        for number in nodes:
            if body.calls[number]:
                waiting += [(name, called) for called in body.calls[number]]
            if not values and _GRADIENT_TYPE in body.nodes[number].attr:
                kind = body.nodes[number].attr[_GRADIENT_TYPE].s.decode("utf-8", "replace")
                waiting += [(name, gradient) for gradient in self._gradients.get(f"op {kind}", ())]
        if not values and name:
            waiting += [(name, other) for other in self._named(name) if other in self.bodies]

    def _named(self, name: str) -> Iterator[str]:
        """Functions that TensorFlow may run in the place of another, or as its gradient."""
        attributes = self.definitions[name].attr
        for key in _NAMING:
            if key in attributes:
                yield attributes[key].s.decode("utf-8", "replace")
        if _IMPLEMENTS in attributes:
            group = attributes[_IMPLEMENTS].s.decode("utf-8", "replace")
            yield from self._implementations[group]
        yield from self._gradients.get(f"function {name}", ())

    def _measure(self) -> tuple[dict[str, int], dict[str, int]]:
        """For each body, the nodes after inlining all calls, and the depth of calls."""
        sizes: dict[str, int] = {}
        depths: dict[str, int] = {}
        for root in self.bodies:
            waiting, path = [(root, False)], set[str]()
            while waiting:
                name, done = waiting.pop()
                if name in sizes and name not in path:
                    continue
                calls = [c for called in self.bodies[name].calls for c in called]
                if done:
                    path.discard(name)
                    nodes = len(self.bodies[name].nodes) + sum(sizes[called] for called in calls)
                    sizes[name] = min(nodes, _MANY)
                    depths[name] = 1 + max((depths[called] for called in calls), default=0)
                    continue
                path.add(name)
                waiting.append((name, True))
                for called in dict.fromkeys(calls):
                    if called in path:
                        raise _damage(f"function {called!r} calls itself")
                    if called not in sizes:
                        waiting.append((called, False))
        return sizes, depths

    def inlined(self, reach: Reach) -> tuple[int, int, str]:
        """The size of all that runs when calls are inlined: nodes, the depth of calls, and the deepest function."""
        body, nodes = self.bodies[GRAPH], reach.runs[GRAPH]
        calls = [called for number in nodes for called in body.calls[number]]
        if not calls:  # what TensorFlow calls without a node in the graph
            calls = [name for name in reach.runs if name]
        size = len(nodes) + sum(self.sizes[called] for called in calls)
        name = max(calls, key=self.depths.__getitem__, default="")
        depth, deepest = self.depths[name] if name else 0, name
        while name:
            deepest = name
            further = [called for names in self.bodies[name].calls for called in names]
            name = max(further, key=self.depths.__getitem__, default="")
        return min(size, _MANY), depth, deepest


def _functions_of(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.WhichOneof("value") in ("func", "list"):
            yield from _functions_in(value)


def _functions_in(value: Any) -> Iterator[str]:
    """Names of functions in an attribute, also in the attributes of a function that it names."""
    kind = value.WhichOneof("value")
    if kind == "func":
        references = [value.func]
    elif kind == "list":
        references = list(value.list.func)
    else:
        return
    for reference in references:
        if reference.name:
            yield reference.name
        for inner in reference.attr.values():
            yield from _functions_in(inner)


def _read_gradients(library: Any) -> dict[str, list[str]]:
    gradients: dict[str, list[str]] = {}
    for gradient in library.gradient:
        gradients.setdefault(f"function {gradient.function_name}", []).append(
            gradient.gradient_func
        )
    for gradient in library.registered_gradients:
        gradients.setdefault(f"op {gradient.registered_op_type}", []).append(gradient.gradient_func)
    functions = {function.signature.name for function in library.function}
    return {key: [name for name in names if name in functions] for key, names in gradients.items()}


def _damage(what: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the model is damaged: {what}; export or fetch it again", code="MW416"
    )
