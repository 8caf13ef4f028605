"""Replaces numbers that are clamped to one value by constants where XLA must know them: minimum(maximum(x, 6), 6) is 6.

Keras's CategoryEncoding gives the number of its categories so.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..graphs.graphs import bodies, is_function, node_name, nodes_of
from ..tensors.bounds import bounds_of, follow_bounds
from ..tensors.constants import SCALARS
from ..tensors.folding import read_constant
from ..tensors.values import UNKNOWN, Tensor

_FOLLOWED = frozenset({"Cast", "Identity", "Maximum", "Minimum"})
_DEPTH = 16


def fold_clamps(graph_def: Any) -> None:
    """Replaces such arguments of operations in a graph and its functions, in place."""
    for body in bodies(graph_def):
        nodes = {node.name: node for node in nodes_of(body)}
        for node in list(nodes.values()):
            for position in SCALARS.get(node.op, ()):
                source = nodes.get(node_name(node.input[position]))
                if source is None or source.op not in _FOLLOWED:
                    continue
                known = bounds_of(_tensor(nodes, source, _DEPTH))
                if known is not None and known[0] == known[1]:
                    node.input[position] = _add_constant(body, nodes, source, known[0])


def _tensor(nodes: dict[str, Any], node: Any, depth: int) -> Tensor:
    """The known facts about the result of a node."""
    if node is None or not depth:
        return UNKNOWN
    if node.op == "Const":
        return read_constant(node)
    if node.op not in _FOLLOWED:
        return UNKNOWN
    read = [node_name(name) for name in node.input if not name.startswith("^")]
    inputs = [_tensor(nodes, nodes.get(name), depth - 1) for name in read]
    return Tensor(bounds=follow_bounds(node, inputs))


def _add_constant(body: Any, nodes: dict[str, Any], source: Any, value: int) -> str:
    """The tensor of a new constant of the type of a node."""
    name = f"{source.name}/clamped"
    while name in nodes:
        name += "_"
    made = nodes_of(body).add(name=name, op="Const")
    dtype = source.attr["DstT" if source.op == "Cast" else "T"].type
    made.attr["dtype"].type = dtype
    made.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, []))
    nodes[name] = made
    return f"{name}:output:0" if is_function(body) else f"{name}:0"
