"""Questions that many readers ask of instructions: where a value comes from, what number it is, how it is in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...dtypes import ElementType
from ...errors import UnsupportedProgramError
from ...program.arrays import Slice
from ...program.view import View
from .hlo import Instruction, Shape

_INTEGERS = (ElementType.BOOL, ElementType.INT32, ElementType.INT64)


def is_row_major(
    dimensions: Sequence[int], minor_to_major: Sequence[int], *, ignoring_unit_axes: bool = False
) -> bool:
    """Whether the last axis varies fastest, and so on to the first.

    Args:
        dimensions: The extents of the axes.
        minor_to_major: Axes from the fastest varying to the slowest.
        ignoring_unit_axes: Whether axes with one element may be anywhere: they change nothing in memory.
    """
    axes = [a for a in minor_to_major if not ignoring_unit_axes or dimensions[a] != 1]
    return axes == sorted(axes, reverse=True)


def row_major(*shapes: Shape, ignoring_unit_axes: bool = False) -> bool:
    """Whether all shapes are row-major."""
    return all(
        is_row_major(s.dimensions, s.minor_to_major, ignoring_unit_axes=ignoring_unit_axes)
        for s in shapes
    )


def same_layout(left: Shape, right: Shape) -> bool:
    """Whether elements with the same indices are at the same places, if both have the same size."""
    return (left.dimensions, left.minor_to_major) == (right.dimensions, right.minor_to_major)


def behind_bitcasts(instruction: Instruction) -> Instruction:
    """The instruction whose value this one is, perhaps with another shape."""
    while instruction.opcode == "bitcast":
        (instruction,) = instruction.operands
    return instruction


def keeps_memory(instruction: Instruction) -> bool:
    """Whether it is a transpose or a copy that moves axes of one element only, so that rows stay where they are."""
    if instruction.opcode not in ("transpose", "copy"):
        return False
    (operand,) = instruction.operands
    axes = instruction.dimensions or range(operand.shape.rank)
    moved = [axis for axis in axes if operand.shape.dimensions[axis] != 1]
    return moved == sorted(moved) and row_major(
        operand.shape, instruction.shape, ignoring_unit_axes=True
    )


def parameter_of(node: Instruction) -> int | None:
    """The number of the parameter of its computation that a value is, bitcasts looked through."""
    source = behind_bitcasts(node)
    return source.parameter_number if source.opcode == "parameter" else None


@dataclass(frozen=True)
class Value:
    """The value of an instruction, perhaps in a fusion."""

    node: Instruction
    fusion: Instruction | None = None
    """The fusion whose computation it is in; None outside of all."""

    @property
    def operands(self) -> list[Value]:
        """The values that the instruction takes."""
        return [Value(operand, self.fusion) for operand in self.node.operands]

    def source(self) -> Value | None:
        """The value that this one is by another name: a fusion's operand behind its parameter, or a fusion's root.

        None if the instruction computes or moves something.
        """
        node, fusion = self.node, self.fusion
        if node.opcode == "bitcast":
            return Value(node.operands[0], fusion)
        if fusion is not None and node.opcode == "parameter":
            return Value(fusion.operands[node.parameter_number])
        if fusion is None and node.opcode == "fusion":
            return Value(node.called_root, node)
        return None


def scalar_of(node: Instruction, *, finite: bool = False) -> float | None:
    """The 32-bit float that all elements of a value are: of a constant with one element, or of what repeats it.

    Args:
        node: The instruction.
        finite: Whether infinities and NaN count as none.
    """
    node = _behind_broadcasts(node)
    if not isinstance(node.value, float) or node.shape.element_type != ElementType.FLOAT32:
        return None
    return None if finite and not math.isfinite(node.value) else node.value


def integer_of(node: Instruction) -> int | None:
    """The integer or condition that all elements of a value are, as `scalar_of`."""
    node = _behind_broadcasts(node)
    if not isinstance(node.value, int) or node.shape.element_type not in _INTEGERS:
        return None
    return int(node.value)


def _behind_broadcasts(node: Instruction) -> Instruction:
    while node.opcode == "broadcast" and node.operands[0].shape.elements == 1:
        (node,) = node.operands
    return node


def view_of(shape: Shape, where: Slice) -> View:
    """Memory as a view of a shape.

    Raises:
        UnsupportedProgramError: Programs have no elements of its type.
    """
    if shape.element_type is None:
        raise UnsupportedProgramError(f"XLA's element type {shape.primitive} is not supported")
    return View.dense(where, shape.element_type, shape.dimensions, shape.minor_to_major)
