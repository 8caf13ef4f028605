"""A model whose batch axis is another one than the first, as one whose rows come first.

Rows are compared, replaced and cut along axis 0: of every input and output that has a batch axis, it is moved there.
The compiled model keeps the axes of the model itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from ...model.inspection import SignatureInfo, TensorInfo
from .base import Arrays, Fetch, LoadedModel, SignatureGraph, StaticShapes
from .guarded import GuardedModel
from .renamed import RenamedModel

Orders = Mapping[str, tuple[int, ...]]
"""The axes of inputs or outputs by name, in an order that has the batch axis first; none where it is axis 0."""


def order_of(axis: int, rank: int) -> tuple[int, ...]:
    """The axes in an order that has one of them first and the others as they are."""
    return (axis, *(other for other in range(rank) if other != axis))


def rows_first(loaded: LoadedModel, inputs: Orders, outputs: Orders) -> LoadedModel:
    """The model with its rows on axis 0; the model itself if they are there."""
    return RowsFirst(loaded, inputs, outputs) if inputs or outputs else loaded


def innermost(loaded: LoadedModel) -> LoadedModel:
    """The model of a format, without other names and axes."""
    while isinstance(loaded, (RenamedModel, RowsFirst, GuardedModel)):
        loaded = loaded.loaded
    return loaded


def moved_inputs(loaded: LoadedModel) -> Orders:
    """The inputs of a model whose rows were moved to axis 0."""
    return loaded.inputs if isinstance(loaded, RowsFirst) else {}


@dataclass(frozen=True)
class RowsFirst:
    """See `LoadedModel`."""

    loaded: LoadedModel
    inputs: Orders
    outputs: Orders

    @property
    def info(self) -> SignatureInfo:
        """See `LoadedModel`."""
        info = self.loaded.info
        update = {
            "inputs": tuple(_reorder(t, self.inputs) for t in info.inputs),
            "outputs": tuple(_reorder(t, self.outputs) for t in info.outputs),
        }
        return info.model_copy(update=update)

    @property
    def evaluator(self) -> str:
        """See `LoadedModel`."""
        return self.loaded.evaluator

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`."""
        back = {name: _inverse(order) for name, order in self.inputs.items()}
        return _transpose(self.loaded(_transpose(inputs, back)), self.outputs)

    def graph(self, shapes: StaticShapes, keep: Collection[str] = ()) -> SignatureGraph:
        """See `LoadedModel`."""
        own = dict(shapes)
        for name, order in self.inputs.items():
            own[name] = tuple(shapes[name][axis] for axis in _inverse(order))
        graph = self.loaded.graph(own, keep)
        nodes = {node.name: node for node in graph.graph_def.node}
        feeds, fetches = dict(graph.feeds), dict(graph.fetches)
        for name, order in self.inputs.items():
            feeds[name] = _move_feed(graph.graph_def, nodes[feeds[name]], _inverse(order))
        for name, order in self.outputs.items():
            fetches[name] = _move_fetch(graph.graph_def, fetches[name], order)
        return replace(graph, feeds=feeds, fetches=fetches)


def _reorder(tensor: TensorInfo, orders: Orders) -> TensorInfo:
    if tensor.name not in orders or tensor.shape is None:
        return tensor
    order, shape = orders[tensor.name], tensor.shape
    update = {
        "shape": tuple(shape[axis] for axis in order),
        "symbols": tuple(map(tensor.symbol, order)) if tensor.symbols else (),
    }
    return tensor.model_copy(update=update)


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(order.index(axis) for axis in range(len(order)))


def _transpose(arrays: Arrays, orders: Orders) -> Arrays:
    """Arrays with their axes in another order; one of another rank is left for the checks that follow."""
    return {
        name: np.ascontiguousarray(values.transpose(orders[name]))
        if name in orders and values.ndim == len(orders[name])
        else values
        for name, values in arrays.items()
    }


def _move_feed(graph_def: Any, node: Any, order: tuple[int, ...]) -> str:
    """Puts a new placeholder before a placeholder, which becomes a transpose; returns its name."""
    placeholder = graph_def.node.add()
    placeholder.CopyFrom(node)
    placeholder.name = f"{node.name}_rows_first"
    dtype = node.attr["dtype"].type
    node.ClearField("attr")
    node.op = "Transpose"
    _add_order(graph_def, node, order)
    node.input[:] = [placeholder.name, *node.input]
    node.attr["T"].type = dtype
    return str(placeholder.name)


def _move_fetch(graph_def: Any, fetch: Fetch, order: tuple[int, ...]) -> Fetch:
    name = fetch.tensor.replace(":", "_") + "_rows_first"
    node = graph_def.node.add(name=name, op="Transpose")
    _add_order(graph_def, node, order)
    node.input[:] = [fetch.tensor, *node.input]
    node.attr["T"].type = fetch.dtype.as_datatype_enum
    return replace(fetch, tensor=f"{name}:0")


def _add_order(graph_def: Any, node: Any, order: tuple[int, ...]) -> None:
    """Adds the constant that a transpose takes, as the only input of its node."""
    name = f"{node.name}_order"
    constant = graph_def.node.add(name=name, op="Const")
    constant.attr["dtype"].type = tf.int32.as_datatype_enum
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(order, tf.int32))
    node.attr["Tperm"].type = tf.int32.as_datatype_enum
    node.input[:] = [name]
