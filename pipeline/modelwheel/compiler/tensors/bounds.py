"""Bounds of integers whose values are not known: counters of loops, and what is computed from them.

Intervals as in any abstract interpreter: a result is right for every combination of elements within the
bounds of the inputs. Truth values are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias

from tensorflow.core.framework import types_pb2

from .origins import unite
from .values import UNKNOWN, Bounds, Tensor

_EITHER = (0, 1)
_Bounded: TypeAlias = Callable[..., "Bounds | None"]


def bounds_of(tensor: Tensor) -> Bounds | None:
    """The least and the largest element; None if they are not known."""
    if tensor.bounds is not None or not tensor.value:
        return tensor.bounds
    numbers = [int(number) for number in tensor.value if isinstance(number, int)]
    return (min(numbers), max(numbers)) if len(numbers) == len(tensor.value) else None


def follow_bounds(node: Any, inputs: Sequence[Tensor]) -> Bounds | None:
    """The bounds of a node's results, from those of its inputs."""
    op = node.op
    if op in _PASSED:
        return hull(map(bounds_of, inputs[_PASSED[op]]))
    if op in _TRUTHS:
        return _TRUTHS[op](*map(bounds_of, inputs))
    every = [bounds_of(tensor) for tensor in inputs]
    if op in _CLAMPS and node.attr["T"].type in _INTEGERS:
        every = [bounds or _RANGES[node.attr["T"].type] for bounds in every]
    if not every or None in every:
        return None
    if op == "Cast":
        return _within(node.attr["DstT"].type, every[0])
    return _within(node.attr["T"].type, _ARITHMETIC[op](*every)) if op in _ARITHMETIC else None


def _within(kind: int, bounds: Bounds | None) -> Bounds | None:
    """None for what the type does not hold; what it becomes then is not followed."""
    low, high = _RANGES.get(kind, (0, -1))
    return bounds if bounds is not None and low <= bounds[0] <= bounds[1] <= high else None


def hull(every: Any) -> Bounds | None:
    """The bounds that contain all of some others."""
    known = list(every)
    if not known or None in known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


_RANGES = {
    types_pb2.DT_INT64: (-(1 << 63), (1 << 63) - 1),
    types_pb2.DT_INT8: (-128, 127),
    types_pb2.DT_INT32: (-(1 << 31), (1 << 31) - 1),
    types_pb2.DT_UINT8: (0, 255),
    types_pb2.DT_INT16: (-(1 << 15), (1 << 15) - 1),
    types_pb2.DT_BOOL: (0, 1),
    types_pb2.DT_FLOAT: (-(1 << 24), 1 << 24),
    types_pb2.DT_DOUBLE: (-(1 << 53), 1 << 53),
}
"""What types hold, floats without rounding."""
_CLAMPS = frozenset({"Maximum", "Minimum"})
"""They limit integers of which nothing is known."""
_INTEGERS = _RANGES.keys() - {types_pb2.DT_BOOL, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE}
# The inputs whose elements the results have.
_PASSED = {
    **{
        op: slice(0, 1)
        for op in (
            *("Identity", "StopGradient", "Snapshot", "Reshape", "Squeeze", "ExpandDims"),
            *("StridedSlice", "Slice", "Tile", "BroadcastTo", "Transpose", "ReverseV2", "Unpack"),
            *("GatherV2", "Gather", "Switch", "Enter", "NextIteration", "LoopCond"),
        )
    },
    **{op: slice(0, None) for op in ("Pack", "Merge")},
    "ConcatV2": slice(0, -1),
    "Fill": slice(1, 2),
    "Select": slice(1, 3),
    "SelectV2": slice(1, 3),
    "Split": slice(1, 2),
}


def _multiply(left: Bounds, right: Bounds) -> Bounds:
    products = [a * b for a, b in product(left, right)]
    return min(products), max(products)


def _divide(left: Bounds, right: Bounds) -> Bounds | None:
    """Rounded down."""
    if right[0] <= 0:
        return None
    quotients = [a // b for a, b in product(left, right)]
    return min(quotients), max(quotients)


def _modulo(left: Bounds, right: Bounds) -> Bounds | None:
    if right[0] <= 0:
        return None
    # Numbers that are not wrapped stay as they are.
    return left if left[0] >= 0 and left[1] < right[0] else (0, right[1] - 1)


def _absolute(bounds: Bounds) -> Bounds:
    low, high = sorted(map(abs, bounds))
    return (0 if bounds[0] < 0 < bounds[1] else low), high


def _less(left: Bounds | None, right: Bounds | None) -> Bounds:
    if left is None or right is None:
        return _EITHER
    return int(left[1] < right[0]), int(left[0] < right[1])


def _less_equal(left: Bounds | None, right: Bounds | None) -> Bounds:
    return _not(_less(right, left))


def _equal(left: Bounds | None, right: Bounds | None) -> Bounds:
    if left is None or right is None:
        return _EITHER
    return int(left[0] == left[1] == right[0] == right[1]), int(
        left[0] <= right[1] and right[0] <= left[1]
    )


def _not(bounds: Bounds | None) -> Bounds:
    low, high = bounds or _EITHER
    return 1 - high, 1 - low


def _and(left: Bounds | None, right: Bounds | None) -> Bounds:
    (low, high), (lower, higher) = left or _EITHER, right or _EITHER
    return min(low, lower), min(high, higher)


def _or(left: Bounds | None, right: Bounds | None) -> Bounds:
    (low, high), (lower, higher) = left or _EITHER, right or _EITHER
    return max(low, lower), max(high, higher)


_TRUTHS: dict[str, _Bounded] = {
    "Less": _less,
    "LessEqual": _less_equal,
    "Greater": lambda left, right: _less(right, left),
    "GreaterEqual": lambda left, right: _less_equal(right, left),
    "Equal": _equal,
    "NotEqual": lambda left, right: _not(_equal(left, right)),
    "LogicalAnd": _and,
    "LogicalOr": _or,
    "LogicalNot": _not,
}
_ARITHMETIC: dict[str, _Bounded] = {
    **{op: lambda a, b: (a[0] + b[0], a[1] + b[1]) for op in ("Add", "AddV2")},
    "Sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "Mul": _multiply,
    "Neg": lambda a: (-a[1], -a[0]),
    "Abs": _absolute,
    "Square": lambda a: _multiply(_absolute(a), _absolute(a)),
    "Maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "Minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "FloorDiv": _divide,
    "FloorMod": _modulo,
    "ZerosLike": lambda _: (0, 0),
    "OnesLike": lambda _: (1, 1),
}


def join(left: Tensor, right: Tensor) -> Tensor:
    """The known facts about a tensor that may be either."""
    if left == right:
        return left
    shape = None
    if left.shape is not None and right.shape is not None and len(left.shape) == len(right.shape):
        pairs = zip(left.shape, right.shape, strict=True)
        shape = tuple(a if a == b else None for a, b in pairs)
    value = left.value if left.shape == shape and left.value == right.value else None
    return Tensor(
        shape,
        value,
        left.dynamic or right.dynamic,
        left.handle if left.handle == right.handle else None,
        unite((left.origins, right.origins)),
        left.data or right.data,
        hull(map(bounds_of, (left, right))) if value is None else None,
    )


def join_all(ones: Sequence[Tensor], others: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Joins the results of two functions, one by one."""
    padded = [*others, *[UNKNOWN] * (len(ones) - len(others))]
    return tuple(join(left, right) for left, right in zip(ones, padded, strict=False))


def forget(tensor: Tensor) -> Tensor:
    """A tensor of the same shape, but any elements."""
    return replace(tensor, value=None, bounds=None)
