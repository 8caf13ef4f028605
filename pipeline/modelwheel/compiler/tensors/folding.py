"""Evaluates operations on small tensors of integers: what a graph computes shapes and counters with.

Nothing here runs TensorFlow. `fold` gives up wherever it is not sure, or a result would have more than a few
hundred elements.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import tensor_util

from .values import MAX_ELEMENTS, MAX_POSITIONS, Tensor, is_short

_INTEGERS = frozenset({types_pb2.DT_INT32, types_pb2.DT_INT64})
_NUMBERS = frozenset(
    {
        *(types_pb2.DT_INT8, types_pb2.DT_INT16, types_pb2.DT_INT32, types_pb2.DT_INT64),
        *(types_pb2.DT_UINT8, types_pb2.DT_UINT16, types_pb2.DT_UINT32, types_pb2.DT_UINT64),
        *(types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE, types_pb2.DT_BOOL),
    }
)


def read_constant(node: Any) -> Tensor:
    """A Const; its elements are not made unless they are few."""
    message = node.attr["value"].tensor
    shape = tuple(dim.size for dim in message.tensor_shape.dim)
    constant = Tensor(shape, dynamic=False)
    if any(extent < 0 for extent in shape) or message.dtype not in _NUMBERS:
        return constant
    if not is_short(shape, integer=message.dtype in _INTEGERS):
        return constant
    try:
        array = tensor_util.MakeNdarray(message)
    except (TypeError, ValueError):  # fewer elements than its shape has
        return constant
    return Tensor(shape, tuple(array.ravel().tolist()), dynamic=False)


def fold(node: Any, inputs: Sequence[Tensor]) -> Tensor | None:
    """The single result of a node with its value; None if it is not known."""
    function = _FOLDERS.get(node.op)
    if function is None:
        return None
    if node.op not in _BY_SHAPE and any(i.value is None for i in inputs):
        return None
    if sum(len(i.value or ()) for i in inputs) > 4 * MAX_POSITIONS:
        return None
    try:
        result = function(node, inputs)
    except _FAILURES:
        return None
    if result is None:
        return None
    integer = all(isinstance(number, int) for number in result.ravel()[:1])
    if not is_short(result.shape, integer=integer):
        return None
    dynamic = any(i.dynamic for i in inputs)
    return Tensor(result.shape, tuple(result.ravel().tolist()), dynamic)


# Constants of a hostile model may have any shape, sign and type.
_FAILURES = (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError, ArithmeticError)
_Array: TypeAlias = np.ndarray[Any, Any]
_Folder: TypeAlias = Callable[[Any, Sequence[Tensor]], "_Array | None"]


def _array(tensor: Tensor) -> _Array:
    assert tensor.value is not None
    array = np.empty(len(tensor.value), dtype=object)
    array[:] = tensor.value
    return array.reshape(tensor.shape)


def _known(tensor: Tensor) -> list[int]:
    """The elements, which must all be known."""
    assert tensor.value is not None
    if None in tensor.value:
        raise ValueError("not known")
    return [int(number) for number in tensor.value if number is not None]


def _elementwise(function: Callable[..., Any]) -> _Folder:
    def apply(*numbers: Any) -> Any:
        return None if None in numbers else function(*numbers)

    def run(node: Any, inputs: Sequence[Tensor]) -> _Array:
        elements = np.frompyfunc(apply, len(inputs), 1)(*map(_array, inputs))
        result = np.empty(np.shape(elements), dtype=object)
        result[...] = elements
        return _wrap(node, result)

    return run


def _wrap(node: Any, array: _Array) -> _Array:
    """Integers as their type holds them."""
    bits = {types_pb2.DT_INT32: 32, types_pb2.DT_INT64: 64}.get(node.attr["T"].type, 0)
    if not bits or node.op in _COMPARES:
        return array
    half = 1 << (bits - 1)
    wrapped = np.empty(array.shape, dtype=object)
    flat = [n if n is None else (int(n) + half) % (2 * half) - half for n in array.ravel()]
    wrapped[...] = np.array(flat, dtype=object).reshape(array.shape)
    return wrapped


def _cast(node: Any, inputs: Sequence[Tensor]) -> _Array | None:
    kind = tf.dtypes.as_dtype(node.attr["DstT"].type)
    convert = bool if kind.is_bool else int if kind.is_integer else float
    return _elementwise(convert)(node, inputs)


def _reduce(function: Callable[[list[Any]], Any]) -> _Folder:
    def run(node: Any, inputs: Sequence[Tensor]) -> _Array:
        array, axes = _array(inputs[0]), tuple(_known(inputs[1]))
        kept = node.attr["keep_dims"].b
        axes = tuple(axis % max(array.ndim, 1) for axis in axes)
        shape = tuple(1 if i in axes else n for i, n in enumerate(array.shape))
        rest = [i for i in range(array.ndim) if i not in axes]
        moved = array.transpose(*rest, *axes).reshape(math.prod(shape), -1)
        elements = [None if None in row.tolist() else function(row.tolist()) for row in moved]
        result = np.empty(len(elements), dtype=object)
        result[:] = elements
        return _wrap(node, result.reshape(shape if kept else [array.shape[i] for i in rest]))

    return run


def _shape(_: Any, inputs: Sequence[Tensor]) -> _Array | None:
    return None if inputs[0].shape is None else np.array(inputs[0].shape, dtype=object)


def _size(_: Any, inputs: Sequence[Tensor]) -> _Array | None:
    shape = inputs[0].shape
    if shape is None or None in shape:
        return None
    return np.array(inputs[0].elements, dtype=object)


def _rank(_: Any, inputs: Sequence[Tensor]) -> _Array | None:
    return None if inputs[0].shape is None else np.array(len(inputs[0].shape), dtype=object)


def _strided_slice(node: Any, inputs: Sequence[Tensor]) -> _Array:
    array = _array(inputs[0])
    begin, end, strides = map(_known, inputs[1:4])
    masks = {name: node.attr[f"{name}_mask"].i for name in ("begin", "end", "shrink_axis")}
    if node.attr["ellipsis_mask"].i or node.attr["new_axis_mask"].i:
        raise ValueError("not followed")
    index: list[Any] = []
    for axis, (first, last, stride) in enumerate(zip(begin, end, strides, strict=True)):
        if masks["shrink_axis"] >> axis & 1:
            index.append(first)
            continue
        start = None if masks["begin"] >> axis & 1 else first
        index.append(slice(start, None if masks["end"] >> axis & 1 else last, stride))
    return _as_array(array[tuple(index)])


def _as_array(elements: Any) -> _Array:
    """Indexing an array of objects by numbers alone returns the object."""
    result = np.empty(np.shape(elements), dtype=object)
    result[...] = elements
    return result


def _range(_: Any, inputs: Sequence[Tensor]) -> _Array | None:
    start, limit, delta = (_known(tensor)[0] for tensor in inputs)
    numbers = range(start, limit, delta)
    return np.array(numbers, dtype=object) if len(numbers) <= MAX_POSITIONS else None


def _fill(_: Any, inputs: Sequence[Tensor]) -> _Array | None:
    shape = _known(inputs[0])
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    result = np.empty(shape, dtype=object)
    result[...] = (inputs[1].value or (None,))[0]
    return result


def _concat(_: Any, inputs: Sequence[Tensor]) -> _Array:
    (axis,) = _known(inputs[-1])
    return np.concatenate([_array(tensor) for tensor in inputs[:-1]], axis)


def _pack(node: Any, inputs: Sequence[Tensor]) -> _Array:
    # Elements may be unknown: a batch beside constants.
    parts = [_array(tensor) if tensor.value is not None else _blank(tensor) for tensor in inputs]
    return np.stack(parts, node.attr["axis"].i)


def _blank(tensor: Tensor) -> _Array:
    if tensor.shape is None or None in tensor.shape or tensor.elements > MAX_ELEMENTS:
        raise ValueError("not known")
    return np.full([extent or 0 for extent in tensor.shape], None, dtype=object)


def _gather(_: Any, inputs: Sequence[Tensor]) -> _Array:
    axis = _known(inputs[2])[0] if len(inputs) > 2 else 0
    indices = np.array(_known(inputs[1])).reshape(inputs[1].shape)
    return _as_array(np.take(_array(inputs[0]), indices, axis))


def _slice(_: Any, inputs: Sequence[Tensor]) -> _Array:
    begin, size = _known(inputs[1]), _known(inputs[2])
    index = tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin, size, strict=True))
    return _as_array(_array(inputs[0])[index])


def _squeeze(node: Any, inputs: Sequence[Tensor]) -> _Array:
    axes = tuple(node.attr["squeeze_dims"].list.i)
    return np.squeeze(_array(inputs[0]), axes or None)


def _tile(_: Any, inputs: Sequence[Tensor]) -> _Array | None:
    times = _known(inputs[1])
    if len(inputs[0].value or ()) * math.prod(times) > MAX_ELEMENTS:
        return None
    return np.tile(_array(inputs[0]), times)


def _broadcast(_: Any, inputs: Sequence[Tensor]) -> _Array | None:
    shape = _known(inputs[1])
    return None if math.prod(shape) > MAX_ELEMENTS else np.broadcast_to(_array(inputs[0]), shape)


def _divide(a: Any, b: Any) -> Any:
    return a / b if isinstance(a, float) else math.trunc(a / b)


def _power(a: Any, b: Any) -> Any:
    # A power of integers may have more digits than memory.
    return a**b if isinstance(a, float) or abs(a) < 2**63 > abs(b) * max(abs(a), 2) else None


_COMPARES = frozenset({"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"})
_BY_SHAPE = frozenset({"Shape", "Size", "Rank", "Pack"})
_FOLDERS: dict[str, _Folder] = {
    **{op: _elementwise(lambda a: a) for op in ("Identity", "StopGradient", "Snapshot")},
    **{op: _elementwise(operator.add) for op in ("Add", "AddV2")},
    **{op: _elementwise(operator.floordiv) for op in ("FloorDiv",)},
    **{op: _elementwise(operator.mod) for op in ("FloorMod",)},
    **{op: _elementwise(_divide) for op in ("Div", "RealDiv", "TruncateDiv")},
    "Mod": _elementwise(math.fmod),
    "TruncateMod": _elementwise(math.fmod),
    "Sub": _elementwise(operator.sub),
    "Mul": _elementwise(operator.mul),
    "Maximum": _elementwise(max),
    "Minimum": _elementwise(min),
    "Neg": _elementwise(operator.neg),
    "Abs": _elementwise(abs),
    "Square": _elementwise(lambda a: a * a),
    "Pow": _elementwise(_power),
    "Sqrt": _elementwise(math.sqrt),
    "Floor": _elementwise(lambda a: float(math.floor(a))),
    "Ceil": _elementwise(lambda a: float(math.ceil(a))),
    "Less": _elementwise(operator.lt),
    "LessEqual": _elementwise(operator.le),
    "Greater": _elementwise(operator.gt),
    "GreaterEqual": _elementwise(operator.ge),
    "Equal": _elementwise(operator.eq),
    "NotEqual": _elementwise(operator.ne),
    "LogicalAnd": _elementwise(lambda a, b: a and b),
    "LogicalOr": _elementwise(lambda a, b: a or b),
    "LogicalNot": _elementwise(operator.not_),
    "Select": _elementwise(lambda c, a, b: a if c else b),
    "SelectV2": _elementwise(lambda c, a, b: a if c else b),
    "ZerosLike": _elementwise(lambda a: a * 0),
    "OnesLike": _elementwise(lambda a: a * 0 + 1),
    "LoopCond": _elementwise(bool),
    "Cast": _cast,
    "Prod": _reduce(math.prod),
    "Sum": _reduce(sum),
    "Max": _reduce(max),
    "Min": _reduce(min),
    "All": _reduce(all),
    "Any": _reduce(any),
    "Shape": _shape,
    "Size": _size,
    "Rank": _rank,
    "StridedSlice": _strided_slice,
    "Range": _range,
    "Fill": _fill,
    "ConcatV2": _concat,
    "Pack": _pack,
    "GatherV2": _gather,
    "Gather": _gather,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "ExpandDims": lambda _, i: np.expand_dims(_array(i[0]), _known(i[1])[0]),
    "Reshape": lambda _, i: _array(i[0]).reshape(_known(i[1])),
    "Tile": _tile,
    "BroadcastTo": _broadcast,
    "Transpose": lambda _, i: _array(i[0]).transpose(_known(i[1])),
}
