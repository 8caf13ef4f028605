"""Inputs and outputs of a GraphDef, which does not name any: by the spec, or by a tf2xla Config."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensorflow.core.framework import types_pb2

from ....errors import UnsupportedModelError
from ....model.inspection import FoundPorts, Shape
from ....model.readings import GraphDefReading
from ....util.text import one_line
from ....util.words import suggest_few
from ...graphs.graph_tensors import (
    Tensor,
    declared_shape,
    output_types,
    parse_tensor,
    shape_of,
    sinks,
)
from ...graphs.graphs import Graph, node_name
from ...graphs.kernels import type_name

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})
_NO_RESULTS = frozenset(
    [
        "Assert",
        "Assign",
        "AssignAdd",
        "AssignSub",
        "Const",
        "NoOp",
        "SaveV2",
        "VarHandleOp",
        "VarIsInitializedOp",
    ]
)
_NO_NUMBERS = frozenset({types_pb2.DT_STRING, types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT})
_SHOWN = 8
_MAX_PORTS = 10_000
"""Feeds, fetches and variables of a Config; a model has a few."""


@dataclass(frozen=True)
class Port:
    """An input or output."""

    name: str
    tensor: Tensor
    dtype: int
    """Of TensorFlow's DataType."""
    shape: Shape | None
    """None if the rank is unknown."""


@dataclass(frozen=True)
class ConfigVariable:
    """A variable that a Config names."""

    node: str
    name: str
    """In the interface."""
    readonly: bool
    shape: Shape | None
    dtype: int


@dataclass(frozen=True)
class Interface:
    """The inputs and outputs of a graph, in their order."""

    feeds: tuple[Port, ...]
    fetches: tuple[Port, ...]
    constants: Mapping[Tensor, Any]
    """Values of tensors that are not computed."""
    variables: tuple[ConfigVariable, ...] = ()


class _Finder:
    """Finds tensors of a graph by the names that people write."""

    def __init__(self, graph_def: Any) -> None:
        self.graph_def = graph_def
        self.graph = Graph(graph_def)
        self.nodes = self.graph.nodes[""]

    def find(self, text: str, field: str) -> Tensor:
        """The tensor of a name.

        Raises:
            UnsupportedModelError: There is none.
        """
        try:
            tensor = parse_tensor(text)
        except ValueError:
            raise UnsupportedModelError(
                f"{field}: {text!r} is not a tensor; write `node` or `node:0`"
            ) from None
        node = self.nodes.get(tensor.node)
        if node is None:
            near = suggest_few(tensor.node, self.nodes)
            raise UnsupportedModelError(f"{field}: the graph has no node {tensor.node!r}; {near}")
        types = output_types(node, self.graph)
        if types is not None and tensor.index >= len(types):
            raise UnsupportedModelError(
                f"{field}: node {tensor.node!r} ({one_line(node.op)}) has {len(types)} outputs, so there "
                f"is no {text!r}"
            )
        return tensor

    def port(self, name: str, tensor: Tensor, field: str) -> Port:
        """An input or output as the graph declares it."""
        node = self.nodes[tensor.node]
        types = output_types(node, self.graph)
        if types is None:
            raise UnsupportedModelError(
                f"{field}: the type of {str(tensor)!r} is unknown, because {one_line(node.op)} comes from a "
                "custom op library; give it as `type` of a feed in a tf2xla Config"
            )
        shape = declared_shape(node, tensor.index, self.graph_def.versions.producer)
        return Port(name, tensor, types[tensor.index], shape)


def read_interface(graph_def: Any, reading: GraphDefReading, config: Any | None) -> Interface:
    """The inputs and outputs, found in the graph.

    Args:
        graph_def: The GraphDef.
        reading: What the spec says.
        config: The tf2xla Config that the spec names, if any.

    Raises:
        UnsupportedModelError: Something that is named is not there, or is named twice.
    """
    finder, given = _Finder(graph_def), reading.constants
    if config is not None:
        if reading.feeds or reading.fetches:
            raise UnsupportedModelError(
                "source.config names the feeds and fetches already; remove source.feeds and source.fetches"
            )
        named = len(config.feed) + len(config.fetch) + len(config.variable)
        if named > _MAX_PORTS:
            raise UnsupportedModelError(
                f"source.config names {named} feeds, fetches and variables, and at most {_MAX_PORTS} are read; name "
                "those that a call of the model passes and needs, or join tensors in the graph"
            )
        feeds = tuple(_config_feeds(finder, config))
        fetches = tuple(_config_fetches(finder, config))
        variables = tuple(_config_variables(finder, config))
    else:
        found = find_ports(graph_def) if reading.find else reading
        feeds, fetches = (
            tuple(_named(finder, ports, f"source.{kind}"))
            for kind, ports in (("feeds", found.feeds), ("fetches", found.fetches))
        )
        given, variables = found.constants, ()
    if not fetches:
        raise UnsupportedModelError(_proposal(finder, given=feeds))
    constants = {finder.find(name, "source.constants"): value for name, value in given.items()}
    _refuse_repeats((port.tensor for port in feeds), constants, "feed")
    _refuse_repeats((port.name for port in feeds), (), "name of a feed")
    _refuse_repeats((port.name for port in fetches), (), "name of a fetch")
    return Interface(feeds, fetches, constants, variables)


def _named(finder: _Finder, ports: Mapping[str, str], field: str) -> Iterator[Port]:
    for name, text in ports.items():
        place = f"{field}.{name}"
        yield finder.port(name, finder.find(text, place), place)


def _refuse_repeats(values: Iterable[object], others: Iterable[object], kind: str) -> None:
    seen = set(others)
    for value in values:
        if value in seen:
            raise UnsupportedModelError(f"{str(value)!r} is a {kind} twice; remove one of them")
        seen.add(value)


