"""Reductions over axes, order along an axis, running totals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....stablehlo.writer import Value
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import reducing as r
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import BOOL, INT64, is_float
from .onnx_node import Node, Result, operator

_Reduction = Callable[[Value, list[int]], Value]


def _extreme(kind: r.Kind) -> _Reduction:
    def apply(x: Value, axes: list[int]) -> Value:
        if x.dtype == BOOL:
            kind_: r.Kind = "or" if kind == "maximum" else "and"
            return r.reduce(x, axes, kind_, keep=True)
        return r.reduce(x, axes, kind, keep=True)

    return apply


def _sum(x: Value, axes: list[int]) -> Value:
    return r.reduce(x, axes, "add", keep=True)


def _mean(x: Value, axes: list[int]) -> Value:
    count = int(np.prod([x.shape[axis] for axis in axes])) if axes else 1
    return _sum(x, axes) / count


def _log_sum_exp(x: Value, axes: list[int]) -> Value:
    if not is_float(x.dtype):
        return e.log(_sum(e.exp(x), axes))
    largest = r.reduce(x, axes, "maximum", keep=True)
    # Infinite maxima would make NaN of infinity minus infinity.
    finite = e.select(e.is_finite(largest), largest, 0)
    return e.log(_sum(e.exp(x - finite), axes)) + finite


_REDUCTIONS: dict[str, _Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": lambda x, axes: r.reduce(x, axes, "multiply", keep=True),
    "ReduceMax": _extreme("maximum"),
    "ReduceMin": _extreme("minimum"),
    "ReduceSumSquare": lambda x, axes: _sum(x * x, axes),
    "ReduceL1": lambda x, axes: _sum(e.abs_(x) if x.dtype.kind != "u" else x, axes),
    "ReduceL2": lambda x, axes: _root(_sum(x * x, axes)),
    "ReduceLogSum": lambda x, axes: e.log(_sum(x, axes)),
    "ReduceLogSumExp": _log_sum_exp,
}


def _root(x: Value) -> Value:
    if is_float(x.dtype):
        return e.sqrt(x)
    return e.convert(e.sqrt(e.convert(x, np.float64)), x.dtype)


@operator(*_REDUCTIONS)
def reduce(node: Node) -> Result:
    """One value along axes, by default along all."""
    x = node.input(0)
    axes = node.integers(1, "axes")
    if not axes:
        if node.get("noop_with_empty_axes", 0):
            return _REDUCTIONS[node.op](x, [])
        axes = list(range(x.rank))
    axes = sorted({axis % x.rank for axis in axes}) if x.rank else []
    result = _REDUCTIONS[node.op](x, axes)
    return result if node.get("keepdims", 1) else s.squeeze(result, axes) if axes else result


@operator("ArgMax", "ArgMin")
def arg(node: Node) -> Result:
    """The position of the largest or smallest element along an axis."""
    x = node.input(0)
    axis = node.get("axis", 0) % max(x.rank, 1)
    if not x.rank:
        return node.builder.constant(np.int64(0))
    last = bool(node.get("select_last_index", 0))
    _, place = r.arg_reduce(x, axis, largest=node.op == "ArgMax", last=last)
    place = e.convert(place, INT64)
    return s.expand_dims(place, axis) if node.get("keepdims", 1) else place


@operator("TopK")
def top_k(node: Node) -> Result:
    """The largest or smallest elements along an axis, in order, and their positions."""
    x = node.input(0)
    counts = node.integers(1, "k", "how many elements it returns")
    assert counts is not None
    values, places = r.top_k(
        x, counts[0], node.get("axis", -1), largest=bool(node.get("largest", 1))
    )
    return [values, e.convert(places, INT64)]


@operator("CumSum", "CumProd")
def cumulative(node: Node) -> Result:
    """Running totals along an axis, with or without the element itself, from either end."""
    x = node.input(0)
    axis = int(node.required(1, "its axis").reshape(())) % x.rank
    kind: r.Kind = "add" if node.op == "CumSum" else "multiply"
    backwards = bool(node.get("reverse", 0))
    x = s.reverse(x, [axis]) if backwards else x
    if node.get("exclusive", 0):
        low, high = [0] * x.rank, [0] * x.rank
        low[axis], high[axis] = 1, -1
        x = s.pad(x, r.neutral(kind, x.dtype), low, high)
    result = r.cumulative(x, axis, kind)
    return s.reverse(result, [axis]) if backwards else result


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: Node) -> Result:
    """Along an axis; before opset 13 over all axes from one on."""
    x = node.input(0)
    if node.opset >= 13:
        return _softmax(node, x, node.get("axis", -1) % x.rank)
    axis = node.get("axis", 1) % max(x.rank, 1)
    rows = int(np.prod(x.shape[:axis]))
    return s.reshape(_softmax(node, s.reshape(x, [rows, x.size // max(rows, 1)]), 1), x.shape)


def _softmax(node: Node, x: Value, axis: int) -> Value:
    if node.op == "Hardmax":
        _, place = r.arg_reduce(x, axis, largest=True)
        return e.convert(r.one_hot(place, x.shape[axis], axis), x.dtype)
    return r.log_softmax(x, axis) if node.op == "LogSoftmax" else r.softmax(x, axis)
