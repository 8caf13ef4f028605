"""Explains why a model cannot be evaluated on given inputs: which value, in which layer, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...model.inspection import SignatureInfo, TensorInfo
from ...model.messages import cause_of, node_of
from ...util.text import one_line
from ..graphs.graphs import layer_name

Arrays = Mapping[str, np.ndarray[Any, Any]]

_OUTSIDE = re.compile(
    r"\w+(?P<place>\[[\d, ]*\]|\(\d+\)) = \[?(?P<value>-?\d+)\]? (is not in|is out of range) "
    r"\[(?P<low>-?\d+), (?P<high>-?\d+)\)"
)
_OF_SHAPES = re.compile(
    r"requested shape|[Ii]ncompatible shapes|Matrix size|[Dd]imensions? |No OpKernel"
)
_SHAPE_FIX = "correct the model, or set compilation.batch_sizes or inputs in the spec to shapes that it takes"


def explain_failure(
    text: str,
    inputs: Arrays,
    signature: SignatureInfo | None,
    *,
    sampled: bool,
    by: str = "TensorFlow",
) -> str:
    """One sentence about an error of TensorFlow or another evaluator.

    Args:
        text: Its message, with TensorFlow's markup of nodes.
        inputs: What was evaluated.
        signature: With the valid values of inputs, as far as they follow from the graph.
        sampled: Whether the inputs are rows of `verify.samples`.
        by: The evaluator.
    """
    node = node_of(text)
    place = f" in layer {layer_name(node)!r}" if node else ""
    cause = one_line(cause_of(text))
    tensors = signature.inputs if signature is not None else ()
    for tensor in tensors:
        outlier = _find_outside(tensor, inputs)
        if outlier is not None:
            return (
                f"{by} fails{place}: the value {outlier.value} at {outlier.at} of input {tensor.name!r} is "
                f"not one of the valid ones, {tensor.valid}; "
                f"{_fix(outlier.field, outlier.bounds, sampled=sampled)}"
            )
    outside = _OUTSIDE.search(cause)
    if outside is not None:
        bounds = float(outside["low"]), float(outside["high"])
        for tensor in tensors:
            if _holds(inputs.get(tensor.name), int(outside["value"])):
                fix = _fix(tensor.name, bounds, sampled=sampled)
                return f"{by} fails{place} on a value of input {tensor.name!r}: {cause}; {fix}"
    shown = ", ".join(_describe(tensor, inputs) for tensor in tensors)
    arguments = f" (it was given {shown})" if shown else ""
    fix = _SHAPE_FIX if _OF_SHAPES.search(cause) else _fix("INPUT", None, sampled=sampled)
    return f"{by} fails{place}: {cause}{arguments}; {fix}"


class _Outside(NamedTuple):
    """A value that its model cannot use."""

    value: str
    at: list[int]
    field: str
    """What the spec calls it."""
    bounds: tuple[float, float]


def _find_outside(tensor: TensorInfo, inputs: Arrays) -> _Outside | None:
    values, valid = inputs.get(tensor.name), tensor.valid
    if values is None or valid is None:
        return None
    checked = np.zeros(values.shape, bool)
    for part in reversed([column for column in valid.columns if not column.soft]):
        field = f"{tensor.name}[{part.place}]"
        inside = np.zeros(values.shape, bool)
        inside[..., part.first : part.end] = True
        outlier = _first_outside(values, inside, (part.low, part.high), field)
        if outlier is not None:
            return outlier
        checked |= inside
    if valid.bounds is None or valid.soft:
        return None
    return _first_outside(values, ~checked, valid.bounds, tensor.name)


def _first_outside(
    values: np.ndarray[Any, Any],
    where: np.ndarray[Any, Any],
    bounds: tuple[float, float],
    field: str,
) -> _Outside | None:
    outside = np.argwhere(((values < bounds[0]) | (values >= bounds[1])) & where)
    if not len(outside):
        return None
    index = [int(i) for i in outside[0]]
    return _Outside(f"{values[tuple(index)]}", index, field, bounds)


def _holds(values: np.ndarray[Any, Any] | None, number: int) -> bool:
    return (
        values is not None
        and values.dtype.kind in "iuf"
        and bool((np.trunc(values) == number).any())
    )


def _fix(name: str, bounds: tuple[float, float] | None, *, sampled: bool) -> str:
    if sampled:
        return "correct the rows of verify.samples"
    shown = "[LOW, HIGH]" if bounds is None else f"[{bounds[0]:.15g}, {bounds[1]:.15g}]"
    advice = f"set verify.ranges.{one_line(name)}: {shown} in the spec"
    return f"{advice}, or verify.samples to a file of real rows" if bounds is None else advice


def _describe(tensor: TensorInfo, inputs: Arrays) -> str:
    return " ".join(_words(tensor.name, inputs.get(tensor.name)))


def _words(name: str, values: np.ndarray[Any, Any] | None) -> Iterator[str]:
    yield repr(name)
    if values is not None and values.size and values.dtype.kind in "iuf":
        yield f"from {values.min():.6g} to {values.max():.6g}"
