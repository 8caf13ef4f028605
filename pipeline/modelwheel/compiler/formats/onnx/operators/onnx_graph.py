"""Writes ONNX graphs, and the graphs inside their nodes, as StableHLO."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .....errors import ModelwheelError, UnsupportedModelError
from .....util.text import one_line
from .....workers.trail import note
from ....loaded.guarded import reason_of
from ....stablehlo.writer import Builder, Module, Value
from ....stablehlo.writer.mlir_types import Array
from ..onnx_nodes import MAX_ELEMENTS
from . import OPERATORS
from .functions import bind, function_of
from .onnx_node import Absent, Item, Node, TensorList

MAX_OPERATIONS = 400_000
_DEPTH = 64
"""Of calls of functions."""


@dataclass(frozen=True)
class Converted:
    """A model at fixed shapes."""

    module: Module
    outputs: tuple[str, ...]
    """Names of the model's outputs, in the order of the results."""


@dataclass(frozen=True)
class Context:
    """The things that all graphs of a model share."""

    builder: Builder
    opsets: Mapping[str, int]
    """The version of each domain, the main one as ''."""
    functions: Mapping[tuple[str, str], onnx.FunctionProto]
    """Those that the model defines."""
    depth: int = 0
    is_model: bool = True
    """Whether nodes are those of the model, and not of how ONNX defines an operation."""

    def within(self, opsets: Mapping[str, int], *, is_model: bool) -> Context:
        """The context inside a function, which has versions of its own."""
        return replace(
            self,
            opsets={**self.opsets, **opsets},
            depth=self.depth + 1,
            is_model=self.is_model and is_model,
        )


Scope = Mapping[str, Item]
"""What each name of a graph stands for."""


@dataclass(frozen=True)
class Closure:
    """A graph inside a node, with the names that it sees."""

    graph: onnx.GraphProto
    scope: Scope
    context: Context

    @property
    def outputs(self) -> int:
        """How many outputs the graph has."""
        return len(self.graph.output)

    def write(self, inputs: Sequence[Item]) -> list[Item]:
        """Writes the graph for these inputs; returns its outputs."""
        names = [value.name for value in self.graph.input]
        values = dict(zip(names, inputs, strict=True))
        return write_graph(self.graph, {**self.scope, **values}, self.context)

    def write_some(self, values: Mapping[str, Item], outputs: Sequence[str]) -> list[Item]:
        """Writes what some outputs depend on, for inputs by name; returns these outputs."""
        return write_graph(self.graph, {**self.scope, **values}, self.context, outputs)

    def needed(self, outputs: Sequence[str]) -> set[str]:
        """The names that some outputs depend on."""
        return needed_names(self.graph, outputs)

    def values(self, inputs: Sequence[Item]) -> list[Value]:
        """The results of `write`, for a graph that returns tensors.

        Raises:
            TypeError: An output is a sequence or an optional.
        """
        items = self.write(inputs)
        if not all(isinstance(item, Value) for item in items):
            raise TypeError("a graph inside it returns a sequence or an optional")
        return [item for item in items if isinstance(item, Value)]


def convert(
    model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Array]
) -> Converted:
    """The StableHLO of a model.

    Args:
        model: With its weights.
        shapes: Of all inputs that are not constants.
        constants: Inputs that have a value.

    Raises:
        UnsupportedModelError: A node cannot be written; the message names it.
    """
    builder = Builder()
    opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}
    functions = {(f.domain, f.name): f for f in model.functions}
    _check_symbols(model, shapes)
    scope: dict[str, Item] = {}
    for value in model.graph.input:
        if value.name in constants:
            scope[value.name] = builder.constant(np.asarray(constants[value.name]))
        elif value.name in shapes:
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            scope[value.name] = builder.argument(value.name, dtype, shapes[value.name])
    results = write_graph(model.graph, scope, Context(builder, opsets, functions))
    named: dict[str, Value] = {}
    for declared, item in zip(model.graph.output, results, strict=True):
        if not isinstance(item, Value):
            kind = "a sequence of tensors" if isinstance(item, TensorList) else "an optional"
            raise UnsupportedModelError(
                f"the output {one_line(repr(declared.name))} is {kind}, and compiled models return "
                "tensors; return its tensors one by one"
            )
        named[declared.name] = item
    return Converted(builder.module(named), tuple(named))


