"""Operators that move 8-bit integers with a scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...stablehlo.writer import Value as Written
from ...stablehlo.writer import reshaping as s
from .lite_modules import IntegerModule, Write, is_alike, rescaled, written
from .lite_node import LiteNode

_STRIDED = ("ellipsisMask", "newAxisMask", "offset")
"""What slices with strides may have that these have not."""


def _data(module: IntegerModule, node: LiteNode, number: int) -> Written:
    """An operand with the scale of the result."""
    x, source, result = module.value(node[number]), node.operands[number], node.results[0]
    assert source is not None
    return x if is_alike(source, result) else rescaled(module, x, source, result)


def _integers(node: LiteNode, number: int) -> list[int] | None:
    """An operand that is known."""
    value = node.inputs[number] if node.has(number) else None
    return [int(n) for n in value.reshape(-1)] if isinstance(value, np.ndarray) else None


def _move(*names: str) -> Callable[[Write], Write]:
    """Registers a function of operators whose results all have one scale."""

    def register(write: Write) -> Write:
        def checked(module: IntegerModule, node: LiteNode) -> Written | list[Written] | None:
            alike = all(is_alike(result, node.results[0]) for result in node.results)
            return write(module, node) if alike else None

        return written(*names)(checked)

    return register


@_move("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def _reshape(module: IntegerModule, node: LiteNode) -> Written | None:
    x = _data(module, node, 0)
    if node.operator.op == "RESHAPE":
        shape = _integers(node, 1) if node.has(1) else [int(n) for n in node.options.newShape]
    elif node.operator.op == "SQUEEZE":
        axes = [] if node.options.squeezeDims is None else list(node.options.squeezeDims)
        gone = [axis % x.rank for axis in axes] or [i for i, n in enumerate(x.shape) if n == 1]
        shape = [n for axis, n in enumerate(x.shape) if axis not in gone]
    else:
        places = _integers(node, 1)
        shape = None if places is None else list(x.shape)
        if places is not None and shape is not None:
            shape.insert(places[0] % (x.rank + 1), 1)
    if shape is None:
        return None
    if -1 in shape:
        rest = int(np.prod([n for n in shape if n != -1]))
        shape[shape.index(-1)] = x.size // max(rest, 1)
    return s.reshape(x, shape)


@_move("TRANSPOSE")
def _transpose(module: IntegerModule, node: LiteNode) -> Written | None:
    order = _integers(node, 1)
    return None if order is None else s.transpose(_data(module, node, 0), order)


@_move("CONCATENATION")
def _concatenation(module: IntegerModule, node: LiteNode) -> Written | None:
    if node.options.fusedActivationFunction:
        return None
    values = [_data(module, node, number) for number in range(len(node.inputs))]
    return s.concatenate(values, node.options.axis % values[0].rank)


@_move("PAD")
def _pad(module: IntegerModule, node: LiteNode) -> Written | None:
    pads = _integers(node, 1)
    if pads is None:
        return None
    x = _data(module, node, 0)
    return s.pad(x, module.constant(node.zero, x.dtype), pads[::2], pads[1::2])


@_move("SPLIT", "SPLIT_V")
def _split(module: IntegerModule, node: LiteNode) -> list[Written] | None:
    even = node.operator.op == "SPLIT"
    axes, sizes = (_integers(node, 0), None) if even else (_integers(node, 2), _integers(node, 1))
    if axes is None:
        return None
    x, count = _data(module, node, int(even)), len(node.results)
    axis = axes[0] % x.rank
    if even:
        sizes = [x.shape[axis] // count] * count
    if sizes is None:
        return None
    rest = x.shape[axis] - sum(size for size in sizes if size >= 0)
    return s.split(x, axis, [rest if size < 0 else size for size in sizes])


@_move("SLICE")
def _slice(module: IntegerModule, node: LiteNode) -> Written | None:
    begins, sizes = _integers(node, 1), _integers(node, 2)
    if begins is None or sizes is None:
        return None
    x = _data(module, node, 0)
    for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True)):
        x = s.slice_axis(x, axis, begin, x.shape[axis] if size < 0 else begin + size)
    return x


@_move("STRIDED_SLICE")
def _strided_slice(module: IntegerModule, node: LiteNode) -> Written | None:
    options, bounds = node.options, [_integers(node, number) for number in (1, 2, 3)]
    begins, ends, strides = bounds
    if begins is None or ends is None or strides is None or min(strides) < 1:
        return None
    if any(getattr(options, name) for name in _STRIDED):
        return None
    x, gone = _data(module, node, 0), []
    for axis, bound in enumerate(zip(begins, ends, strides, strict=True)):
        bit = 1 << axis
        first = None if options.beginMask & bit else bound[0]
        end = None if options.endMask & bit else bound[1]
        if options.shrinkAxisMask & bit:
            gone.append(axis)
            first, end = bound[0], bound[0] + 1 or None
        start, stop, stride = slice(first, end, bound[2]).indices(x.shape[axis])
        x = s.slice_axis(x, axis, start, max(stop, start), stride)
    return s.squeeze(x, gone) if gone else x
