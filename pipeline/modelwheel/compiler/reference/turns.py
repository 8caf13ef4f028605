"""Reports whether a loop's trip count depends on floating-point inputs: on boundary rows such a loop may have no end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorflow.core.framework import types_pb2

from ..graphs.graphs import GRAPH, Graph

_LOOPS = frozenset({"While", "StatelessWhile"})
_COUNTING = frozenset(
    {
        *("Const", "Identity", "NoOp", "Less", "LessEqual", "Greater", "GreaterEqual"),
        *("LogicalAnd", "LoopCond", "Enter", "Merge", "Switch"),
    }
)
"""Operations in the condition of a loop that counts."""
_FLOATS = frozenset(
    {types_pb2.DT_HALF, types_pb2.DT_BFLOAT16, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE}
)
_MODULE_LOOP = b"while_v"
"""In StableHLO's portable artifacts, which name the version of each operation."""


def turns_by_values(graph_def: Any) -> bool:
    """Whether a loop may turn as often as floating-point inputs say.

    Args:
        graph_def: Frozen. Loops that count integers are told from others as long as no
            floating-point number in it becomes an integer.
    """
    graph = Graph(graph_def)
    nodes = [node for function in graph.nodes.values() for node in function.values()]
    if any(_MODULE_LOOP in node.attr["module"].s for node in nodes if node.op == "XlaCallModule"):
        return True
    conditions = list(_conditions(graph))
    counting = all(_counts(node) for condition in conditions for node in condition)
    return bool(conditions) and not (counting and not any(map(_becomes_integer, nodes)))


def _conditions(graph: Graph) -> Iterator[list[Any]]:
    """The nodes of each loop's condition."""
    for function, nodes in graph.nodes.items():
        for node in nodes.values():
            if node.op in _LOOPS:
                yield list(graph.nodes[node.attr["cond"].func.name].values())
            elif node.op == "LoopCond" and function == GRAPH:
                reached = graph.reach(node.input, control=False)
                yield [graph.nodes[name][n] for name, names in reached.items() for n in names]


def _counts(node: Any) -> bool:
    # A map of protobuf makes what is read and absent, and TensorFlow refuses an empty attribute.
    return node.op in _COUNTING and not ("T" in node.attr and node.attr["T"].type in _FLOATS)


def _becomes_integer(node: Any) -> bool:
    # Sizes of shapes and indices of largest elements are limited.
    return (
        node.op == "Cast"
        and node.attr["SrcT"].type in _FLOATS
        and node.attr["DstT"].type not in {*_FLOATS, types_pb2.DT_BOOL}
    )
