"""What an ONNX file holds, found by reading it: operations, sizes, loops; nothing is executed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper

from ....errors import UnsupportedModelError
from ....util.text import one_line
from ...inspection import Cost, EndlessLoop, Inspection, LargeTensor, OpUse, SignatureUse, Support
from ...readings import OnnxReading
from . import DEFAULT_SIGNATURE
from .onnx_file import (
    STANDARD,
    every_graph,
    node_name,
    opset_of,
    read_model,
    read_signature,
    tensors_of,
)
from .onnx_operators.graph import describe, subgraphs
from .onnx_operators.node import CLASSICAL
from .onnx_operators.support import DEPENDS_ON_VALUES, UNSUPPORTED, is_known
from .onnx_values import with_valid_values

_NAMES_KEPT = 8
_LIMIT = 10**18
_Functions = Mapping[tuple[str, str], Any]


def inspect_file(model: Path, reading: OnnxReading) -> Inspection:
    """The inspection of an ONNX file.

    Raises:
        UnsupportedModelError: It is damaged, or has operations that are not ONNX's own.
    """
    parsed = read_model(model, reading)
    functions = {(f.domain, f.name): f for f in parsed.functions}
    graphs = list(every_graph(parsed))
    _refuse_custom(graphs, functions, parsed)
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


def _refuse_custom(graphs: Iterable[Any], functions: _Functions, model: onnx.ModelProto) -> None:
    opset = opset_of(model)
    opsets = {o.domain: o.version for o in model.opset_import}
    for graph in graphs:
        for node in graph.node:
            if (node.domain, node.op_type) in functions:
                continue
            place = f"{one_line(describe(node))} (domain {one_line(node.domain or 'ai.onnx')})"
            version = opset if node.domain in STANDARD else opsets.get(node.domain, 1)
            if is_known(node.op_type, node.domain, version):
                continue
            if node.domain not in (*STANDARD, CLASSICAL):
                raise UnsupportedModelError(
                    f"{place} is a custom operation, which is not compiled; export the model with ONNX's "
                    "own operations (in ONNX Runtime's tools: without its graph optimisations)"
                )
            raise UnsupportedModelError(
                f"{place} is not an operation of opset {version} that modelwheel compiles; check the file "
                "with onnx.checker.check_model, or write it with other operations"
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
    fixed = _fixed_names(model, reading)
    for graph in graphs:
        name = "" if graph is model.graph else graph.name
        for node in graph.node:
            if (node.domain, node.op_type) not in functions:
                uses[node.op_type, _support(node, fixed)].add(name, node_name(node))
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


def _support(node: onnx.NodeProto, fixed: set[str]) -> Support:
    if node.op_type in UNSUPPORTED:
        return "unsupported"
    # Of Compress only the condition counts.
    decisive = node.input[1:] if node.op_type == "Compress" else node.input
    if node.op_type in DEPENDS_ON_VALUES and not fixed.issuperset(filter(None, decisive)):
        return "unsupported"
    return "compiled"


def _fixed_names(model: onnx.ModelProto, reading: OnnxReading) -> set[str]:
    """Values of the graph that may be known before it runs: from constants and shapes."""
    fixed = {tensor.name for tensor in model.graph.initializer} | set(reading.constants)
    for node in model.graph.node:
        known = node.op_type in ("Constant", "Shape", "Size") or (
            bool(node.input) and fixed.issuperset(filter(None, node.input))
        )
        if known and not any(True for _ in subgraphs(node)):
            fixed.update(node.output)
    return fixed


# --- sizes ----------------------------------------------------------------------------------------


@dataclass
class _Costs:
    """Nodes after inlining, and the depth of calls."""

    functions: _Functions
    _known: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    _open: list[tuple[str, str]] = field(default_factory=list)

    def of(self, graph: Any) -> tuple[int, int]:
        nodes, depth = 0, 0
        for node in graph.node:
            key = (node.domain, node.op_type)
            inner = [self.of(each) for each in subgraphs(node)]
            if key in self.functions:
                inner.append(self._of_function(key))
            nodes += 1 + sum(count for count, _ in inner)
            depth = max([depth, *(1 + deep for _, deep in inner)])
        return min(nodes, _LIMIT), depth

    def _of_function(self, key: tuple[str, str]) -> tuple[int, int]:
        if key in self._open or len(self._open) > 100:
            raise UnsupportedModelError(
                f"the function {one_line(repr(key[1]))} calls itself, or calls nest more than 100 "
                "levels; ONNX allows no recursion"
            )
        if key not in self._known:
            self._open.append(key)
            self._known[key] = self.of(self.functions[key])
            self._open.pop()
        return self._known[key]


def _largest(graphs: Iterable[Any]) -> LargeTensor | None:
    found = [
        LargeTensor(node=one_line(name), function="", elements=min(math.prod(t.dims), _LIMIT))
        for graph in graphs
        for name, t in tensors_of(graph)
    ]
    return max(found, key=lambda tensor: tensor.elements, default=None)


def _loops(graphs: Iterable[Any]) -> Iterator[EndlessLoop]:
    """Loops with a number of turns that is a constant of their own graph."""
    for graph in graphs:
        values = {tensor.name: tensor for tensor in getattr(graph, "initializer", ())}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute:
                value = helper.get_attribute_value(node.attribute[0])
                if isinstance(value, TensorProto):
                    values[node.output[0]] = value
            count = values.get(node.input[0]) if node.op_type == "Loop" and node.input else None
            if count is not None and math.prod(count.dims) == 1:
                turns = _scalar(count)
                if turns is not None and turns > 1000:
                    yield EndlessLoop(node=node_name(node), function="", turns=turns)


def _scalar(tensor: TensorProto) -> int | None:
    try:
        return int(numpy_helper.to_array(tensor).reshape(()))
    except (ValueError, TypeError):
        return None
