"""The bodies of a graph as graphs of TensorFlow, with the shapes that its calls and loops pass to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

from ...model.fusions.interface import Tensor
from .graphs import GRAPH
from .inlining import called_by

_LOOPS = frozenset({"While", "StatelessWhile"})
_BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
"""Their first input chooses a branch and is not passed to it."""


def body_graphs(
    graph_def: Any, functions: Mapping[str, Any], closed: Collection[str]
) -> dict[str, Any]:
    """The graph itself, by the name `GRAPH`, and the functions that it runs.

    Args:
        graph_def: The graph.
        functions: Its library, by name.
        closed: Functions that are not looked into.
    """
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        bodies: list[tuple[str, Any]] = [(GRAPH, graph)]
        seen: dict[str, tuple[Tensor, ...]] = {}
        for _, body in bodies:  # grows while it is walked
            for operation in body.get_operations():
                if called_by(operation.node_def, functions) in closed:
                    continue
                for name, arguments in _passed(operation, functions):
                    known = _in_common(seen.get(name, arguments), arguments)
                    if seen.get(name) != known:
                        seen[name] = known
                        bodies.append((name, as_graph(functions[name], known)))
    return dict(bodies)  # the last one of a function is for all of its calls


def _passed(
    operation: Any, functions: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    """The functions that an operation runs, with what it passes to them."""
    definition = operation.node_def
    names = [r.name for a in definition.attr.values() for r in (a.func, *a.list.func) if r.name]
    if definition.op in functions:
        names.append(definition.op)
    # The shape of what a loop changes may differ from that of its first value.
    values = operation.outputs if definition.op in _LOOPS else operation.inputs
    tensors = tuple(tensors_of(values[definition.op in _BRANCHES :]))
    for name in names:
        if name in functions:
            expected = [argument.type for argument in functions[name].signature.input_arg]
            if [tf.dtypes.as_dtype(t.dtype).as_datatype_enum for t in tensors] == expected:
                yield name, tensors
            else:  # an operation that passes something else
                types = [tf.dtypes.as_dtype(kind).name for kind in expected]
                yield name, tuple(Tensor(kind, None) for kind in types)


def _in_common(left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The facts that hold for two calls of the same function."""
    shapes = [
        tf.TensorShape(a.shape).most_specific_compatible_shape(tf.TensorShape(b.shape))
        for a, b in zip(left, right, strict=True)
    ]
    return tuple(
        Tensor(a.dtype, None if s.rank is None else tuple(s.as_list()))
        for a, s in zip(left, shapes, strict=True)
    )


def as_graph(function: Any, arguments: Sequence[Tensor]) -> Any:
    """The body of a function for arguments of these shapes."""
    shapes = [None if t.shape is None else tf.TensorShape(t.shape) for t in arguments]
    return function_def_to_graph(function, input_shapes=shapes)


def tensors_of(values: Iterable[Any]) -> list[Tensor]:
    """Types and shapes of TensorFlow's tensors."""
    return [
        Tensor(v.dtype.name, None if v.shape.rank is None else tuple(v.shape.as_list()))
        for v in values
    ]
