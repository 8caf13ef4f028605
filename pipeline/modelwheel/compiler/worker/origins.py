"""Follows the inputs of a model through its graph: which tensors hold their values, and how changed.

Only what the valid values of an input can be computed from backwards is followed: moves (reshape, slice,
concatenation, casts) and arithmetic with one constant. Everything else ends the trail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tensorflow.core.framework import types_pb2

from .column_moves import loosen, move
from .values import Origin, Step, Tensor

_MAX_ORIGINS = 512

Bounds: TypeAlias = tuple[float | None, float | None]
"""[low, high) with None for no bound."""


Origins: TypeAlias = tuple[Origin, ...]

_MOVES = frozenset(
    {
        *("Identity", "StopGradient", "Snapshot", "PreventGradient", "CheckNumerics"),
        *("EnsureShape", "Reshape", "Squeeze", "ExpandDims", "Transpose", "Slice", "StridedSlice"),
        *("GatherV2", "Gather", "Tile", "BroadcastTo", "Reverse", "ReverseV2", "Roll", "Pad"),
        *("PadV2", "MirrorPad", "SplitV", "Unpack", "ReverseSequence", "GatherNd", "Max", "Min"),
        *("PlaceholderWithDefault", "Enter", "RefEnter", "Exit", "NextIteration", "Switch"),
        *("Bitcast", "DeepCopy", "OptimizationBarrier", "XlaOptimizationBarrier"),
        *("SpaceToBatchND", "BatchToSpaceND", "MatrixDiag", "TensorListFromTensor"),
        *("TensorListGetItem", "TensorListStack", "TopKV2"),
    }
)
"""Operations whose results hold values of their first input only, apart from padding with 0."""
_FLOATS = frozenset(
    {types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16}
)
_INTEGERS = frozenset(
    {
        *(types_pb2.DT_INT8, types_pb2.DT_INT16, types_pb2.DT_INT32, types_pb2.DT_INT64),
        *(types_pb2.DT_UINT8, types_pb2.DT_UINT16, types_pb2.DT_UINT32, types_pb2.DT_UINT64),
    }
)


def carry(node: Any, inputs: Sequence[Tensor], outputs: int) -> tuple[Origins, ...]:
    """The origins of each output of a node, which is not a call."""
    op = node.op
    if op in ("IdentityN", "TupleOp"):
        return tuple(tensor.origins for tensor in inputs)
    if op in _MOVES or op == "Split":
        return move(op, node, inputs, outputs)
    return (_carry(op, node, inputs),) * outputs


def _carry(op: str, node: Any, inputs: Sequence[Tensor]) -> Origins:
    if op in _JOINS:
        joined = unite(tensor.origins for tensor in inputs[_JOINS[op]])
        return joined if op in _KEEP_COLUMNS else loosen(joined)
    if op == "Cast":
        kind = node.attr["DstT"].type
        return inputs[0].origins if kind in _FLOATS or kind in _INTEGERS else ()
    if op in _CHANGES and inputs[0].origins:
        return change(inputs[0].origins, _CHANGES[op])
    if len(inputs) == 2 and op in _ARITHMETIC:
        return combine(op, inputs[0], inputs[1], integer=node.attr["T"].type in _INTEGERS)
    if op in COMPARES and len(inputs) == 2:
        return change(*_find_mask(inputs))
    if op == "ClipByValue":
        clipped = combine("Maximum", inputs[0], inputs[1], integer=False)
        low = type(inputs[0])(inputs[0].shape, origins=clipped)
        return combine("Minimum", low, inputs[2], integer=False)
    return ()


def _find_mask(inputs: Sequence[Tensor]) -> tuple[Origins, Step]:
    one, other = inputs if inputs[0].origins else reversed(inputs)
    numbers = set(other.value or ())
    mask = numbers.pop() if len(numbers) == 1 else None
    return (() if mask is None else one.origins), ("is", float(mask or 0), 0.0)


COMPARES = frozenset({"Equal", "NotEqual"})
_KEEP_COLUMNS = frozenset({"Merge", "Concat", "ConcatV2", "Select", "SelectV2"})
# The inputs of which results may hold values.
_JOINS = {
    **{op: slice(0, None) for op in ("Pack", "Merge", "ParallelConcat", "DynamicStitch")},
    "ConcatV2": slice(0, -1),
    "Concat": slice(1, None),
    "Select": slice(1, 3),
    "SelectV2": slice(1, 3),
    "TensorListSetItem": slice(0, 3, 2),
    # The flow of a TensorArray stands for its elements: written, then read.
    "TensorArrayScatterV3": slice(2, 4),
    "TensorArrayWriteV3": slice(2, 4),
    "TensorArraySplitV3": slice(1, 4, 2),
    "TensorArrayReadV3": slice(2, 3),
    "TensorArrayGatherV3": slice(2, 3),
    "TensorArrayConcatV3": slice(1, 2),
}
_CHANGES: dict[str, Step] = {
    "Round": ("round", 0, 0),
    "Rint": ("round", 0, 0),
    "Floor": ("floor", 0, 0),
    "Ceil": ("ceil", 0, 0),
    "Abs": ("abs", 0, 0),
    "Neg": ("scale", -1, 0),
    "Relu": ("at_least", 0, 0),
}


def unite(every: Any) -> Origins:
    """All origins, each once, in a fixed order."""
    found = dict.fromkeys(origin for origins in every for origin in origins)
    if len(found) > _MAX_ORIGINS:
        found = dict.fromkeys(replace(origin, columns=None) for origin in found)
    return tuple(found) if len(found) <= _MAX_ORIGINS else ()


def change(origins: Origins, step: Step) -> Origins:
    """The origins after one more step."""
    changed = (origin.then(*step) for origin in origins)
    return tuple(origin for origin in changed if origin is not None)


def combine(op: str, one: Tensor, other: Tensor, *, integer: bool) -> Origins:
    """The origins of what arithmetic with a constant, whose extremes count, makes; `op` is one of TensorFlow's."""
    turned = not one.origins
    moving, constant = (other, one) if turned else (one, other)
    numbers = constant.value
    if not moving.origins or constant.origins or not numbers or None in numbers:
        return ()
    values = [float(n) for n in numbers if n is not None]
    step = _ARITHMETIC[op](min(values), max(values), turned, integer)
    return () if step is None else change(moving.origins, step)


def _subtract(low: float, high: float, turned: bool, integer: bool) -> Step | None:
    if not turned:
        return ("shift", -high, -low)
    return ("flip", low, float(integer)) if low == high else None


def _scale(low: float, high: float, _: bool, integer: bool) -> Step | None:
    return ("scale", low, float(integer)) if low == high and low else None


def _divide(low: float, high: float, turned: bool, _: bool) -> Step | None:
    return ("scale", 1 / low, 0.0) if low == high and low > 0 and not turned else None


def _modulo(low: float, high: float, turned: bool, _: bool) -> Step | None:
    return ("modulo", low, 0.0) if low == high and low > 0 and not turned else None


_ARITHMETIC: dict[str, Callable[[float, float, bool, bool], Step | None]] = {
    "Add": lambda low, high, *_: ("shift", low, high),
    "AddV2": lambda low, high, *_: ("shift", low, high),
    "BiasAdd": lambda low, high, *_: ("shift", low, high),
    "Sub": _subtract,
    "Mul": _scale,
    "RealDiv": _divide,
    "Div": _divide,
    "FloorDiv": _divide,
    "FloorMod": _modulo,
    "Maximum": lambda _, high, *__: ("at_least", high, 0.0),
    "Minimum": lambda low, *_: ("at_most", low, 0.0),
}


def solve(steps: Sequence[Step], low: float | None, high: float | None) -> Bounds | None:
    """The bounds of an input whose values must be in [low, high) after the steps.

    None if there are no such bounds, or they are not known.

    >>> solve([("shift", 1, 1)], 0, 10)
    (-1, 9)
    """
    for kind, one, other in reversed(steps):
        if kind == "is":
            return None
        if kind == "modulo":
            if (low or 0) <= 0 and (high is None or one <= high):
                return None, None
            return None
        if kind in ("scale", "flip"):
            low, high = _unscale(kind, one, bool(other), low, high)
        elif kind == "shift":
            low, high = _plus(low, -one), _plus(high, -other)
        elif kind == "at_least":
            low = None if low is None or one >= low else low
        elif kind == "at_most":
            high = None if high is None or one < high else high
        elif kind == "abs":
            low = None if high is None else 1 - high
        elif kind == "round":
            low, high = _plus(low, -0.5), _plus(high, -0.5)
        elif kind == "ceil":
            low, high = _plus(low, -0.5), _plus(high, -1)
    return None if low is not None and high is not None and low >= high else (low, high)


def _unscale(
    kind: str, number: float, integer: bool, low: float | None, high: float | None
) -> Bounds:
    if kind == "scale" and number > 0:
        return _plus(low, 0, number), _plus(high, 0, number)
    # What was the upper bound, which is not reached, becomes the lower one, which is.
    last, step = _plus(high, -1), 1.0 if integer else 0.0
    if kind == "scale":
        return _plus(last, 0, number), _plus(_plus(low, 0, number), step)
    return (
        None if last is None else number - last,
        None if low is None else number - low + step,
    )


def _plus(bound: float | None, number: float, divisor: float = 1) -> float | None:
    return None if bound is None else (bound + number) / divisor


def undo(steps: Sequence[Step], value: float) -> float | None:
    """The value of an input that becomes `value`; None if there is no single one."""
    for kind, one, other in reversed(steps):
        if kind == "shift" and one == other:
            value -= one
        elif kind == "scale":
            value /= one
        elif kind == "flip":
            value = one - value
        elif kind not in ("at_least", "at_most", "round", "floor", "ceil"):
            return None
    return value
