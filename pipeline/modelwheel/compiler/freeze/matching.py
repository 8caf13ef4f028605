"""Finds the patterns of fusions in a graph of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from ...model.fusions.patterns import Pattern, Tensor, View, match, size

_HANDED_ON = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot"})
"""Operations whose result is their input: patterns do not see them."""
FOLDED: Mapping[str, Callable[..., Any]] = {
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
    root: Tensor
    """What it computes."""
    captured: Mapping[str, Tensor]
    """Tensors by the names of captures."""
    attributes: Mapping[str, float]


class Searched(View, Protocol):
    """A graph in which patterns are looked for."""

    def candidates(self) -> Iterable[Tensor]:
        """The tensors that a pattern may compute."""

    def is_read_outside(self, tensor: Tensor, inside: Collection[Tensor]) -> bool:
        """Whether a tensor is wanted of the graph, or anything but the operations of these tensors reads it."""


def find_patterns(graph: Searched, patterns: Mapping[str, Pattern]) -> Iterator[Found]:
    """The patterns in a graph; no two have an operation in common.

    Nothing else reads what a pattern computes on the way to its result.

    Args:
        graph: The graph.
        patterns: By the names of fusions. Larger ones are looked for first.
    """
    taken: set[Tensor] = set()
    for name, pattern in sorted(patterns.items(), key=lambda item: (-size(item[1]), item[0])):
        for root in graph.candidates():
            bound = match(pattern, root, graph)
            if bound is None or bound.inside & taken:
                continue
            between = bound.inside - {root}
            if any(graph.is_read_outside(tensor, bound.inside) for tensor in between):
                continue
            taken |= bound.inside
            yield Found(name, root, bound.tensors, bound.attributes)


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


class GraphView:
    """A graph of TensorFlow as patterns see it; its tensors are their names. See `Searched`."""

    def __init__(self, graph: Any, outputs: Sequence[Any]) -> None:
        self._graph = graph
        self._live = _live([tensor.op for tensor in outputs])
        self._outputs = {tensor.name for tensor in outputs}

    def candidates(self) -> Iterator[Tensor]:
        """See `Searched`."""
        for operation in self._graph.get_operations():
            if operation in self._live and len(operation.outputs) == 1:
                yield operation.outputs[0].name

    def is_read_outside(self, tensor: Tensor, inside: Collection[Tensor]) -> bool:
        """See `Searched`."""
        return self._escapes(self.tensor(tensor), {self.tensor(name).op for name in inside})

    def _escapes(self, tensor: Any, inside: Collection[Any]) -> bool:
        if tensor.name in self._outputs:
            return True
        for reader in tensor.consumers():
            if reader not in self._live or reader in inside:
                continue
            if reader.type not in _HANDED_ON or self._escapes(reader.outputs[0], inside):
                return True
        return False

    def tensor(self, name: Tensor) -> Any:
        """TensorFlow's tensor."""
        return self._graph.get_tensor_by_name(name)

    def operation(
        self, tensor: Tensor, attributes: Mapping[str, bool | int | str]
    ) -> tuple[str, Sequence[Tensor]] | None:
        """See `View`."""
        op = self.tensor(tensor).op
        if len(op.outputs) != 1:
            return None
        if any(_attribute(op, name) != value for name, value in attributes.items()):
            return None
        return op.type, [_source(tensor).name for tensor in op.inputs]

    def scalar(self, tensor: Tensor) -> float | None:
        """See `View`."""
        return uniform(_value(self.tensor(tensor)))

    def integers(self, tensor: Tensor) -> tuple[int, ...] | None:
        """See `View`."""
        value = _value(self.tensor(tensor))
        return None if value is None or value.dtype.kind != "i" else tuple(value.ravel().tolist())

    def rank(self, tensor: Tensor) -> int | None:
        """See `View`."""
        rank: int | None = self.tensor(tensor).shape.rank
        return rank


def uniform(value: Any) -> float | None:
    """The number that all elements of an array of floats are; None if they differ, or it is no such array."""
    if value is None or value.dtype.kind != "f" or not value.size or value.min() != value.max():
        return None
    return float(value.flat[0])


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
    fold = FOLDED.get(tensor.op.type)
    values = [_value(operand) for operand in tensor.op.inputs] if fold else [None]
    if fold is None or any(value is None for value in values):
        static = tf.get_static_value(tensor)
        return None if static is None else np.asarray(static)
    with np.errstate(all="ignore"):
        return np.asarray(fold(*values), tensor.dtype.as_numpy_dtype)
