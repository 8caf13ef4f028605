"""Finds the parts of arrays that iterations of a loop read or write: they need not be copied.

XLA copies the part of each iteration (`dynamic-slice`) to where a product reads it, and results into the array of all
iterations (`dynamic-update-slice`). If the number of the iteration alone says where the part begins, and it is inside of
the array in every iteration, it is a slice that moves from one to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...program.arrays import Slice
from .counters import Counters, Linear
from .emitted import thunks as p
from .hlo import Instruction, Shape
from .match import behind_bitcasts, parameter_of


def read_window(
    counters: Counters, fusion: Instruction, kernel: p.Kernel
) -> tuple[Slice, Instruction] | None:
    """The part of an array that a kernel only copies, and the instruction that the array is of."""
    part = _moving(fusion, kernel, "dynamic-slice")
    window = None if part is None else part_of(counters, fusion, kernel, part)
    if part is None or window is None or window.size != kernel.results[0].size:
        return None
    return window, fusion.operands[behind_bitcasts(part.operands[0]).parameter_number]


def part_of(
    counters: Counters, fusion: Instruction, kernel: p.Kernel, node: Instruction
) -> Slice | None:
    """The part of an array that an instruction in a fusion is, if it is a `dynamic-slice` of one of the arguments."""
    if node.opcode != "dynamic-slice":
        return None
    source, *indices = node.operands
    array = _argument(kernel, source)
    if array is None:
        return None
    return _window(counters, fusion, source.shape, node.shape, indices, array)


def written_window(counters: Counters, fusion: Instruction, kernel: p.Kernel) -> p.Copy | None:
    """The copy into a part of an array that a kernel makes."""
    updated = _moving(fusion, kernel, "dynamic-update-slice")
    if updated is None:
        return None
    target, update, *indices = updated.operands
    array, source = _argument(kernel, target), _argument(kernel, update)
    if array is None or source is None or array != kernel.results[0]:
        return None
    window = _window(counters, fusion, target.shape, update.shape, indices, array)
    if window is None or window.size != source.size:
        return None
    return p.Copy(operations=0, origin=kernel.origin, source=source, destination=window)


def _moving(fusion: Instruction, kernel: p.Kernel, opcode: str) -> Instruction | None:
    """The one operation of a fusion, if it is this one."""
    if fusion.opcode != "fusion" or len(kernel.arguments) != len(fusion.operands):
        return None
    root = behind_bitcasts(fusion.called_root)
    return root if root.opcode == opcode and len(kernel.results) == 1 else None


def _argument(kernel: p.Kernel, value: Instruction) -> Slice | None:
    """Where a parameter of the kernel's fusion is."""
    number = parameter_of(value)
    return None if number is None else kernel.arguments[number]


def _window(
    counters: Counters,
    fusion: Instruction,
    array: Shape,
    part: Shape,
    indices: Sequence[Instruction],
    where: Slice,
) -> Slice | None:
    """The part of an array that begins at some indices, if its elements follow each other in memory."""
    order, element = array.minor_to_major, array.element_type
    if part.minor_to_major != order or element is None or element != part.element_type:
        return None
    parameters = counters.operands(fusion)
    start, stride = Linear(0), element.item_bytes
    size = stride * math.prod(part.dimensions)
    complete = True
    for axis in order:
        extent = array.dimensions[axis]
        # XLA moves a part that is not inside the array: one that is all of an axis begins at 0.
        if part.dimensions[axis] != extent or not complete:
            index = counters.value(indices[axis], parameters)
            if part.dimensions[axis] != 1 or index is None:
                return None
            if not all(0 <= index.at(t) < extent for t in (0, counters.trip_count - 1)):
                return None
            start += Linear(index.start * stride, index.step * stride)
            complete = False
        stride *= extent
    if where.size != stride or where.step:
        return None
    return where.model_copy(
        update={
            "offset": where.offset + start.start,
            "size": size,
            "step": start.step,
            "iterations": counters.trip_count if start.step else 1,
        }
    )