def _check_symbols(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuses dimensions of one name that have different lengths."""
    lengths: dict[str, tuple[int, str]] = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim, length in zip(dims, shapes.get(value.name, ()), strict=False):
            symbol, place = dim.dim_param, one_line(value.name)
            known, where = lengths.setdefault(symbol, (length, place))
            if symbol and symbol != "?" and known != length:
                raise UnsupportedModelError(
                    f"the dimension {one_line(repr(symbol))} is {known} in input {where!r} and {length} in "
                    f"input {place!r}, but the model declares it equal; correct inputs.{place}.shape in "
                    "the spec"
                )


def write_graph(
    graph: Any, scope: Scope, context: Context, outputs: Sequence[str] | None = None
) -> list[Item]:
    """Writes a graph's nodes as far as its outputs need them; returns the outputs.

    Args:
        graph: A graph, or a function with the names of its outputs.
        scope: What its names stand for outside.
        context: Of the model.
        outputs: By default those of the graph.

    Raises:
        UnsupportedModelError: A node cannot be written; the message names it.
    """
    known = dict(scope)
    names = [value.name for value in graph.output] if outputs is None else outputs
    needed = needed_names(graph, names)
    for initializer in getattr(graph, "initializer", ()):
        if initializer.name in needed:
            known[initializer.name] = context.builder.constant(_values(initializer))
    for number, node in enumerate(graph.node):
        if needed.isdisjoint(node.output):
            continue
        read = tuple(name in needed for name in node.output)
        with context.builder.at(name_of(node, number) if context.is_model else ""):
            results = _write_node(node, known, read, context)
        known |= {name: item for name, item in zip(node.output, results, strict=False) if name}
    return [_find(known, graph, name) for name in names]


def _write_node(
    node: onnx.NodeProto, known: Scope, read: tuple[bool, ...], context: Context
) -> Sequence[Item]:
    note(describe(node))
    try:
        call = _call_of(node, known, read, context)
        written = _write(call, context)
    except (ModelwheelError, MemoryError):
        raise
    except Exception as error:  # whatever an operation of ours, NumPy or onnx trips over
        raise UnsupportedModelError(
            f"{one_line(describe(node))} is not as ONNX defines it ({reason_of(error)}); check the file with "
            "onnx.checker.check_model"
        ) from error
    _check_sizes(call, written)
    if context.builder.operations > MAX_OPERATIONS:
        raise call.refuse(
            f"makes the graph exceed {MAX_OPERATIONS} operations", "use fewer or shorter loops"
        )
    return written


def _call_of(node: onnx.NodeProto, known: Scope, read: tuple[bool, ...], context: Context) -> Node:
    domain = "" if node.domain == "ai.onnx" else node.domain
    return Node(
        node.op_type,
        context.builder,
        tuple(_find(known, node, name) if name else None for name in node.input),
        read,
        {a.name: _attribute(a, known, context) for a in node.attribute},
        describe(node),
        context.opsets.get(domain, 1),
        domain,
    )


def _check_sizes(call: Node, written: Sequence[Item]) -> None:
    for value in written:
        if not isinstance(value, Value) or _fits(value.shape):
            continue
        if min(value.shape) < 0:
            taken = [str(list(item.shape)) for item in call.inputs if isinstance(item, Value)]
            raise call.refuse(
                f"makes a tensor of the shape {list(value.shape)} from the shapes {' and '.join(taken)}, which are too small for it",
                "give longer inputs, by inputs.NAME.shape in the spec, also for an axis that only has the name of a batch, or "
                "correct its attributes",
            )
        raise call.refuse(
            f"makes a tensor of the shape {list(value.shape)}, which no machine can hold",
            "correct its attributes, or the shapes of the inputs",
        )


def _fits(shape: Sequence[int]) -> bool:
    return min(shape, default=0) >= 0 and math.prod(n or 1 for n in shape) <= MAX_ELEMENTS


def _write(call: Node, context: Context) -> Sequence[Item]:
    own = context.functions.get((call.domain, call.op))
    if own is not None:
        return _call(call, own, context)
    write = OPERATORS.get((call.domain, call.op))
    if write is not None:
        results = write(call)
        if results is None or isinstance(results, Value | TensorList | Absent):
            return [results]
        return results
    defined = function_of(call)
    if defined is None:
        where = f"of the domain {call.domain!r}" if call.domain else f"of opset {call.opset}"
        raise call.refuse(
            f"is an operation {where} that modelwheel does not compile",
            "write it with other operations, or end the model before it",
        )
    return _call(call, defined, context)


def _call(call: Node, function: onnx.FunctionProto, context: Context) -> Sequence[Item]:
    """Writes the nodes of a function in place of a node that calls it."""
    if context.depth > _DEPTH:
        raise call.refuse("calls itself, or calls nest too deeply", "ONNX allows no recursion")
    opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import}
    scope: dict[str, Item] = {}
    for value in call.attributes.values():  # what a graph among them reads from outside
        scope |= value.scope if isinstance(value, Closure) else {}
    scope |= dict.fromkeys(function.input)
    scope |= dict(zip(function.input, call.inputs, strict=False))
    is_own = (call.domain, call.op) in context.functions
    if is_own:
        function = _with_attributes(call, function)
    read = [n for n, wanted in zip(function.output, call.outputs, strict=False) if wanted]
    written = iter(write_graph(function, scope, context.within(opsets, is_model=is_own), read))
    return [next(written) if wanted else None for wanted in call.outputs]


def _with_attributes(call: Node, function: onnx.FunctionProto) -> onnx.FunctionProto:
    """A function of the model with the attributes of a call."""
    attributes = {a.name: a for a in function.attribute_proto}
    for name, value in call.attributes.items():
        message = value.graph if isinstance(value, Closure) else value
        attributes[name] = helper.make_attribute(name, message)
    bound = onnx.FunctionProto()
    bound.CopyFrom(function)
    del bound.node[:]
    bound.node.extend(bind(inner, attributes) for inner in function.node)
    return bound


def describe(node: onnx.NodeProto) -> str:
    """A node for people: its operation and its name, or that of its first output."""
    return f"{node.op_type} {(node.name or next(iter(node.output), ''))!r}"


def name_of(node: onnx.NodeProto, number: int) -> str:
    """A node as a path: its name or that of its first output, and its operation if that does not say it.

    Args:
        node: Without a name, it may have a number as the name of its output.
        number: Of the node in its graph; used if nothing else tells it from others.
    """
    name = (node.name or next(iter(node.output), "")).strip("/")
    layer, _, last = name.rpartition("/")
    if node.op_type in last:
        return name
    if not any(map(str.isalpha, last)):
        return f"{layer}/{node.op_type}_{last or number}".lstrip("/")
    return f"{name}/{node.op_type}"


def _values(tensor: onnx.TensorProto) -> Array:
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except MemoryError:
        raise
    except Exception as error:
        raise UnsupportedModelError(
            f"the ONNX file is damaged: the weight {one_line(repr(tensor.name))} is not what its shape and "
            f"type say ({reason_of(error)}); export the model again",
            code="MW416",
        ) from error


def _find(known: Scope, reader: Any, name: str) -> Item:
    if name not in known:
        what = describe(reader) if isinstance(reader, onnx.NodeProto) else "the graph"
        raise UnsupportedModelError(
            f"the ONNX file is damaged: {one_line(what)} reads {one_line(repr(name))}, which nothing "
            "before it writes; check it with onnx.checker.check_model",
            code="MW416",
        )
    return known[name]


def _attribute(attribute: onnx.AttributeProto, known: Scope, context: Context) -> Any:
    value = helper.get_attribute_value(attribute)
    return Closure(value, known, context) if isinstance(value, onnx.GraphProto) else value


def needed_names(graph: Any, outputs: Sequence[str]) -> set[str]:
    """Names that the outputs depend on; nodes are sorted, as ONNX asks for."""
    needed = set(outputs)
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
