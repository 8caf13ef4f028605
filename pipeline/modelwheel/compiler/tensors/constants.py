"""Arguments that XLA must know when it compiles: shapes, axes and numbers of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...model.inspection import NeededConstant
from ..graphs.graphs import layer_name
from .bounds import bounds_of
from .values import Tensor

SHAPE_ONLY = frozenset({"Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"})
"""Operations whose results depend on the shapes of their inputs alone."""

_REDUCTIONS = ("Sum", "Prod", "Mean", "Max", "Min", "All", "Any", "ArgMax", "ArgMin")
_ARGUMENTS: dict[str, dict[int, str]] = {
    **{op: {1: "the axes"} for op in (*_REDUCTIONS, "Cumsum", "Cumprod", "ReverseV2")},
    **{op: {1: "the paddings"} for op in ("Pad", "PadV2", "MirrorPad")},
    **{op: {1: "the size"} for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")},
    **{op: {0: "the shape"} for op in ("Fill", "Empty", "RandomUniform", "RandomStandardNormal")},
    **{op: {2: "the number of segments"} for op in ("UnsortedSegmentSum", "UnsortedSegmentMax")},
    "Reshape": {1: "the shape"},
    "BroadcastTo": {1: "the shape"},
    "Tile": {1: "the multiples"},
    "Range": {0: "the start", 1: "the limit", 2: "the step"},
    "LinSpace": {2: "the number of values"},
    "TopKV2": {1: "k"},
    "OneHot": {1: "the depth"},
    "Transpose": {1: "the order of axes"},
    "ExpandDims": {1: "the axis"},
    "GatherV2": {2: "the axis"},
    "Slice": {2: "the size"},
    "ScatterNd": {2: "the shape"},
    "SplitV": {1: "the sizes", 2: "the axis"},
    **{op: {1: "the size"} for op in ("Bincount", "DenseBincount")},
    "TensorListReserve": {1: "the number of elements"},
    "TensorArrayV3": {0: "the number of elements"},
}
"""What such arguments are, by operation and position."""
SCALARS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("TopKV2", "OneHot", "Bincount", "DenseBincount"), (1,)),
    **dict.fromkeys(("LinSpace", "UnsortedSegmentSum", "UnsortedSegmentMax"), (2,)),
    "Range": (0, 1, 2),
}
"""The positions of those that are single numbers."""
_COUNTING = frozenset(
    {
        *("Where", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"),
        *("DynamicPartition", "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3"),
    }
)
"""Operations whose results have as many elements as the values say."""


def find_needed_constant(node: Any, inputs: Sequence[Tensor]) -> NeededConstant | None:
    """The first argument of a node that XLA must know and that depends on the values of inputs."""
    for position, name in _ARGUMENTS.get(node.op, {}).items():
        if position < len(inputs) and inputs[position].data:
            bounds = bounds_of(inputs[position])
            if position in SCALARS.get(node.op, ()) and bounds and bounds[0] == bounds[1]:
                continue  # `clamps` replaces it
            return NeededConstant(op=node.op, argument=name, layer=layer_name(node.name))
    if node.op in _COUNTING:
        return _uncertain(node, "the shape of the result")
    # XLA does not lengthen lists, and drops what would be beyond their end.
    if node.op == "TensorListSetItem" and node.attr["resize_if_index_out_of_bounds"].b:
        return _uncertain(node, "the length of the list")
    return None


def _uncertain(node: Any, argument: str) -> NeededConstant:
    return NeededConstant(op=node.op, argument=argument, layer=layer_name(node.name), certain=False)
