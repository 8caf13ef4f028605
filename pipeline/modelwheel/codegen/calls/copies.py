"""Copies."""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import ElementType
from ...errors import UnsupportedProgramError
from ...program.moves import MAX_LOOPS, Loop, is_contiguous, loops_of
from ...program.ops import Copy
from ...program.steps import Step
from ..cpp import braces, elements, first_element, pointer
from ..writer import StepWriter


def write(writer: StepWriter, step: Step, _: Copy) -> Iterator[str]:
    """A copy of bytes; or of 32-bit floats between arrays with gaps or in other orders.

    Raises:
        UnsupportedProgramError: It has too many axes, or is of other elements.
    """
    source, target = step.inputs["source"], step.outputs["destination"]
    loops, is_first = loops_of(source, target), step in writer.first
    if is_contiguous(loops) and not source.start:
        total = source.elements * source.element_type.item_bytes
        size = str(total)
        if is_first:
            size = f"static_cast<std::size_t>({writer.count(step, total)})"
        yield f"std::memcpy({pointer(target.slice)}, {pointer(source.slice)}, {size});"
        return
    if source.element_type != ElementType.FLOAT32 or len(loops) > MAX_LOOPS:
        raise UnsupportedProgramError("a copy of such an array with gaps is not supported")
    # The axis of the rows of a batch varies slowest in the result.
    rows, inner = (loops[0], loops[1:]) if is_first else (Loop(1, 0, 0), loops)
    axes = [braces(values) for values in zip(*_padded(inner), strict=True)]
    table = writer.table("Rearrangement", [*rows, *axes])
    writer.headers.add("elementwise/rearrange.h")
    shape = writer.shape(step, table, "&Rearrangement::rows")
    begin = first_element(source) if source.start else elements(source)
    yield f"rearrange<float>({shape}, {begin}, {elements(target, written=True)});"


def _padded(loops: tuple[Loop, ...]) -> list[Loop]:
    """The loops as the kernel has them: the last but one is along what follows each other in the source."""
    outer, last = list(loops[:-1]), list(loops[-1:])
    if outer and last[0].source != 1:
        outer.sort(key=lambda loop: loop.source == 1)
    return [Loop(1, 0, 0)] * (MAX_LOOPS - len(loops)) + [*outer, *last]
