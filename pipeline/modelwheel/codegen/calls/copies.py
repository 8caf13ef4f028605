"""Copies."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import UnsupportedProgramError
from ...program.ops import Copy
from ...program.steps import Step
from ..cpp import elements, pointer
from ..writer import StepWriter


def write(writer: StepWriter, step: Step, _: Copy) -> Iterator[str]:
    """A copy of bytes; or of the rows of a dense matrix of 32-bit floats into a part of the rows of a larger one.

    Raises:
        UnsupportedProgramError: The source has gaps or is transposed.
    """
    source, target = step.inputs["source"], step.outputs["destination"]
    if not source.is_row_major():
        raise UnsupportedProgramError("a copy of an array with gaps is not supported")
    if target.is_row_major(ignoring_unit_axes=False):
        size = str(source.slice.size)
        if step in writer.first:
            size = f"static_cast<std::size_t>({writer.count(step, source.slice.size)})"
        yield f"std::memcpy({pointer(target.slice)}, {pointer(source.slice)}, {size});"
        return
    table = writer.table("CopyRows", [*target.shape, target.strides[0]])
    writer.headers.add("elementwise/copy_rows.h")
    shape = writer.shape(step, table, "CopyRows::rows")
    yield f"copy_rows<float>({shape}, {elements(source)}, {elements(target, written=True)});"
