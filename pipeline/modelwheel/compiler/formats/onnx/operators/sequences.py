"""Sequences of tensors and optionals: what they hold is known while a model is converted."""

from __future__ import annotations

import numpy as np

from ....stablehlo.writer import Value
from ....stablehlo.writer import gathering as i
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import INT64
from .onnx_node import Absent, Node, Result, TensorList, operator


def _sequence(node: Node, number: int = 0) -> TensorList:
    """An input that is a sequence.

    Raises:
        TypeError: It is not.
    """
    item = node.inputs[number]
    if not isinstance(item, TensorList):
        raise TypeError(f"input {number} is not a sequence")
    return item


def _position(node: Node, number: int, length: int) -> int:
    """A known position in a sequence, counted from the start.

    Raises:
        UnsupportedModelError: The inputs decide it.
        IndexError: It is out of range.
    """
    position = int(node.required(number, "a position in a sequence").reshape(()))
    if not -length <= position <= length:
        raise IndexError(f"the position {position} is not in a sequence of {length}")
    return position + length if position < 0 else position


@operator("SequenceConstruct")
def construct(node: Node) -> Result:
    """A sequence of the inputs."""
    return TensorList(tuple(node.input(number) for number in range(len(node.inputs))))


@operator("SequenceEmpty")
def empty(node: Node) -> Result:
    """A sequence without tensors."""
    from onnx import helper

    return TensorList((), np.dtype(helper.tensor_dtype_to_np_dtype(node.get("dtype", 1))))


@operator("SequenceAt")
def at(node: Node) -> Result:
    """A tensor of a sequence. Inputs may decide which, if all have one shape."""
    values, position = _sequence(node).values, node.input(1)
    alike = len({(value.dtype, value.shape) for value in values}) == 1
    if position.known is None and alike:
        index = i.wrap_negative(s.reshape(position, []), len(values))
        return i.take(s.stack(values, 0), index, 0)
    return values[_position(node, 1, len(values))]


@operator("SequenceInsert")
def insert(node: Node) -> Result:
    """The sequence with a tensor before a position, by default at its end."""
    sequence = _sequence(node)
    values, added = list(sequence.values), node.input(1)
    place = len(values)
    if node.optional(2) is not None:
        place = _position(node, 2, len(values))
    return TensorList((*values[:place], added, *values[place:]), sequence.dtype)


@operator("SequenceErase")
def erase(node: Node) -> Result:
    """The sequence without a tensor, by default the last one."""
    sequence = _sequence(node)
    values = list(sequence.values)
    place = len(values) - 1
    if node.optional(1) is not None:
        place = _position(node, 1, len(values))
    del values[place]
    return TensorList(tuple(values), sequence.dtype)


@operator("SequenceLength")
def length(node: Node) -> Result:
    """The number of tensors."""
    return node.builder.constant(len(_sequence(node).values), INT64)


@operator("SplitToSequence")
def split(node: Node) -> Result:
    """Parts of a tensor along an axis."""
    x, axis = node.input(0), int(node.get("axis", 0)) % node.input(0).rank
    extent = x.shape[axis]
    if node.optional(1) is None:
        parts = s.split(x, axis, [1] * extent)
        if not node.get("keepdims", 1):
            parts = [s.squeeze(part, [axis]) for part in parts]
        return TensorList(tuple(parts), x.dtype)
    lengths = node.required(1, "the sizes of its parts")
    if lengths.ndim:
        sizes = [int(size) for size in lengths]
    else:
        size = int(lengths)
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    if sum(sizes) != extent:
        raise ValueError(f"its parts have {sum(sizes)} rows of {extent}")
    return TensorList(tuple(s.split(x, axis, sizes)), x.dtype)


@operator("ConcatFromSequence")
def concat(node: Node) -> Result:
    """The tensors of a sequence along an axis, which may be new."""
    values, axis = _sequence(node).values, int(node.get("axis", 0))
    if not values:
        raise node.refuse("joins a sequence without tensors", "put at least one tensor into it")
    return s.stack(values, axis) if node.get("new_axis", 0) else s.concatenate(values, axis)


@operator("Optional")
def optional(node: Node) -> Result:
    """An optional that holds the input, or nothing."""
    item = node.inputs[0] if node.inputs else None
    return Absent() if item is None else item


@operator("OptionalGetElement")
def get_element(node: Node) -> Result:
    """The value that an optional holds."""
    item = node.inputs[0]
    if not isinstance(item, Value | TensorList):
        raise node.refuse("reads an optional that holds nothing", "correct the model")
    return item


@operator("OptionalHasElement")
def has_element(node: Node) -> Result:
    """Whether an optional holds anything."""
    item = node.inputs[0] if node.inputs else None
    return node.builder.constant(isinstance(item, Value | TensorList))


@operator("SequenceMap")
def sequence_map(node: Node) -> Result:
    """A graph for each tensor of a sequence."""
    first, body = node.inputs[0], node.closure("body")
    if not isinstance(first, TensorList):
        raise TypeError("input 0 is not a sequence")
    columns: list[list[Value]] = [[] for _ in range(body.outputs)]
    for number in range(len(first.values)):
        items = [
            item.values[number] if isinstance(item, TensorList) else item for item in node.inputs
        ]
        for column, value in zip(columns, body.values(items), strict=True):
            column.append(value)
    return [TensorList(tuple(column)) for column in columns]
