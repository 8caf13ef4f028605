"""Finds the patterns of fusions in a graph of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ..patterns import Pattern, Tensor, match, size

_HANDED_ON = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot"})
"""Operations whose result is their input: patterns do not see them."""
_FOLDED: Mapping[str, Callable[..., Any]] = {
    "Mul": np.multiply,
    "Neg": np.negative,
    "Pow": np.power,
    "RealDiv": np.divide,
    "Reciprocal": np.reciprocal,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Sqrt": np.sqrt,
}
"""What constants such as sqrt(2) are written with."""
_MAX_ELEMENTS = 4096
"""Larger constants are weights, not numbers that are spread over a tensor."""


class Found(NamedTuple):
    """A pattern in a graph."""

    name: str
    """The fusion."""
    root: Any
    """The tensor that it computes."""
    captured: Mapping[str, Any]
    """Tensors by the names of captures."""
    attributes: Mapping[str, float]


def find_patterns(
    graph: Any, outputs: Sequence[Any], patterns: Mapping[str, Pattern]
) -> Iterator[Found]:
    """The patterns in a graph; no two have an operation in common.

    Nothing else reads what a pattern computes on the way to its result, and no output is such a tensor.

    Args:
        graph: The graph of TensorFlow.
        outputs: The tensors that are wanted of it.
        patterns: By the names of fusions. Larger ones are looked for first.
    """
    view = GraphView(graph)
    live = _live([tensor.op for tensor in outputs])
    wanted = {tensor.name for tensor in outputs}
    taken: set[Any] = set()
    for name, pattern in sorted(patterns.items(), key=lambda item: (-size(item[1]), item[0])):
        for operation in graph.get_operations():
            if operation not in live or len(operation.outputs) != 1:
                continue
            root = operation.outputs[0]
            found = match(pattern, root.name, view)
            if found is None:
                continue
            inside = {view.tensor(one).op for one in found.inside}
            between = [view.tensor(one) for one in found.inside if one != root.name]
            if inside & taken or any(_escapes(t, inside, wanted, live) for t in between):
                continue
            taken |= inside
            captured = {key: view.tensor(one) for key, one in found.tensors.items()}
            yield Found(name, root, captured, found.attributes)


def _live(waiting: list[Any]) -> set[Any]:
    """The operations that others depend on, and these."""
    live: set[Any] = set()
    while waiting:
        operation = waiting.pop()
        if operation not in live:
            live.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
            waiting += operation.control_inputs
    return live


def _escapes(
    tensor: Any, inside: Collection[Any], wanted: Collection[str], live: Collection[Any]
) -> bool:
    """Whether anything outside of a pattern reads a tensor."""
    if tensor.name in wanted:
        return True
    for reader in tensor.consumers():
        if reader not in live or reader in inside:
            continue
        if reader.type not in _HANDED_ON or _escapes(reader.outputs[0], inside, wanted, live):
            return True
    return False


class GraphView:
    """A graph of TensorFlow as patterns see it; its tensors are their names."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def tensor(self, name: Tensor) -> Any:
        """TensorFlow's tensor."""
        return self._graph.get_tensor_by_name(name)

    def operation(self, tensor: Tensor) -> tuple[str, Sequence[Tensor]] | None:
        """See `View`."""
        found = self.tensor(tensor).op
        if len(found.outputs) != 1:
            return None
        return found.type, [_source(one).name for one in found.inputs]

    def has_attributes(self, tensor: Tensor, wanted: Mapping[str, bool | int | str]) -> bool:
        """See `View`."""
        operation = self.tensor(tensor).op
        return all(_attribute(operation, name) == value for name, value in wanted.items())

    def scalar(self, tensor: Tensor) -> float | None:
        """See `View`."""
        value = _value(self.tensor(tensor))
        if value is None or value.dtype.kind != "f" or not value.size or value.min() != value.max():
            return None
        return float(value.flat[0])

    def integers(self, tensor: Tensor) -> tuple[int, ...] | None:
        """See `View`."""
        value = _value(self.tensor(tensor))
        return None if value is None or value.dtype.kind != "i" else tuple(value.ravel().tolist())

    def rank(self, tensor: Tensor) -> int | None:
        """See `View`."""
        rank: int | None = self.tensor(tensor).shape.rank
        return rank


def _source(tensor: Any) -> Any:
    while tensor.op.type in _HANDED_ON:
        tensor = tensor.op.inputs[0]
    return tensor


def _attribute(operation: Any, name: str) -> Any:
    try:
        value = operation.get_attr(name)
    except ValueError:
        return None
    return value.decode() if isinstance(value, bytes) else value


def _value(tensor: Any) -> Any:
    """A small constant as an array; None for another tensor."""
    tensor = _source(tensor)
    elements = tensor.shape.num_elements()
    if elements is None or elements > _MAX_ELEMENTS:
        return None
    if tensor.op.type == "Const":
        return np.asarray(tf.get_static_value(tensor))
    fold = _FOLDED.get(tensor.op.type)
    values = [_value(one) for one in tensor.op.inputs] if fold else [None]
    if fold is None or any(value is None for value in values):
        static = tf.get_static_value(tensor)
        return None if static is None else np.asarray(static)
    with np.errstate(all="ignore"):
        return np.asarray(fold(*values), tensor.dtype.as_numpy_dtype)
