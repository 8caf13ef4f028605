"""Gives a GraphDef its inputs: placeholders for feeds, constants for fixed values, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import EncodeError

from ....errors import UnsupportedModelError
from ....util.text import one_line
from ....util.words import first_few
from ...graphs.graph_tensors import Tensor, prune, redirect, set_shape
from ...loaded.given_constants import convert_constant
from .graph_branches import drop_dead_branches
from .graph_interface import Interface, Port

_OF_SAVING = ("_class", "_output_shapes")
"""Attributes that say where a node ran and what it was known to return: they may name pruned nodes."""


@dataclass(frozen=True)
class BoundGraph:
    """A graph that computes the fetches from the feeds."""

    graph_def: Any
    feeds: Mapping[str, str]
    """Placeholder nodes by the names of the inputs, in their order."""
    fetches: Mapping[str, str]
    """Tensors by the names of the outputs, in their order."""


def bind(graph_def: Any, interface: Interface) -> BoundGraph:
    """Puts placeholders and constants in the place of tensors, and drops what no output needs.

    Args:
        graph_def: The GraphDef; it is changed.
        interface: As `read_interface` found it.

    Raises:
        UnsupportedModelError: A constant does not fit its tensor, or an output needs a placeholder
            that is neither fed nor constant.
    """
    nodes = {node.name: node for node in graph_def.node}
    instead: dict[Tensor, str] = {}
    feeds: dict[str, str] = {}
    for number, port in enumerate(interface.feeds):
        node = nodes[port.tensor.node]
        if node.op != "Placeholder":
            node = graph_def.node.add(name=_free_name(nodes, f"feed_{number}"))
            instead[port.tensor] = node.name
        _make_placeholder(node, port)
        feeds[port.name] = node.name
    for number, (tensor, value) in enumerate(interface.constants.items()):
        node = graph_def.node.add(name=_free_name(nodes, f"constant_{number}"))
        declared = nodes[tensor.node].attr["dtype"].type
        make_constant(node, convert_constant(value, declared, str(tensor)))
        instead[tensor] = node.name
    redirect(graph_def, instead)
    try:
        drop_dead_branches(graph_def)
    except (ValueError, TypeError) as error:
        raise UnsupportedModelError(
            f"the graph is damaged ({one_line(error)}); export it again", code="MW416"
        ) from error
    fetches = {
        port.name: f"{instead[port.tensor]}:0" if port.tensor in instead else str(port.tensor)
        for port in interface.fetches
    }
    _require_fed(prune(graph_def, fetches.values()), feeds.values())
    graph_def = prune(graph_def, [*fetches.values(), *feeds.values()])
    for node in graph_def.node:
        node.device = ""
        for name in _OF_SAVING:
            if name in node.attr:
                del node.attr[name]
    return BoundGraph(graph_def, feeds, fetches)


def make_constant(node: Any, value: np.ndarray[Any, Any]) -> None:
    """Changes a node to a constant.

    Raises:
        UnsupportedModelError: It is too large for one.
    """
    node.op = "Const"
    del node.input[:]
    node.attr.clear()
    try:
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    except (ValueError, EncodeError) as error:
        raise UnsupportedModelError(
            f"the value of {node.name!r} exceeds 2 GB, more than a TensorFlow graph holds"
        ) from error
    node.attr["dtype"].type = node.attr["value"].tensor.dtype


def _free_name(nodes: dict[str, Any], name: str) -> str:
    while name in nodes:
        name += "_"
    nodes[name] = None
    return name


def _make_placeholder(node: Any, port: Port) -> None:
    node.op = "Placeholder"
    del node.input[:]
    node.attr.clear()
    node.attr["dtype"].type = port.dtype
    set_shape(node.attr["shape"].shape, port.shape)


def _require_fed(graph_def: Any, feeds: Iterable[str]) -> None:
    fed = set(feeds)
    missing = [
        node.name
        for node in graph_def.node
        if node.op in ("Placeholder", "PlaceholderV2") and node.name not in fed
    ]
    if missing:
        raise UnsupportedModelError(
            f"outputs depend on the placeholder {first_few(missing)}; name it in source.feeds (or as a feed "
            "of the tf2xla Config), or give it a value in source.constants"
        )
