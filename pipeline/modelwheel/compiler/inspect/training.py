"""Recognises a signature that was exported in training mode, by what it computes and not by names.

Keras 3 draws random numbers from the variable of a seed generator, which each call changes, normalises a batch by
its own mean while it moves averages that only inference reads, and divides a kernel by its own spectral norm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tensorflow.core.framework import types_pb2

from ...model.inspection import SignatureUse, Training
from ..graphs.data_flow import Flow, Place, Tensor, Write
from ..graphs.graphs import GRAPH, is_control, layer_name, node_name

_DRAWS = re.compile(
    r"StatelessRandom(Uniform|Normal|Gamma|Poisson|Binomial)\w*|Stateless\w*TruncatedNormal\w*|StatelessMultinomial"
)
_KEYS = re.compile(r"StatelessRandomGet\w+")
_REDUCES = re.compile(r"Mean|Sum|FusedBatchNorm(V2|V3)?|SparseSegment\w+|UnsortedSegmentSum")
_ELEMENTWISE = frozenset(
    {
        *("AddV2", "Add", "AddN", "Cast", "Identity", "Mul", "Neg", "RealDiv", "Reshape", "Select"),
        *("SelectV2", "Squeeze", "StopGradient", "Sub", "If", "StatelessIf", "PartitionedCall"),
        *("StatefulPartitionedCall", "IdentityN", "Switch", "Merge", "PreventGradient"),
    }
)
"""What updates an average from a mean."""
_PRODUCTS = frozenset({"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"})
_LAYERS = re.compile(r"(Depthwise)?Conv\dD\w*|Gather(V2|Nd)?|ResourceGather(Nd)?")
"""What applies weights to rows, other than products."""
_NAMES_KEPT = 8
_ASSIGNS = frozenset({"AssignVariableOp", "AssignSubVariableOp", "AssignAddVariableOp"})


def find_training(
    flow: Flow, outputs: Iterable[str], writes: Sequence[Write], unread: Iterable[Write]
) -> Training | None:
    """The sign that a signature is in training mode; None if there is none.

    Args:
        flow: Of the graph.
        outputs: Tensors of the graph itself.
        writes: All that the signature runs.
        unread: Those among them that no output depends on.
    """
    read = flow.reach((GRAPH, name) for name in outputs)
    draws = list(_draws(flow, writes, read))
    known = {(function, node_name(tensor)) for function, tensor in read}
    averages = [w.place for w in unread if w.node.op in _ASSIGNS and _is_average(flow, w, known)]
    weights = [w.place for w in writes if _is_normalized(flow, w, known)]
    if not draws and not averages and not weights:
        return None
    return Training(
        draws=_describe(draws), averages=_describe(averages), weights=_describe(weights)
    )


def _describe(places: Sequence[Place]) -> SignatureUse | None:
    layers = tuple(dict.fromkeys(layer_name(node) for _, node in places))
    return SignatureUse(count=len(places), layers=layers[:_NAMES_KEPT]) if places else None


def _draws(flow: Flow, writes: Iterable[Write], read: Iterable[Tensor]) -> Iterator[Place]:
    """The random numbers that a variable is the seed of, if calls count it on."""
    # A tf.random.Generator, which its author made and calls, writes by operations of its own.
    counted = {name for write in writes if write.node.op in _ASSIGNS for name in write.targets}
    for place in sorted({(function, node_name(tensor)) for function, tensor in read}):
        node = _node(flow, place)
        if node is None or not _DRAWS.fullmatch(node.op) or _KEYS.fullmatch(node.op):
            continue
        seeds = [(place[0], name) for name in node.input if not is_control(name)][1:]
        if not counted.isdisjoint(flow.variables(flow.reach(seeds))):
            yield place


def _is_average(flow: Flow, write: Write, known: set[Place]) -> bool:
    """Whether a write moves an average by a mean of this batch that is among the nodes that outputs read."""
    own = write.node.op != "AssignVariableOp"
    of_batch = False
    for place, node in _computed_from(flow, write):
        if _REDUCES.fullmatch(node.op):
            of_batch |= (place[0], node.name) in known and _has_inputs(flow, place)
        elif node.op == "ReadVariableOp":
            own |= _reads_target(flow, write, place)
    return own and of_batch


def _is_normalized(flow: Flow, write: Write, known: set[Place]) -> bool:
    """Whether a write divides weights of a layer by a product of themselves, whatever is fed."""
    if write.node.op != "AssignVariableOp":
        return False
    own = product = False
    for place, node in _computed_from(flow, write):
        if node.op in _PRODUCTS:
            product |= _reads_target(flow, write, place)
        elif node.op == "ReadVariableOp":
            own |= _reads_target(flow, write, place)
    return (
        own and product and not _has_inputs(flow, _value(write)) and _is_applied(flow, write, known)
    )


def _computed_from(flow: Flow, write: Write) -> Iterator[tuple[Tensor, Any]]:
    """The nodes that the value of a write is computed from, back to the first that are not element by element."""
    waiting, seen = [_value(write)], set[Tensor]()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        node = _node(flow, (place[0], node_name(place[1])))
        if node is not None:
            yield place, node
        if node is None or node.op in _ELEMENTWISE or node.op in flow.graph.functions:
            waiting += flow.back(*place)


def _value(write: Write) -> Tensor:
    return write.place[0], write.node.input[1]


def _reads_target(flow: Flow, write: Write, place: Tensor) -> bool:
    """Whether a tensor depends on the variable of a write."""
    return not write.targets.isdisjoint(flow.variables(flow.reach([place])))


def _is_applied(flow: Flow, write: Write, known: set[Place]) -> bool:
    """Whether outputs read a layer that applies the variable of a write to what is fed."""
    for function, name in known:
        node = _node(flow, (function, name))
        if node is None or not (node.op in _PRODUCTS or _LAYERS.fullmatch(node.op)):
            continue
        operands = [(function, operand) for operand in node.input if not is_control(operand)]
        weights = [o for o in operands if write.targets & flow.variables(flow.reach([o]))]
        if weights and any(o not in weights and _has_inputs(flow, o) for o in operands):
            return True
    return False


def _has_inputs(flow: Flow, place: Tensor) -> bool:
    """Whether a tensor depends on what is fed, which is a placeholder as captured variables are."""
    nodes = (_node(flow, (f, node_name(tensor))) for f, tensor in flow.reach([place]) if f == GRAPH)
    return any(
        node is not None
        and node.op == "Placeholder"
        and node.attr["dtype"].type != types_pb2.DT_RESOURCE
        for node in nodes
    )


def _node(flow: Flow, place: Place) -> Any:
    return flow.graph.nodes[place[0]].get(place[1])
