"""Modules of StableHLO that compute integers with a scale from others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from ....errors import UnsupportedModelError
from ....util.text import one_line
from ...stablehlo.writer import Builder
from ...stablehlo.writer import Value as Written
from ...stablehlo.writer import pointwise as e
from ...stablehlo.writer.integer_products import Whole, kept
from ...stablehlo.xla_module import call_module
from .lite_node import LIMITS, Limits, LiteNode, Value, registered
from .tflite_file import LiteTensor, Scaling

BYTES = frozenset({"int8", "uint8"})


class IntegerModule:
    """A module that computes results of operators which follow each other: XLA compiles few long ones sooner than many short ones."""

    def __init__(self) -> None:
        self._builder = Builder()
        self._tensors: dict[str, Value] = {}
        self._arguments: dict[int, Written] = {}

    def at(self, layer: str) -> AbstractContextManager[None]:
        """Operations that are written meanwhile belong to this layer."""
        return self._builder.at(layer)

    def value(self, x: Value) -> Written:
        """An array, a tensor of known shape, or what is written here already."""
        if isinstance(x, Written):
            return x
        if isinstance(x, np.ndarray):
            return self._builder.constant(x)
        if id(x) not in self._arguments:
            name = str(len(self._tensors))
            self._tensors[name] = x  # kept, so that its id stays its own
            dtype = np.dtype(x.dtype.as_numpy_dtype)
            argument = self._builder.argument(name, dtype, tf.TensorShape(x.shape).as_list())
            self._arguments[id(x)] = argument
        return self._arguments[id(x)]

    def constant(self, values: Any, dtype: Any = np.float32) -> Written:
        """An array of a type."""
        return self._builder.constant(values, dtype)

    def whole(self, node: LiteNode, number: int, x: Written | None = None) -> Whole:
        """An operand, without its zero point, which broadcasts to the axis of the channels that it has."""
        scaling = scaling_of(node.operands[number])
        x = self.value(node[number]) if x is None else x
        return Whole(x, self._builder.constant(along(scaling, scaling.zeros, x), x.dtype))

    def results(self, values: Sequence[Written]) -> list[Value]:
        """Values as tensors in the graph of TensorFlow; nothing can be written any more."""
        module = self._builder.module({str(number): value for number, value in enumerate(values)})
        arguments = [
            self._tensors[a] if isinstance(a, str) else tf.constant(a) for a in module.arguments
        ]
        return call_module(module.text, arguments, module.results)


Write: TypeAlias = Callable[[IntegerModule, LiteNode], "Written | list[Written] | None"]
"""The results of an operator; None if it is not computed in a module."""

WRITTEN: dict[str, Write] = {}
"""By their names in the schema; `lite_integers` looks at the types before."""


def written(*names: str) -> Callable[[Write], Write]:
    """Registers what writes some operators."""
    return registered(WRITTEN, names)


def is_scaled(tensor: LiteTensor | None) -> bool:
    """Whether elements of 8 bits stand for real numbers."""
    return tensor is not None and tensor.scaling is not None and tensor.dtype in BYTES


def is_alike(tensor: LiteTensor | None, other: LiteTensor | None) -> bool:
    """Whether integers of two tensors stand for the same real numbers."""
    one, two = scaling_of(tensor), scaling_of(other)
    assert tensor is not None
    assert other is not None
    return (
        tensor.dtype == other.dtype
        and np.array_equal(one.scales, two.scales)
        and np.array_equal(one.zeros, two.zeros)
    )


def scaling_of(tensor: LiteTensor | None) -> Scaling:
    """The scale and zero point of a tensor that has them."""
    assert tensor is not None
    assert tensor.scaling is not None
    return tensor.scaling


def along(scaling: Scaling, values: Any, x: Any) -> Any:
    """Scales or zero points as they broadcast to a tensor: one, or one for each position of an axis."""
    if values.size == 1:
        return values.reshape(())
    rank = len(x.shape)
    return values.reshape([-1 if axis == scaling.axis else 1 for axis in range(rank)])


def requantized(numbers: Written, result: LiteTensor, limits: Limits = (None, None)) -> Written:
    """Quotients by the scale of the result as its integers.

    Args:
        numbers: Of float32; they are rounded.
        result: The tensor.
        limits: Of the real numbers.
    """
    zero, dtype = int(scaling_of(result).zeros[0]), np.dtype(result.dtype)
    low, high = ends(result, limits)
    moved = e.round_even(numbers) + float(zero)
    return kept(e.convert(e.clamp(float(low), moved, float(high)), dtype))


def ends(result: LiteTensor, limits: Limits) -> tuple[int, int]:
    """The least and the largest integer for real numbers within limits."""
    scaling, kind = scaling_of(result), np.iinfo(result.dtype)
    if scaling.scales.size > 1:
        raise UnsupportedModelError(
            f"the file is damaged: {one_line(repr(result.name))} has a scale for each channel, which only weights have; convert "
            "the model again",
            code="MW416",
        )
    zero, scale = int(scaling.zeros[0]), scaling.scales[0]
    low, high = (None if limit is None else zero + round(float(limit / scale)) for limit in limits)
    return max(kind.min, kind.min if low is None else low), min(
        kind.max, kind.max if high is None else high
    )


def limits_of(node: LiteNode) -> Limits:
    """Of the real numbers, by the activation that the operator has inside."""
    number = int(getattr(node.options, "fusedActivationFunction", 0) or 0)
    if number not in LIMITS:
        raise node.refuse(f"has the activation number {number}, which integers do not have")
    return LIMITS[number]


def rescaled(
    module: IntegerModule,
    x: Written,
    source: LiteTensor,
    result: LiteTensor,
    limits: Limits = (None, None),
) -> Written:
    """The real numbers of a tensor as integers with the scale of another one."""
    before = scaling_of(source)
    zeros = module.constant(along(before, before.zeros, x), x.dtype)
    factors = along(before, before.scales / scaling_of(result).scales, x)
    return requantized(Whole(x, zeros).as_floats() * module.constant(factors), result, limits)
