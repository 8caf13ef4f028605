"""Finds what operations demand of the values of a model's inputs: indices within their table, mask values.

TensorFlow fails on an index outside its table where XLA clamps it, and a model that masks a value shows
nothing of that unless the value occurs. Both follow from the graph; nothing of it is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from .origins import Origins, undo
from .uses import ARITHMETIC, Demand, Kinds, Use, find_scales, find_uses, indexed, selected, spans
from .values import Origin, Tensor

_ANY_ALL = frozenset({"Any", "All"})


Demands = dict[tuple[str, Demand], tuple[str, str]]
"""The operation and node of each demand, by the fed node."""


def join_demands(mine: Demands, others: Demands) -> None:
    """Adds demands; those that are known keep their place."""
    for key, place in others.items():
        mine.setdefault(key, place)


def find_demands(
    node: Any,
    name: str,
    inputs: Sequence[Tensor],
    results: Origins = (),
    *,
    condition: bool = False,
) -> Demands:
    """The demands of a node on the inputs whose values reach it.

    Args:
        node: It.
        name: Its name.
        inputs: What it reads.
        results: The origins of its first result.
        condition: Whether a loop goes on by it.
    """
    demands: Demands = {}
    uses = [*_find(node, inputs), *find_uses(node.op, inputs, _kinds(node), condition=condition)]
    if node.op in ARITHMETIC:
        uses += find_scales(results)
    for origin, demand in uses:
        demands.setdefault((origin.feed, demand), (node.op, name))
    return demands


def _kinds(node: Any) -> Kinds:
    keys = ("SrcT", "DstT") if node.op == "Cast" else ("T", "T")
    # Reading an attribute that is left out would add it, empty.
    kinds = [node.attr[key].type if key in node.attr else 0 for key in keys]
    return Kinds(*map(_type_name, kinds))


@cache
def _type_name(kind: int) -> str:
    import tensorflow as tf  # reading other formats needs no TensorFlow

    return str(tf.dtypes.as_dtype(kind).name) if kind else ""


def _find(node: Any, inputs: Sequence[Tensor]) -> Iterator[tuple[Origin, Demand]]:
    op = node.op
    if op == "Bucketize":
        yield from spans(inputs[0].origins, node.attr["boundaries"].list.f)
        return
    if op == "ClipByValue":
        yield from spans(
            inputs[0].origins, [float(n or 0) for t in inputs[1:] for n in t.value or ()]
        )
        return
    if op in _ANY_ALL:
        axes = len(inputs[1].value or ()) if len(inputs) > 1 else 0
        for origin in inputs[0].origins:
            kind, mask, _ = origin.steps[-1] if origin.steps else ("", 0.0, 0.0)
            value = undo(origin.steps[:-1], mask) if kind == "is" else None
            if value is not None:
                yield origin, Demand("mask", value, float(axes))
        return
    number, table = _INDICES.get(op, 1), _TABLES.get(op)
    if table is None or number >= len(inputs):
        return
    if op in TABLE_OPS and not inputs[0].data:
        yield from _find_table(op, inputs, table(node, inputs))
    # A table whose extent follows the shapes of inputs has one row at least.
    yield from indexed(inputs[number].origins, table(node, inputs), soft=op in _SOFT)


def _find_table(op: str, inputs: Sequence[Tensor], rows: int | None) -> Iterator[Use]:
    """The table that is read; which elements several indices select together is not known."""
    indices = inputs[1]
    depth = (indices.shape or (None,))[-1] if op.endswith("Nd") else 1
    if depth == 1:
        yield from selected(indices, rows)
    elif depth:
        shape = (inputs[0].handle if op.startswith("Resource") else inputs[0].shape) or ()
        elements = math.prod(extent or 1 for extent in shape[:depth])
        yield from selected(Tensor(data=indices.data), elements)


def _axis_of_gather(_: Any, inputs: Sequence[Tensor]) -> int | None:
    value = inputs[2].value if len(inputs) > 2 else (0,)
    axis = value[0] if value else None
    shape = inputs[0].shape
    if shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return shape[axis]


def _first_axis(_: Any, inputs: Sequence[Tensor]) -> int | None:
    return inputs[0].shape[0] if inputs[0].shape else None


def _of_variable(node: Any, inputs: Sequence[Tensor]) -> int | None:
    handle, axis = inputs[0].handle, node.attr["batch_dims"].i
    return handle[axis] if handle is not None and 0 <= axis < len(handle) else None


def _smallest(shape: Sequence[int | None] | None, indices: Tensor) -> int | None:
    depth = indices.shape[-1] if indices.shape else None
    known = [extent for extent in (shape or ())[:depth] if extent is not None]
    return min(known) if depth and known else None


def _shape_value(tensor: Tensor, indices: Tensor) -> int | None:
    return _smallest([int(n) if n is not None else None for n in tensor.value or ()], indices)


def _scalar(tensor: Tensor) -> int | None:
    return int(tensor.value[0]) if tensor.value and tensor.value[0] is not None else None


def _lengths(node: Any, inputs: Sequence[Tensor]) -> int | None:
    shape, axis = inputs[0].shape, node.attr["seq_dim"].i
    extent = shape[axis] if shape is not None and axis < len(shape) else None
    return None if extent is None else extent + 1


_TABLES: dict[str, Any] = {
    "GatherV2": _axis_of_gather,
    "Gather": _first_axis,
    "ResourceGather": _of_variable,
    "GatherNd": lambda _, i: _smallest(i[0].shape, i[1]),
    "ResourceGatherNd": lambda _, i: _smallest(i[0].handle, i[1]),
    "OneHot": lambda _, i: _scalar(i[1]),
    "ReverseSequence": _lengths,
    "ScatterNd": lambda _, i: _shape_value(i[2], i[0]) if len(i) > 2 else None,
    **{
        f"TensorScatter{op}": lambda _, i: _smallest(i[0].shape, i[1])
        for op in ("Update", "Add", "Sub", "Min", "Max")
    },
    **{
        f"UnsortedSegment{op}": lambda _, i: _scalar(i[2]) if len(i) > 2 else None
        for op in ("Sum", "Prod", "Max", "Min")
    },
    "SparseSoftmaxCrossEntropyWithLogits": lambda _, i: (i[0].shape or (None,))[-1],
    "Case": lambda node, _: len(node.attr["branches"].list.func),
    "StatelessCase": lambda node, _: len(node.attr["branches"].list.func),
}
"""The number of values that an index may have, by operation; None if it is not known."""
_INDICES = {"OneHot": 0, "ScatterNd": 0, "Case": 0, "StatelessCase": 0}
"""The input that holds the indices, if it is not the second."""
TABLE_OPS = frozenset({"GatherV2", "Gather", "ResourceGather", "GatherNd", "ResourceGatherNd"})
"""Those that select parts of a table."""
_SOFT = frozenset({"OneHot", "Case", "StatelessCase"})
