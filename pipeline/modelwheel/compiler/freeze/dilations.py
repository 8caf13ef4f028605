"""Makes convolutions of parts of their input dilated convolutions, which is what they were before TensorFlow wrote them so.

    %a = SpaceToBatchND %x, [1, 2], [[0, 0], [2, 3]]
    %b = Conv2D %a, %w {padding=VALID}                    %y = Conv2D %x, %w {dilations=[1, 1, 2, 1],
    %y = BatchToSpaceND %b, [1, 2], [[0, 0], [0, 1]]  ->                      explicit_paddings=[0, 0, 0, 0, 2, 2, 0, 0]}

`tf.nn.convolution` (tensorflow/python/ops/nn_ops.py, `with_space_to_batch`) writes every layer of Keras with a dilation rate
like this. Two copies of all activations go, and bias and activation can follow the convolution. A layer of one spatial
axis has ExpandDims and Squeeze around its Conv2D.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import tensor_util

from ..graphs.graphs import node_name

_CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2dNative"})
_SPATIAL_AXES = (1, 2)
"""Those of a convolution whose features come last."""


@dataclass(frozen=True)
class _Dilated:
    """A convolution of parts of its input, from the first node to the last."""

    split: Any
    expand: Any | None
    convolution: Any
    squeeze: Any | None
    join: Any


class _Graph:
    """The nodes of a graph by name, how many read each, and the values that do not depend on inputs."""

    def __init__(self, graph_def: Any) -> None:
        self._nodes = {node.name: node for node in graph_def.node}
        self._readers = Counter(
            node_name(tensor) for node in graph_def.node for tensor in node.input
        )
        with tf.Graph().as_default() as self._graph:
            tf.import_graph_def(graph_def, name="")

    def source(self, node: Any, *ops: str) -> Any | None:
        """The node whose only reader is another one, if it is one of some operations."""
        source = self._nodes.get(node.input[0].removesuffix(":0"))
        if source is None or source.op not in ops or self._readers[source.name] != 1:
            return None
        return source

    def numbers(self, tensor: str) -> np.ndarray[Any, Any] | None:
        """The value of a tensor of integers, if it follows from constants and shapes."""
        value = tensor_util.try_evaluate_constant(self._tensor(tensor))
        return None if value is None else np.asarray(value)

    def rank(self, tensor: str) -> int | None:
        """The number of axes of a tensor."""
        rank: int | None = self._tensor(tensor).shape.rank
        return rank

    def _tensor(self, name: str) -> Any:
        return self._graph.get_tensor_by_name(name if ":" in name else f"{name}:0")


def join_dilations(graph_def: Any) -> None:
    """Makes such convolutions of a graph dilated ones, in place; what nothing reads any more stays."""
    if not any(node.op == "SpaceToBatchND" for node in graph_def.node):
        return
    graph = _Graph(graph_def)
    for node in graph_def.node:
        chain = _chain(graph, node)
        if chain is not None and (padding := _padding(graph, chain)) is not None:
            _dilate(chain, *padding)


def _chain(graph: _Graph, join: Any) -> _Dilated | None:
    """The convolution that ends with a node."""
    if join.op != "BatchToSpaceND":
        return None
    convolution = graph.source(join, "Squeeze", *_CONVOLUTIONS)
    squeeze = expand = None
    if convolution is not None and convolution.op == "Squeeze":
        squeeze = convolution
        convolution = graph.source(squeeze, *_CONVOLUTIONS)
    if convolution is None or not _is_plain(convolution):
        return None
    split = graph.source(convolution, "SpaceToBatchND", "ExpandDims")
    if split is not None and split.op == "ExpandDims":
        expand = split
        split = graph.source(expand, "SpaceToBatchND")
    if split is None or (expand is None) != (squeeze is None):
        return None
    if expand is not None and not _adds_height(graph, expand, squeeze, split):
        return None
    return _Dilated(split, expand, convolution, squeeze, join)


def _is_plain(convolution: Any) -> bool:
    """Whether a convolution has neither padding nor strides nor dilations, and its features are the last axis."""
    attributes = convolution.attr
    return (
        attributes["padding"].s == b"VALID"
        and attributes["data_format"].s in (b"", b"NHWC")
        and set(attributes["strides"].list.i) == {1}
        and set(attributes["dilations"].list.i) <= {1}
    )


def _adds_height(graph: _Graph, expand: Any, squeeze: Any, split: Any) -> bool:
    """Whether axis 1 of a convolution is one that was added, and is removed again."""
    axis = graph.numbers(expand.input[1])
    removed = list(squeeze.attr["squeeze_dims"].list.i)
    return (
        graph.rank(split.input[0]) == 3
        and axis is not None
        and axis.size == 1
        and int(axis.item()) in (1, -3)
        and removed in ([1], [-3])
    )


def _padding(graph: _Graph, chain: _Dilated) -> tuple[list[int], list[list[int]]] | None:
    """The dilation of each axis that is divided, and its padding before and behind."""
    split, join = chain.split, chain.join
    blocks, paddings = graph.numbers(split.input[1]), graph.numbers(split.input[2])
    joined, crops = graph.numbers(join.input[1]), graph.numbers(join.input[2])
    if blocks is None or joined is None or paddings is None or crops is None:
        return None
    spatial = 1 if chain.expand is not None else len(_SPATIAL_AXES)
    if not np.array_equal(blocks, joined) or len(blocks) > spatial:
        return None
    left = paddings - crops
    return (blocks.tolist(), left.tolist()) if (left >= 0).all() else None


def _dilate(chain: _Dilated, blocks: Sequence[int], paddings: Sequence[Sequence[int]]) -> None:
    axes = _SPATIAL_AXES[1:] if chain.expand is not None else _SPATIAL_AXES
    dilations, padding = [1, 1, 1, 1], [0] * 8
    for axis, block, (low, high) in zip(axes, blocks, paddings, strict=False):
        dilations[axis] = block
        padding[2 * axis : 2 * axis + 2] = low, high
    convolution, last = chain.convolution, chain.squeeze or chain.convolution
    (chain.expand or convolution).input[0] = chain.split.input[0]
    convolution.attr["dilations"].list.i[:] = dilations
    if any(padding):
        convolution.attr["padding"].s = b"EXPLICIT"
        convolution.attr["explicit_paddings"].list.i[:] = padding
    # Its readers keep the name that they know.
    name, dtype = chain.join.name, chain.join.attr["T"].type
    chain.join.Clear()
    chain.join.MergeFrom(tf.compat.v1.NodeDef(name=name, op="Identity", input=[last.name]))
    chain.join.attr["T"].type = dtype
