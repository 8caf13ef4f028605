"""Finds what an ONNX file holds by reading it: operations, sizes, loops; nothing is executed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from ....errors import UnsupportedModelError
from ....model.inspection import (
    Cost,
    EndlessLoop,
    Inspection,
    LargeTensor,
    OpUse,
    SignatureUse,
    Support,
)
from ....model.readings import OnnxReading
from ....util.text import one_line
from .. import DEFAULT_SIGNATURE
from .onnx_file import (
    STANDARD,
    every_graph,
    graphs_of,
    node_name,
    opsets_of,
    read_model,
    read_signature,
    tensors_of,
)
from .onnx_values import with_valid_values
from .operators.onnx_graph import describe, subgraphs
from .operators.onnx_node import CLASSICAL
from .operators.support import DEPENDS_ON_VALUES, UNSUPPORTED, is_known

_NAMES_KEPT = 8
_CALLS_KEPT = 16
"""Calls of a function that differ in which of its inputs are known; of further ones counts what all know."""
_LIMIT = 10**18
_MAX_LEVELS = 100
"""Of calls of functions and graphs inside nodes, together."""
_Functions = Mapping[tuple[str, str], Any]


def inspect_file(model: Path, reading: OnnxReading) -> Inspection:
    """The inspection of an ONNX file.

    Raises:
        UnsupportedModelError: It is damaged, or has operations that are not ONNX's own.
    """
    parsed = read_model(model, reading)
    functions = {(f.domain, f.name): f for f in parsed.functions}
    graphs = list(every_graph(parsed))
    _refuse_custom(parsed, functions)
    signature = read_signature(parsed, reading.constants)
    costs = _Costs(functions)
    nodes, depth = costs.of(parsed.graph)
    producer = " ".join(filter(None, (parsed.producer_name, parsed.producer_version)))
    return Inspection(
        written_by=one_line(producer) or "unknown",
        tags=(),
        signatures=(with_valid_values(signature, parsed.graph),),
        ops=tuple(_tabulate(parsed, graphs, functions, reading)),
        assets=(),
        graph_bytes=parsed.ByteSize(),
        nodes=sum(len(graph.node) for graph in graphs),
        functions=len(functions),
        costs={signature.key: Cost(nodes=nodes, depth=depth, loops=tuple(_loops(graphs)))},
        largest=_largest(graphs),
    )


def _refuse_custom(model: onnx.ModelProto, functions: _Functions) -> None:
    opsets = opsets_of(model.opset_import)
    _refuse_custom_of(model.graph, functions, opsets)
    for function in model.functions:  # each has versions of its own
        _refuse_custom_of(function, functions, {**opsets, **opsets_of(function.opset_import)})


def _refuse_custom_of(top: Any, functions: _Functions, opsets: Mapping[str, int]) -> None:
    for graph in graphs_of(top):
        for node in graph.node:
            if (node.domain, node.op_type) in functions:
                continue
            place = f"{one_line(describe(node))} (domain {one_line(node.domain or 'ai.onnx')})"
            version = opsets.get("" if node.domain in STANDARD else node.domain, 1)
            if is_known(node.op_type, node.domain, version):
                continue
            if node.domain not in (*STANDARD, CLASSICAL):
                raise UnsupportedModelError(
                    f"{place} is a custom operation, which is not compiled; export the model with ONNX's "
                    "own operations (in ONNX Runtime's tools: without its graph optimisations)",
                    code="MW402",
                )
            raise UnsupportedModelError(
                f"{place} is not an operation of opset {version} that modelwheel compiles; check the file "
                "with onnx.checker.check_model, or write it with other operations",
                code="MW401",
            )


# --- operations -----------------------------------------------------------------------------------


@dataclass
class _Uses:
    count: int = 0
    layers: dict[str, None] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)

    def add(self, function: str, layer: str) -> None:
        self.count += 1
        for names, name in ((self.functions, function), (self.layers, layer)):
            if len(names) < _NAMES_KEPT:
                names[name] = None


def _tabulate(
    model: onnx.ModelProto, graphs: Iterable[Any], functions: _Functions, reading: OnnxReading
) -> Iterator[OpUse]:
    uses: dict[tuple[str, Support], _Uses] = defaultdict(_Uses)
    undecided = _Undecided(functions)
    undecided.visit(model.graph, (frozenset(reading.constants),))
    for graph in graphs:
        name = "" if graph is model.graph else graph.name
        for place, node in enumerate(graph.node):
            if (node.domain, node.op_type) not in functions:
                refused = node.op_type in UNSUPPORTED or (id(graph), place) in undecided.found
                support: Support = "unsupported" if refused else "compiled"
                uses[node.op_type, support].add(name, node_name(node))
    for (op, support), use in sorted(uses.items()):
        layers = tuple(use.layers)
        yield OpUse(
            op=op,
            support=support,
            count=use.count,
            functions=tuple(use.functions),
            layers=layers,
            signatures={DEFAULT_SIGNATURE: SignatureUse(count=use.count, layers=layers)},
        )


class _Undecided:
    """Nodes whose number of results depends on values that are unknown before the model runs."""

    def __init__(self, functions: _Functions) -> None:
        self._functions = functions
        self._visited: dict[int, set[frozenset[str]]] = defaultdict(set)
        self.found: set[tuple[int, int]] = set()
        """By the identity of their graph and their place in it."""

    def visit(self, graph: Any, outside: tuple[Collection[str], ...]) -> None:
        """Finds those of a graph and of what it calls, given the known names around it."""
        fixed = {tensor.name for tensor in getattr(graph, "initializer", ())}
        scope = (*outside, fixed)
        for place, node in enumerate(graph.node):
            inner = list(subgraphs(node))
            known = [not name or any(name in names for names in scope) for name in node.input]
            # Of Compress only the condition counts.
            decisive = known[1:] if node.op_type == "Compress" else known
            if node.op_type in DEPENDS_ON_VALUES and not all(decisive):
                self.found.add((id(graph), place))
            constant = node.op_type in ("Constant", "Shape", "Size") or (known and all(known))
            if constant and not inner:
                fixed.update(node.output)
            for body in inner:
                self.visit(body, scope)
            called = self._functions.get((node.domain, node.op_type))
            if called is not None:
                self._call(called, known)

    def _call(self, function: onnx.FunctionProto, known: Sequence[bool]) -> None:
        arguments = frozenset(n for n, k in zip(function.input, known, strict=False) if k)
        seen = self._visited[id(function)]
        if len(seen) >= _CALLS_KEPT:  # of a function with 60 inputs, 2^60 calls may differ
            arguments = arguments.intersection(*seen)
        if arguments not in seen:
            seen.add(arguments)
            self.visit(function, (arguments,))


# --- sizes ----------------------------------------------------------------------------------------


@dataclass
class _Costs:
    """Nodes after inlining, and the depth of calls."""

    functions: _Functions
    _known: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    _open: list[tuple[str, str]] = field(default_factory=list)

    def of(self, graph: Any, level: int = 0) -> tuple[int, int]:
        """For a graph that so many calls and graphs surround."""
        nodes, depth = 0, 0
        for node in graph.node:
            key = (node.domain, node.op_type)
            inner = [self.of(graph, level + 1) for graph in subgraphs(node)]
            if key in self.functions:
                inner.append(self._of_function(key, level + 1))
            nodes += 1 + sum(count for count, _ in inner)
            depth = max([depth, *(1 + deep for _, deep in inner)])
            if level + depth > _MAX_LEVELS:
                raise UnsupportedModelError(
                    f"around {one_line(describe(node))}, calls and graphs nest more than {_MAX_LEVELS} levels; "
                    "export the model with fewer nested conditions, loops and functions"
                )
        return min(nodes, _LIMIT), depth

    def _of_function(self, key: tuple[str, str], level: int) -> tuple[int, int]:
        if key in self._open or level > _MAX_LEVELS:
            raise UnsupportedModelError(
                f"the function {one_line(repr(key[1]))} calls itself, or calls nest more than {_MAX_LEVELS} "
                "levels; ONNX allows no recursion"
            )
        if key not in self._known:
            self._open.append(key)
            self._known[key] = self.of(self.functions[key], level)
            self._open.pop()
        return self._known[key]


def _largest(graphs: Iterable[Any]) -> LargeTensor | None:
    tensors = [
        LargeTensor(node=one_line(name), function="", elements=min(math.prod(t.dims), _LIMIT))
        for graph in graphs
        for name, t in tensors_of(graph)
    ]
    return max(tensors, key=lambda tensor: tensor.elements, default=None)


def _loops(graphs: Iterable[Any]) -> Iterator[EndlessLoop]:
    """Loops with a number of turns that is a constant of their own graph."""
    for graph in graphs:
        values = {tensor.name: tensor for tensor in getattr(graph, "initializer", ())}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute and node.output:
                value = helper.get_attribute_value(node.attribute[0])
                if isinstance(value, TensorProto):
                    values[node.output[0]] = value
            count = values.get(node.input[0]) if node.op_type == "Loop" and node.input else None
            if count is not None and math.prod(count.dims) == 1:
                turns = _scalar(count)
                if turns is not None and turns > 1000:
                    yield EndlessLoop(node=node_name(node), function="", turns=turns)


def _scalar(tensor: TensorProto) -> int | None:
    if uses_external_data(tensor):  # ONNX would open a file below the working directory
        return None
    try:
        return int(numpy_helper.to_array(tensor).reshape(()))
    except (ValueError, TypeError):
        return None
