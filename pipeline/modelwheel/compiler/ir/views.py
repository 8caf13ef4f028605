"""Where in memory the elements of an array are that others only move: transposed, reshaped, cut out, copied.

Such moves keep how far apart neighbours along each axis are, so that a kernel with strides can read or write the elements
where they were before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .hlo import Instruction, Shape
from .match import Value, scalar_of

_MOVES = frozenset({"bitcast", "copy", "reshape", "slice", "transpose"})
_KERNELS = _MOVES - {"bitcast"} | {"fusion"}
"""Moves that need a kernel, outside of fusions."""

_Bytes: TypeAlias = NDArray[np.uint8]
"""An array with one byte for each element, which stands for its memory."""


@dataclass(frozen=True)
class Source:
    """The value that moves begin with."""

    node: Instruction
    fusion: Instruction | None
    """The fusion whose computation has it; None outside of all."""
    moves: tuple[Instruction, ...]
    """The instructions that move it, the last one first."""
    kernel: Instruction | None
    """The instruction outside of fusions whose kernel moves it."""
    factor: float = 1.0
    """The kernel multiplies all elements by it."""


def source_of(instruction: Instruction, *, scaled: bool = False) -> Source:
    """The value that an instruction outside of fusions moves, looking through at most one kernel.

    Args:
        instruction: The instruction.
        scaled: Whether the kernel may also multiply it by a number.
    """
    value = Value(instruction)
    moves: list[Instruction] = []
    kernel, factor = None, 1.0
    while True:
        node = value.node
        if value.fusion is None and node.opcode in _KERNELS:
            root = node.called_root if node.opcode == "fusion" else node
            moved = root.opcode in _MOVES or (scaled and _multiplied(root) is not None)
            if kernel is not None or not moved:
                break
            kernel = node
        if node.opcode in _MOVES:
            moves.append(node)
            (value,) = value.operands
        elif (source := value.source()) is not None:
            value = source
        elif scaled and value.fusion is not None and (product := _multiplied(node)) is not None:
            value, factor = Value(product[0], value.fusion), factor * product[1]
        else:
            break
    return Source(value.node, value.fusion, tuple(moves), kernel, factor)


def _multiplied(node: Instruction) -> tuple[Instruction, float] | None:
    """The value that an instruction multiplies by a number, without moving it, and the number."""
    if node.opcode != "multiply":
        return None
    left, right = node.operands
    for value, constant in ((left, right), (right, left)):
        factor = scalar_of(constant, finite=True)
        same = value.shape.minor_to_major == node.shape.minor_to_major
        if factor and same:
            return value, factor
    return None


@dataclass(frozen=True)
class Strides:
    """How far apart neighbours along each axis are, in elements, and how far from the start the first is."""

    start: int
    steps: tuple[int, ...]


def strides_of(source: Source) -> Strides | None:
    """The elements of what is moved, in the memory of what it was before; None if they are not evenly spaced."""
    moves = [(move.operands[0], move) for move in reversed(source.moves)]
    return _applied(source.node.shape, moves)


def strides_in_result(source: Source) -> Strides | None:
    """The elements of what is moved, in the memory where the last move has put them."""
    moves = [(move, move.operands[0]) for move in source.moves]
    if not moves or any(move.opcode == "slice" for move in source.moves):
        return None
    return _applied(source.moves[0].shape, moves)


def strides_through(
    shape: Shape, moves: Sequence[Instruction], result: Sequence[int], axis: int | None = None
) -> Strides | None:
    """The elements of what instructions move and repeat; those that are the same along an axis have the distance 0 there.

    Args:
        shape: What is in memory.
        moves: The instructions, the last one first.
        result: The extents of what they make of it.
        axis: If it is given, the only one that is in memory: all others repeat it.
    """
    memory = np.empty(shape.elements if axis is None else shape.dimensions[axis], np.uint8)
    if not memory.size:
        return None
    array = _from_memory(memory, shape) if axis is None else _along(memory, (axis,), shape)
    for move in reversed(moves):
        array = _moved(array, move.operands[0], move)
    array = array.reshape(result)
    if not np.may_share_memory(array, memory):
        return None
    steps = (step if extent != 1 else 0 for step, extent in zip(array.strides, result, strict=True))
    return Strides(_start(array, memory), tuple(steps))


def _applied(shape: Shape, moves: Sequence[tuple[Instruction, Instruction]]) -> Strides | None:
    """An array in memory, after moves: each from an instruction to another one, in either direction."""
    memory = np.empty(shape.elements, np.uint8)
    if not memory.size:
        return None
    array = _from_memory(memory, shape)
    for before, after in moves:
        array = _moved(array, before, after)
        if not np.may_share_memory(array, memory):
            return None
    return Strides(_start(array, memory), tuple(array.strides))


def _start(array: _Bytes, memory: _Bytes) -> int:
    return int(array.__array_interface__["data"][0] - memory.__array_interface__["data"][0])


def _moved(array: _Bytes, before: Instruction, after: Instruction) -> _Bytes:
    """A view of an array, or a copy where there is none."""
    is_forward = after.operands[:1] == (before,)
    move = after if is_forward else before
    match move.opcode:
        case "transpose":
            axes = move.dimensions
            return np.transpose(array, axes if is_forward else _inverse(axes))
        case "broadcast" if is_forward:
            return _along(array, move.dimensions, move.shape)
        case "reshape":
            return array.reshape(after.shape.dimensions)
        case "slice":
            cut = (slice(axis.start, axis.limit, axis.stride) for axis in move.slices)
            return array[tuple(cut)]
        case "bitcast":
            order = before.shape.minor_to_major[::-1]
            return _from_memory(array.transpose(order), after.shape)
    return array


def _along(array: _Bytes, axes: Sequence[int], shape: Shape) -> _Bytes:
    """An array whose axes become these of a shape; along all others it is repeated."""
    index = tuple(slice(None) if axis in axes else None for axis in range(shape.rank))
    return np.broadcast_to(array.transpose(_inverse(axes))[index], shape.dimensions)


def _from_memory(array: _Bytes, shape: Shape) -> _Bytes:
    """An array of this shape and layout, from its elements in the order of memory."""
    order = shape.minor_to_major[::-1]
    physical = array.reshape([shape.dimensions[axis] for axis in order])
    return np.transpose(physical, _inverse(order))


def _inverse(order: Sequence[int]) -> list[int]:
    """The order that undoes another one."""
    return sorted(range(len(order)), key=order.__getitem__)
