"""Drops branches of TensorFlow 1 that a constant condition never takes, such as dropout for training.

A Switch passes its data to one output; what reads the other one is dead, and so is what reads that, up
to a Merge, which passes on the input that is not dead (core/framework/control_flow.h).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from ...graphs.graph_tensors import Tensor, parse_tensor
from ...graphs.graphs import is_control, node_name


def drop_dead_branches(graph_def: Any) -> None:
    """Replaces each Switch with a constant condition, and the Merge that ends it, by identities, in place.

    The dead nodes stay, but nothing that is alive reads them.

    Raises:
        ValueError: The graph is damaged.
    """
    nodes = {node.name: node for node in graph_def.node}
    taken = {
        node.name: int(condition)
        for node in graph_def.node
        if node.op == "Switch"
        and len(node.input) > 1
        and (condition := _constant(nodes, node.input[1])) is not None
    }
    if not taken:
        return
    dead = _dead_tensors(graph_def, {Tensor(name, 1 - output) for name, output in taken.items()})
    for node in graph_def.node:
        live = [i for i in node.input if is_control(i) or parse_tensor(i) not in dead]
        data = [i for i in live if not is_control(i)]
        if node.op == "Merge" and len(data) == 1 and len(live) < len(node.input):
            _make_identity(node, live)
        elif node.name in taken:
            _make_identity(node, [i for n, i in enumerate(node.input) if n != 1])
    for node in graph_def.node:
        # The taken output of a Switch is the only one of the identity in its place.
        node.input[:] = [_renumbered(i, taken) for i in node.input]


def _constant(nodes: Mapping[str, Any], tensor: str) -> bool | None:
    """The value of a condition, through identities; None if it is not a constant."""
    for _ in nodes:  # a damaged graph may have a circle of identities
        node = nodes.get(node_name(tensor))
        if node is None or is_control(tensor):
            return None
        if node.op == "Const":
            value = node.attr["value"].tensor
            # Of a file: an array of its shape may be of any size.
            if value.dtype != types_pb2.DT_BOOL or value.tensor_shape.dim:
                return None
            return bool(tf.make_ndarray(value))
        if node.op != "Identity" or not node.input:
            return None
        tensor = node.input[0]
    return None


def _dead_tensors(graph_def: Any, waiting: set[Tensor]) -> set[Tensor]:
    """The tensors that are dead; a node that is dead as a whole has the output -1, for control edges."""
    readers: dict[str, list[Any]] = {}
    for node in graph_def.node:
        for tensor in node.input:
            readers.setdefault(node_name(tensor), []).append(node)
    dead: set[Tensor] = set()
    gone: set[str] = set()
    while waiting:
        tensor = waiting.pop()
        dead.add(tensor)
        for reader in readers.get(tensor.node, ()):
            if reader.name not in gone and _is_dead(reader, dead, gone):
                gone.add(reader.name)
                waiting |= {Tensor(reader.name, index) for index in _outputs(reader, readers)}
    return dead


def _is_dead(node: Any, dead: set[Tensor], gone: set[str]) -> bool:
    states = [
        node_name(i) in gone if is_control(i) else parse_tensor(i) in dead for i in node.input
    ]
    return all(states) if node.op == "Merge" else any(states)


def _outputs(node: Any, readers: Mapping[str, list[Any]]) -> set[int]:
    """The outputs of a node that others read, and one that stands for its control edges."""
    read = (i for reader in readers.get(node.name, ()) for i in reader.input if not is_control(i))
    return {-1} | {t.index for t in map(parse_tensor, read) if t.node == node.name}


def _make_identity(node: Any, inputs: list[str]) -> None:
    dtype = node.attr["T"].type
    node.op = "Identity"
    node.input[:] = inputs
    node.attr.clear()
    node.attr["T"].type = dtype


def _renumbered(tensor: str, taken: Mapping[str, int]) -> str:
    name = node_name(tensor)
    return name if name in taken and not is_control(tensor) else tensor
