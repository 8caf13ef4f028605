"""Finds the parts of arrays that iterations of a loop read or write: they need not be copied.

XLA copies the part of each iteration (`dynamic-slice`) to where a product reads it, and results into the array of all
iterations (`dynamic-update-slice`). If the number of the iteration alone says where the part begins, and it is inside of
the array in every iteration, it is a slice that moves from one to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ....program.arrays import Slice
from ....program.ops import While
from ....program.view import View
from ..graph import Graph, Node, Operand, Result
from ..hlo import Instruction, Shape
from ..match import behind_bitcasts, parameter_of
from .counters import Counters, Linear, counters_of


def read_window(counters: Counters, fusion: Instruction, kernel: Node) -> Operand | None:
    """The part of an array that the kernel of a fusion only copies."""
    part = _moving(fusion, kernel, "dynamic-slice")
    window = None if part is None else part_of(counters, fusion, kernel, part)
    if window is None:
        return None
    (result,) = kernel.outputs.values()
    return window if window.view.slice.size == result.view.slice.size else None


def window_of(graph: Graph, kernel: Node, fusion: Instruction, node: Instruction) -> Operand | None:
    """The part of an argument that an instruction in the fusion of a kernel takes in each iteration of the loop around it."""
    loop = kernel.region.owner if kernel.region is not None else None
    if node.opcode != "dynamic-slice" or loop is None or kernel.region is not loop.regions[-1]:
        return None
    counters = counters_of(graph, loop)
    # Of another loop nobody knows which iteration it is in.
    if counters is None or loop.op != While(trip_count=counters.trip_count):
        return None
    (instruction,) = (
        candidate for candidate in graph.instructions(loop) if candidate.opcode == "while"
    )
    is_own = fusion in instruction.called[0].instructions
    return part_of(counters, fusion, kernel, node) if is_own else None


def part_of(
    counters: Counters, fusion: Instruction, kernel: Node, node: Instruction
) -> Operand | None:
    """The part of an array that an instruction in a fusion is, if it is a `dynamic-slice` of one of the arguments."""
    if node.opcode != "dynamic-slice":
        return None
    source, *indices = node.operands
    array = _argument(kernel, source)
    if array is None:
        return None
    window = _window(counters, fusion, source.shape, node.shape, indices, array.view.slice)
    return None if window is None else Operand(array.value, View.of_bytes(window))


def rows_of(
    counters: Counters, fusion: Instruction, kernel: Node, node: Instruction
) -> Operand | None:
    """The part of an array that an instruction in a fusion is, as rows along the last axis.

    One before the last axis may be a place that the iteration says, as the steps of a sequence in an array with the batch
    first are: then rows are as far apart as all places of a row of the batch.
    """
    if node.opcode != "dynamic-slice":
        return None
    source, *indices = node.operands
    array, shape = _argument(kernel, source), source.shape
    element = shape.element_type
    if array is None or element is None or array.view.slice.step or not shape.dimensions:
        return None
    places = [
        axis for axis, own in enumerate(node.shape.dimensions) if own != shape.dimensions[axis]
    ]
    in_order = tuple(reversed(range(shape.rank)))
    both = shape.minor_to_major == node.shape.minor_to_major == in_order
    if not both or len(places) != 1 or array.view.slice.size != shape.elements * element.item_bytes:
        return None
    (place,) = places
    columns, extent = shape.dimensions[-1], shape.dimensions[place]
    inner = math.prod(shape.dimensions[place + 1 :])
    index = counters.value(indices[place], counters.operands(fusion))
    # One row of each batch; XLA moves a part that is not inside the array.
    if node.shape.dimensions[place] != 1 or inner != columns or index is None:
        return None
    if not all(0 <= index.at(t) < extent for t in (0, counters.trip_count - 1)):
        return None
    rows, stride = math.prod(shape.dimensions[:place]), extent * inner
    item = element.item_bytes
    step = index.step * inner * item
    part = array.view.slice.model_copy(
        update={
            "offset": array.view.slice.offset + index.start * inner * item,
            "size": ((rows - 1) * stride + columns) * item,
            "step": step,
            "iterations": counters.trip_count if step else 1,
        }
    )
    view = View(slice=part, element_type=element, shape=(rows, columns), strides=(stride, 1))
    return Operand(array.value, view)


def written_window(
    counters: Counters, fusion: Instruction, kernel: Node
) -> tuple[Operand, Result] | None:
    """The operand that a kernel copies into a part of an array that is in its place, and that part."""
    updated = _moving(fusion, kernel, "dynamic-update-slice")
    if updated is None:
        return None
    target, update, *indices = updated.operands
    array, source = _argument(kernel, target), _argument(kernel, update)
    (result,) = kernel.outputs.values()
    if array is None or source is None or not _is_in_place(array, result):
        return None
    where = result.view.slice
    window = _window(counters, fusion, target.shape, update.shape, indices, where)
    if window is None or window.size != source.view.slice.size:
        return None
    return source, replace(result, view=View.of_bytes(window))


def _is_in_place(array: Operand, result: Result) -> bool:
    """Whether a result is all of an operand in its place, but for what the kernel changes."""
    base, read, written = result.base, array.view.slice, result.view.slice
    return (
        base is not None
        and base.value is array.value
        and (base.size, base.at) == (result.value.size, 0)
        and (read.offset - base.offset, read.size) == (written.offset, written.size)
    )


def _moving(fusion: Instruction, kernel: Node, opcode: str) -> Instruction | None:
    """The one operation of a fusion, if it is this one."""
    if fusion.opcode != "fusion" or len(kernel.inputs) != len(fusion.operands):
        return None
    root = behind_bitcasts(fusion.called_root)
    return root if root.opcode == opcode and len(kernel.outputs) == 1 else None


def _argument(kernel: Node, value: Instruction) -> Operand | None:
    """The operand that a parameter of the kernel's fusion is."""
    number = parameter_of(value)
    return None if number is None else list(kernel.inputs.values())[number]


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