def _config_tensor(finder: _Finder, message: Any, field: str) -> Tensor:
    return finder.find(f"{message.node_name}:{message.output_index}", field)


def _config_feeds(finder: _Finder, config: Any) -> Iterator[Port]:
    for number, feed in enumerate(config.feed):
        field = f"{_field('feed', number)}"
        tensor = _config_tensor(finder, feed.id, field)
        name = feed.name or _own_name(tensor)
        if feed.type and output_types(finder.nodes[tensor.node], finder.graph) is None:
            port = Port(name, tensor, feed.type, None)
        else:
            port = finder.port(name, tensor, field)
        if feed.type and feed.type != port.dtype:
            raise UnsupportedModelError(
                f"{field}: {str(tensor)!r} is {type_name(port.dtype)}, not {type_name(feed.type)}; "
                "remove `type`, or correct it"
            )
        if feed.HasField("shape"):
            port = replace(port, shape=shape_of(feed.shape))
        yield port


def _config_fetches(finder: _Finder, config: Any) -> Iterator[Port]:
    for number, fetch in enumerate(config.fetch):
        field = _field("fetch", number)
        tensor = _config_tensor(finder, fetch.id, field)
        yield finder.port(fetch.name or _own_name(tensor), tensor, field)


def _config_variables(finder: _Finder, config: Any) -> Iterator[ConfigVariable]:
    for number, variable in enumerate(config.variable):
        tensor = finder.find(variable.node_name, _field("variable", number))
        yield ConfigVariable(
            tensor.node,
            variable.name or tensor.node,
            variable.readonly,
            shape_of(variable.shape) if variable.HasField("shape") else None,
            variable.type,
        )


def _field(kind: str, number: int) -> str:
    return f"source.config: {kind} {number}"


def _own_name(tensor: Tensor) -> str:
    """The name of a feed or fetch that has none: that of its node."""
    return str(tensor) if tensor.index else tensor.node


def find_ports(graph_def: Any) -> FoundPorts:
    """The inputs and outputs that a graph seems to have, in its order.

    Outputs are what no node reads, inputs the placeholders that these need; booleans without axes are constants.
    """
    finder = _Finder(graph_def)
    inputs, outputs = _found(finder)
    switches = {tensor: None for tensor in inputs if _is_switch(finder, tensor)}
    return FoundPorts(
        feeds=_by_name([tensor for tensor in inputs if tensor not in switches]),
        fetches=_by_name(outputs),
        constants={tensor.node: False for tensor in switches},
    )


def _found(finder: _Finder) -> tuple[list[Tensor], list[Tensor]]:
    outputs = [
        tensor
        for tensor in sinks(finder.graph_def, finder.graph)
        if finder.nodes[tensor.node].op not in _NO_RESULTS | _PLACEHOLDERS
        and not _is_of_branch(finder, tensor.node)
        and _may_be_numbers(finder, tensor.node)
    ]
    needed = finder.graph.reach(map(str, outputs), control=False).get("", set())
    placeholders = (name for name, node in finder.nodes.items() if node.op in _PLACEHOLDERS)
    return [Tensor(name) for name in placeholders if name in needed], outputs


def _may_be_numbers(finder: _Finder, node: str) -> bool:
    """Whether output 0 of a node may be of numbers; that of a custom op library's operation may."""
    types = output_types(finder.nodes[node], finder.graph)
    return types is None or (bool(types) and types[0] not in _NO_NUMBERS)


def _is_switch(finder: _Finder, tensor: Tensor) -> bool:
    """Whether a placeholder says whether the model is trained, as Keras's `keras_learning_phase` does."""
    node = finder.nodes[tensor.node]
    shape = declared_shape(node, tensor.index, finder.graph_def.versions.producer)
    return output_types(node, finder.graph) == [types_pb2.DT_BOOL] and not shape


def _proposal(finder: _Finder, given: tuple[Port, ...]) -> str:
    """The lines to write for a graph whose inputs and outputs nobody names."""
    inputs, outputs = _found(finder)
    if not outputs:
        return (
            "no node of the graph has numbers as a result that no other node reads; name the outputs "
            "in source.fetches, by nodes whose results are numbers"
        )
    lines = f"fetches: {_mapping(outputs)}"
    if not given:
        lines = f"feeds: {_mapping(inputs)}, {lines}"
    return f"a GraphDef does not say what its outputs are. Add to `source` in the spec: {lines}"


def _is_of_branch(finder: _Finder, name: str) -> bool:
    """Whether a node is what TensorFlow 1 adds to each branch for its control edges."""
    node = finder.nodes[name]
    first = finder.nodes.get(node_name(node.input[0])) if node.input else None
    return node.op == "Identity" and first is not None and first.op == "Switch"


def _by_name(tensors: list[Tensor]) -> dict[str, str]:
    """Tensors by the last parts of their names, where these differ."""
    short = [re.sub(r"\W", "_", tensor.node.rpartition("/")[2]) for tensor in tensors]
    times = Counter(short)
    names = [
        name if times[name] == 1 else re.sub(r"\W", "_", tensor.node)
        for name, tensor in zip(short, tensors, strict=True)
    ]
    counts = Counter(names)
    return {
        name if counts[name] == 1 else tensor.node: str(tensor)
        for name, tensor in zip(names, tensors, strict=True)
    }


def _mapping(tensors: list[Tensor]) -> str:
    """The first few as YAML."""
    pairs = [f'{name}: "{one_line(tensor)}"' for name, tensor in _by_name(tensors).items()]
    more = f", and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
    return f"{{{', '.join(pairs[:_SHOWN])}}}{more}"
