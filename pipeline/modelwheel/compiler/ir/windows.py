"""Finds the parts of arrays that turns of a loop read or write: they need not be copied.

XLA copies the part of each turn (`dynamic-slice`) to where a product reads it, and results into the array of all turns
(`dynamic-update-slice`). If the number of the turn alone says where the part begins, and it is inside of the array in
every turn, it is a slice that moves from turn to turn.
"""

from __future__ import annotations

import math
from typing import Any

from ...dtypes import ELEMENT_TYPES
from ...program.arrays import Slice
from . import thunks as p
from .counters import Counters, Linear
from .hlo import HloModule


def read_window(
    hlo: HloModule, counters: Counters, fusion: Any, kernel: p.Kernel
) -> tuple[Slice, Any] | None:
    """The part of an array that a kernel only copies, and the instruction that the array is of."""
    found = _moving(hlo, fusion, kernel, "dynamic-slice")
    window = None if found is None else part_of(hlo, counters, fusion, kernel, found)
    if found is None or window is None or window.size != kernel.results[0].size:
        return None
    source = hlo.behind_bitcasts(hlo.operands(found)[0])
    return window, hlo.operands(fusion)[source.parameter_number]


def part_of(
    hlo: HloModule, counters: Counters, fusion: Any, kernel: p.Kernel, node: Any
) -> Slice | None:
    """The part of an array that an instruction in a fusion is, if it is a `dynamic-slice` of one of the arguments."""
    if node.opcode != "dynamic-slice":
        return None
    source, *indices = hlo.operands(node)
    array = _argument(hlo, fusion, kernel, source)
    if array is None:
        return None
    return _window(hlo, counters, fusion, source.shape, node.shape, indices, array[0])


def written_window(
    hlo: HloModule, counters: Counters, fusion: Any, kernel: p.Kernel
) -> p.Copy | None:
    """The copy into a part of an array that a kernel makes."""
    found = _moving(hlo, fusion, kernel, "dynamic-update-slice")
    if found is None:
        return None
    target, update, *indices = hlo.operands(found)
    array = _argument(hlo, fusion, kernel, target)
    source = _argument(hlo, fusion, kernel, update)
    if array is None or source is None or array[0] != kernel.results[0]:
        return None
    window = _window(hlo, counters, fusion, target.shape, update.shape, indices, array[0])
    if window is None or window.size != source[0].size:
        return None
    return p.Copy(operations=0, origin=kernel.origin, source=source[0], destination=window)


def _moving(hlo: HloModule, fusion: Any, kernel: p.Kernel, opcode: str) -> Any | None:
    """The one operation of a fusion, if it is this one."""
    if fusion.opcode != "fusion" or len(kernel.arguments) != len(fusion.operand_ids):
        return None
    found = hlo.behind_bitcasts(hlo.called_root(fusion))
    return found if found.opcode == opcode and len(kernel.results) == 1 else None


def _argument(
    hlo: HloModule, fusion: Any, kernel: p.Kernel, value: Any
) -> tuple[Slice, Any] | None:
    """Where a parameter is, and the instruction outside of the fusion that it is."""
    value = hlo.behind_bitcasts(value)
    if value.opcode != "parameter":
        return None
    number = int(value.parameter_number)
    return kernel.arguments[number], hlo.operands(fusion)[number]


def _window(
    hlo: HloModule,
    counters: Counters,
    fusion: Any,
    array: Any,
    part: Any,
    indices: Any,
    where: Slice,
) -> Slice | None:
    """The part of an array that begins at some indices, if its elements follow each other in memory."""
    order = list(array.layout.minor_to_major)
    if list(part.layout.minor_to_major) != order or array.element_type != part.element_type:
        return None
    parameters = counters.operands(hlo, fusion)
    start, stride = Linear(0), ELEMENT_TYPES[array.element_type].item_bytes
    size = stride * math.prod(part.dimensions)
    complete = True
    for axis in order:
        extent = array.dimensions[axis]
        # XLA moves a part that is not inside the array: one that is all of an axis begins at 0.
        if part.dimensions[axis] != extent or not complete:
            index = counters.value(hlo, indices[axis], parameters)
            if part.dimensions[axis] != 1 or index is None:
                return None
            if not all(0 <= index.at(turn) < extent for turn in (0, counters.turns - 1)):
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
            "iterations": counters.turns if start.step else 1,
        }
    )
