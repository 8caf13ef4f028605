"""Writes an ONNX graph, and the graphs inside its nodes, into a `Straight` one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import helper, numpy_helper

from .....errors import UnsupportedModelError
from .....util.text import one_line
from .straight import Call, Straight
from .upgrade import upgrade

Scope = Mapping[str, str]
"""The value of the straight graph for each name of an ONNX graph."""


@dataclass(frozen=True)
class Closure:
    """A graph inside a node, with the names that it sees."""

    graph: onnx.GraphProto
    scope: Scope
    opset: int

    def write(self, straight: Straight, inputs: Sequence[str]) -> list[str]:
        """Writes the graph for these inputs; returns its outputs."""
        names = [value.name for value in self.graph.input]
        given = dict(zip(names, inputs, strict=True))
        return write_graph(straight, self.graph, {**self.scope, **given}, self.opset)


def write_graph(straight: Straight, graph: onnx.GraphProto, scope: Scope, opset: int) -> list[str]:
    """Writes a graph's nodes as far as its outputs need them; returns the outputs.

    Raises:
        UnsupportedModelError: A node cannot be written; the message names it.
    """
    known = dict(scope)
    needed = _needed(graph)
    for initializer in graph.initializer:
        if initializer.name in needed:
            known[initializer.name] = straight.constant(_values(initializer))
    for node in graph.node:
        if needed.isdisjoint(node.output):
            continue
        call = Call(
            node.op_type,
            tuple(_find(known, node, name) if name else "" for name in node.input),
            len(node.output),
            {a.name: _attribute(a, known, opset) for a in node.attribute},
            describe(node),
            opset,
        )
        known |= zip(node.output, _write(straight, call), strict=False)
    return [_find(known, graph, value.name) for value in graph.output]


def _write(straight: Straight, call: Call) -> Sequence[str]:
    try:
        upgraded = upgrade(straight, call)
        return straight.visit(upgraded) if isinstance(upgraded, Call) else upgraded
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        problem = f"is not as ONNX defines it ({type(error).__name__}: {one_line(str(error))})"
        raise call.refuse(problem, "check the file with onnx.checker.check_model") from error


def describe(node: onnx.NodeProto) -> str:
    """A node for people: its operation and its name, or that of its first output."""
    return f"{node.op_type} {(node.name or next(iter(node.output), ''))!r}"


def _values(tensor: onnx.TensorProto) -> Any:
    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError) as error:
        raise UnsupportedModelError(
            f"the ONNX file is damaged: the weight {one_line(repr(tensor.name))} is not what its shape and "
            f"type say ({one_line(str(error))}); export the model again"
        ) from error


def _find(known: Scope, reader: Any, name: str) -> str:
    if name not in known:
        what = describe(reader) if isinstance(reader, onnx.NodeProto) else "the graph"
        raise UnsupportedModelError(
            f"the ONNX file is damaged: {one_line(what)} reads {one_line(repr(name))}, which nothing "
            "before it writes; check it with onnx.checker.check_model"
        )
    return known[name]


def _attribute(attribute: onnx.AttributeProto, known: Scope, opset: int) -> Any:
    value = helper.get_attribute_value(attribute)
    return Closure(value, known, opset) if isinstance(value, onnx.GraphProto) else value


def _needed(graph: onnx.GraphProto) -> set[str]:
    """Names that the outputs depend on; nodes are sorted, as ONNX asks for."""
    needed = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            for inner in subgraphs(node):
                needed |= captured(inner)
    return needed


def captured(graph: onnx.GraphProto) -> set[str]:
    """Names that a graph inside a node may read from outside; too many do no harm."""
    names = {value.name for value in graph.output}
    for node in graph.node:
        names.update(node.input)
        for inner in subgraphs(node):
            names |= captured(inner)
    return names


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs inside a node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs
