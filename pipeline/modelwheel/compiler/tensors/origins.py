"""Follows the inputs of a model through its graph: which tensors hold their values, and how changed.

What the valid values of an input can be computed from backwards is followed: moves (reshape, slice,
concatenation, casts) and arithmetic with one constant. Of other arithmetic with integers only the inputs are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any, TypeAlias

from .column_moves import loosen, move
from .values import Line, Origin, Step, Tensor

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
        *("TensorListGetItem", "TensorListStack", "TopKV2", "ResizeBilinear", "ResizeBicubic"),
        *("ResizeNearestNeighbor", "ResizeArea", "ScaleAndTranslate", "AvgPool", "MaxPool"),
    }
)
"""Operations whose results hold values of their first input only, or some between, apart from padding with 0."""
_NO_VALUES = frozenset(
    {
        *("ArgMax", "ArgMin", "Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike", "OneHot"),
        *("Less", "LessEqual", "Greater", "GreaterEqual", "Where", "Bucketize", "Fill", "Range"),
        *("Const", "UnsortedSegmentSum", "Bincount", "DenseBincount"),
    }
)
"""Operations on integers whose results do not grow with these."""


_INTEGERS = frozenset(f"DT_{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))
_FLOATS = frozenset({"DT_FLOAT", "DT_DOUBLE", "DT_HALF", "DT_BFLOAT16"})


@cache
def _type_name(kind: int) -> str:
    """The name of a type of TensorFlow's: `DT_INT32`."""
    from tensorflow.core.framework import types_pb2  # reading other formats needs no TensorFlow

    return str(types_pb2.DataType.Name(kind))


def _is_integer(kind: int) -> bool:
    return _type_name(kind) in _INTEGERS


def carry(node: Any, inputs: Sequence[Tensor], outputs: int) -> tuple[Origins, ...]:
    """The origins of each output of a node, which is not a call."""
    op = node.op
    if op in ("IdentityN", "TupleOp"):
        return tuple(tensor.origins for tensor in inputs)
    if op in _MOVES or op == "Split":
        return move(op, node, inputs, outputs)
    return (_carry(op, node, inputs),) * outputs


def _carry(op: str, node: Any, inputs: Sequence[Tensor]) -> Origins:
    if op in ("Select", "SelectV2") and len(inputs) == 3:
        return select(*inputs)
    if op in _JOINS:
        joined = unite(tensor.origins for tensor in inputs[_JOINS[op]])
        return joined if op in _KEEP_COLUMNS else loosen(joined)
    if op == "Cast":
        kind = node.attr["DstT"].type
        return inputs[0].origins if _type_name(kind) in _FLOATS | _INTEGERS else ()
    if op in _CHANGES and inputs[0].origins:
        return change(inputs[0].origins, _CHANGES[op])
    if len(inputs) == 2 and op in _ARITHMETIC:
        return combine(op, inputs[0], inputs[1], integer=_is_integer(node.attr["T"].type))
    if op in COMPARES and len(inputs) == 2:
        return change(*_find_mask(inputs))
    if op == "ClipByValue":
        clipped = combine("Maximum", inputs[0], inputs[1], integer=False)
        low = type(inputs[0])(inputs[0].shape, origins=clipped)
        return combine("Minimum", low, inputs[2], integer=False)
    if op not in _NO_VALUES and "T" in node.attr and _is_integer(node.attr["T"].type):
        return lose(unite(tensor.origins for tensor in inputs))
    return ()


def lose(origins: Origins) -> Origins:
    """These inputs, of which only that is known that the values are integers computed from theirs."""
    return tuple(Origin(feed, _LOST, None, None) for feed in dict.fromkeys(o.feed for o in origins))


def select(condition: Tensor, left: Tensor, right: Tensor) -> Origins:
    """The origins of a choice; of `x < 0 ? x + size : x`, an index that may count from the end, only the second counts."""
    compared = bare(condition.compared)
    for tensor in (left, right):
        if tensor.origins and bare(tensor.origins) == compared:
            return tensor.origins
    return unite((left.origins, right.origins))


def bare(origins: Origins) -> frozenset[tuple[str, tuple[Step, ...]]]:
    """Inputs and what was done to their values."""
    return frozenset((origin.feed, origin.steps) for origin in origins)


def follow_compared(op: str, inputs: Sequence[Tensor]) -> Origins:
    """The values that a truth value was compared from, for the result of a node."""
    if op in ORDERS or op in COMPARES:
        left, right = (*inputs, Tensor(), Tensor())[:2]
        return left.origins if not right.origins else () if left.origins else right.origins
    return inputs[0].compared if op in _TRUTHS and inputs else ()


def _find_mask(inputs: Sequence[Tensor]) -> tuple[Origins, Step]:
    one, other = inputs if inputs[0].origins else reversed(inputs)
    numbers = set(other.value or ())
    mask = numbers.pop() if len(numbers) == 1 else None
    return (() if mask is None else one.origins), ("is", float(mask or 0), 0.0)


COMPARES = frozenset({"Equal", "NotEqual"})
ORDERS = frozenset({"Less", "LessEqual", "Greater", "GreaterEqual"})
_TRUTHS = frozenset(
    {*("Identity", "LogicalNot", "Reshape", "ExpandDims", "Squeeze", "BroadcastTo", "Cast"), "Tile"}
)
_LOST: tuple[Step, ...] = (("lost", 0.0, 0.0),)
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
    united = dict.fromkeys(origin for origins in every for origin in origins)
    if len(united) > _MAX_ORIGINS:
        united = dict.fromkeys(replace(origin, columns=None) for origin in united)
    return tuple(united) if len(united) <= _MAX_ORIGINS else ()


def change(origins: Origins, step: Step) -> Origins:
    """The origins after one more step."""
    changed = (origin.then(*step) for origin in origins)
    return tuple(origin for origin in changed if origin is not None)


def combine(op: str, left: Tensor, right: Tensor, *, integer: bool) -> Origins:
    """The origins of what arithmetic with a constant makes; `op` is one of TensorFlow's.

    Bounds follow from the extremes of the constant.
    """
    turned = not left.origins
    moving, constant = (right, left) if turned else (left, right)
    numbers = constant.value
    if not moving.origins or constant.origins or not numbers or None in numbers:
        return lose(unite((left.origins, right.origins))) if integer else ()
    values = [float(n) for n in numbers if n is not None]
    if not all(map(math.isfinite, values)):
        return ()
    step = _ARITHMETIC[op](min(values), max(values), turned, integer) or _LOST[0]
    last = constant.shape[-1] if constant.shape else 1
    results = []
    for origin in moving.origins:
        changed = origin.then(*step)
        if changed is not None:
            lines = _change_lines(op, origin, values, last or 0, turned=turned)
            results.append(replace(changed, lines=lines))
    return tuple(results)


def _change_lines(
    op: str, origin: Origin, values: Sequence[float], last: int, *, turned: bool
) -> tuple[Line, ...] | None:
    """`Origin.lines` after arithmetic with a constant, whose last axis has the extent `last`."""
    lines, columns = origin.lines, origin.columns
    if lines is None:
        return None
    width = columns.end - columns.first if columns is not None and columns.aligned else 0
    if len(set(values)) == 1:
        values = values[:1]
    elif not len(values) == last == width:
        values = [fmean(values)]
    count = max(len(lines), len(values))
    pairs = zip(lines * (count // len(lines)), [*values] * (count // len(values)), strict=False)
    changed = [_apply(op, line, value, turned=turned) for line, value in pairs]
    return None if None in changed else tuple(line for line in changed if line is not None)


def _apply(op: str, line: Line, value: float, *, turned: bool) -> Line | None:
    a, b = line
    if op in ("Add", "AddV2"):
        pair = a, b + value
    elif op == "Sub":
        pair = (-a, value - b) if turned else (a, b - value)
    elif op == "Mul":
        pair = a * value, b * value
    elif op in ("Div", "RealDiv") and not turned and value:
        pair = a / value, b / value
    else:
        return None
    return pair if all(map(math.isfinite, pair)) else None


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
        if kind in ("is", "lost"):
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


def reach(steps: Sequence[Step], low: float, high: float) -> Bounds:
    """Values that become all of [low, high) after steps that clip or wrap, and one more on each side of these.

    >>> reach([("at_least", 0, 0), ("at_most", 39, 0)], 0, 40)
    (-1, 41)
    """
    first: float | None = low
    last: float | None = high
    for number in range(len(steps) - 1, -1, -1):
        kind, one, _ = steps[number]
        if first is None or last is None:
            return None, None
        if kind == "at_least":
            first, last = max(first, one) - 1, max(last, one + 1)
        elif kind == "at_most":
            first, last = min(first, one), min(last, one + 1) + 1
        elif kind == "modulo":
            first, last = -one, 2 * one
        else:
            first, last = solve(steps[number : number + 1], first, last) or (None, None)
    return first, last


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
