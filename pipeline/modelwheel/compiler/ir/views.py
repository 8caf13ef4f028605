"""Where in memory the elements of an array are that others only move: transposed, reshaped, cut out, copied.

Such moves keep how far apart neighbours along each axis are, so that a kernel with strides can read or write the elements
where they were before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .hlo import HloModule

_MOVES = frozenset({"bitcast", "copy", "reshape", "slice", "transpose"})


@dataclass(frozen=True)
class Source:
    """The value that moves begin with."""

    node: Any
    fusion: Any | None
    """The fusion whose computation has it; None outside of all."""
    moves: tuple[Any, ...]
    """The instructions that move it, the last one first, with those that read it."""
    kernel: Any | None
    """The instruction outside of fusions whose kernel moves it."""
    factor: float = 1.0
    """What the kernel multiplies all elements by."""


def source_of(hlo: HloModule, instruction: Any, *, scaled: bool = False) -> Source:
    """The value that an instruction outside of fusions moves, looking through at most one kernel.

    Args:
        hlo: The module.
        instruction: The instruction.
        scaled: Whether the kernel may also multiply it by a number.
    """
    node, fusion = instruction, None
    moves: list[Any] = []
    kernel, factor = None, 1.0
    while True:
        if node.opcode == "bitcast":
            moves.append(node)
            (node,) = hlo.operands(node)
        elif fusion is not None and node.opcode == "parameter":
            node, fusion = hlo.operands(fusion)[node.parameter_number], None
        elif fusion is None and node.opcode in _MOVES | {"fusion"}:
            root = hlo.called_root(node) if node.opcode == "fusion" else node
            moved = root.opcode in _MOVES or (scaled and _multiplied(hlo, root) is not None)
            if kernel is not None or not moved:
                break
            kernel = node
            if node.opcode == "fusion":
                node, fusion = root, node
            else:
                moves.append(node)
                (node,) = hlo.operands(node)
        elif node.opcode in _MOVES:
            moves.append(node)
            (node,) = hlo.operands(node)
        elif scaled and fusion is not None and (found := _multiplied(hlo, node)) is not None:
            node, factor = found[0], factor * found[1]
        else:
            break
    return Source(node, fusion, tuple(moves), kernel, factor)


def _multiplied(hlo: HloModule, node: Any) -> tuple[Any, float] | None:
    """What an instruction multiplies by a number, without moving it, and the number."""
    if node.opcode != "multiply":
        return None
    one, other = hlo.operands(node)
    for value, constant in ((one, other), (other, one)):
        factor = hlo.number(constant)
        same = value.shape.layout.minor_to_major == node.shape.layout.minor_to_major
        if factor is not None and math.isfinite(factor) and factor != 0 and same:
            return value, factor
    return None


@dataclass(frozen=True)
class Strides:
    """How far apart neighbours along each axis are, in elements, and how far from the start the first is."""

    start: int
    steps: tuple[int, ...]


def strides_of(hlo: HloModule, source: Source) -> Strides | None:
    """The elements of what is moved, in the memory of what it was before; None if they are not evenly spaced."""
    return _applied(source.node.shape, [(_before(hlo, move), move) for move in source.moves][::-1])


def strides_in_result(hlo: HloModule, source: Source) -> Strides | None:
    """The elements of what is moved, in the memory where the last move has put them."""
    moves = [(move, _before(hlo, move)) for move in source.moves]
    if not moves or any(move.opcode == "slice" for move in source.moves):
        return None
    return _applied(source.moves[0].shape, moves)


def strides_through(
    hlo: HloModule, shape: Any, moves: Sequence[Any], result: Sequence[int], axis: int | None = None
) -> Strides | None:
    """The elements of what instructions move and repeat; those that are the same along an axis have the distance 0 there.

    Args:
        hlo: The module.
        shape: What is in memory.
        moves: The instructions, the last one first.
        result: The extents of what they make of it.
        axis: If it is given, the only one that is in memory: all others repeat it.
    """
    kept = range(len(shape.dimensions)) if axis is None else (axis,)
    memory = np.empty(math.prod(shape.dimensions[one] for one in kept), np.uint8)
    if not memory.size:
        return None
    array = _from_memory(memory, shape) if axis is None else _along(memory, (axis,), shape)
    for move in reversed(moves):
        array = _moved(array, _before(hlo, move), move)
    array = array.reshape(result)
    if not np.may_share_memory(array, memory):
        return None
    steps = (step if extent != 1 else 0 for step, extent in zip(array.strides, result, strict=True))
    return Strides(_start(array, memory), tuple(steps))


def _before(hlo: HloModule, move: Any) -> Any:
    (operand,) = hlo.operands(move)
    return operand


def _applied(shape: Any, moves: list[tuple[Any, Any]]) -> Strides | None:
    """An array in memory, after moves: each from an instruction to another one, in either direction."""
    memory = np.empty(int(np.prod(shape.dimensions, dtype=np.int64)), np.uint8)
    if not memory.size:
        return None
    array = _from_memory(memory, shape)
    for before, after in moves:
        array = _moved(array, before, after)
        if not np.may_share_memory(array, memory):
            return None
    return Strides(_start(array, memory), tuple(array.strides))


def _start(array: Any, memory: Any) -> int:
    return int(array.__array_interface__["data"][0] - memory.__array_interface__["data"][0])


def _moved(array: Any, before: Any, after: Any) -> Any:
    """A view of an array, or a copy where there is none."""
    is_forward = bool(after.operand_ids) and after.operand_ids[0] == before.id
    move = after if is_forward else before
    match move.opcode:
        case "transpose":
            axes = tuple(move.dimensions)
            return array.transpose(axes if is_forward else np.argsort(axes))
        case "broadcast" if is_forward:
            return _along(array, move.dimensions, move.shape)
        case "reshape":
            return array.reshape(tuple(after.shape.dimensions))
        case "slice":
            cut = (slice(one.start, one.limit, one.stride) for one in move.slice_dimensions)
            return array[tuple(cut)]
        case "bitcast":
            order = tuple(reversed(before.shape.layout.minor_to_major))
            return _from_memory(array.transpose(order), after.shape)
    return array


def _along(array: Any, axes: Sequence[int], shape: Any) -> Any:
    """An array whose axes become these of a shape; along all others it is repeated."""
    index = tuple(slice(None) if axis in axes else None for axis in range(len(shape.dimensions)))
    return np.broadcast_to(array.transpose(np.argsort(axes))[index], tuple(shape.dimensions))


def _from_memory(array: Any, shape: Any) -> Any:
    """An array of this shape and layout, from its elements in the order of memory."""
    order = tuple(reversed(shape.layout.minor_to_major))
    physical = array.reshape([shape.dimensions[axis] for axis in order])
    return physical.transpose(np.argsort(order))
