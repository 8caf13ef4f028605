"""Maxima and sums of windows: poolings of images, and reductions of the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import Pooling, RowReduction
from ...program.steps import Step
from ..cpp import elements, kernel_call
from ..library import compiled
from ..tables import pooling_values, reducer
from ..writer import StepWriter


def write_pooling(writer: StepWriter, step: Step, op: Pooling) -> Iterator[str]:
    """A call of `pooling`."""
    source, target = step.inputs["input"], step.outputs["output"]
    in_size, column_stride = source.shape[1:3], source.strides[2]
    table = writer.table("Pooling", pooling_values(op, in_size, column_stride, target))
    writer.headers.add("pooling/pooling.h")
    if (parts := writer.parts(step)) > 1:
        writer.headers.add("pooling/parts.h")
        writer.scratch.parts.append("0")
    shape = writer.shape(step, table, "Pooling::batch")
    operands = f"{shape}, {elements(source)}, {elements(target, written=True)}"
    yield f"{kernel_call('pooling', '<float>', parts)}{operands});"


def pooling_library(_: Step) -> Iterator[str]:
    """Poolings are of 32-bit floats."""
    return compiled("float", "pooling")


def write_row_reduction(writer: StepWriter, step: Step, op: RowReduction) -> Iterator[str]:
    """A call of `row_reduction`."""
    source, target = step.inputs["input"], step.outputs["output"]
    (rows, size), (_, windows) = source.shape, target.shape
    values = [*reducer(op), rows, size, windows, op.window, op.pad_low]
    table = writer.table("RowReduction", values)
    writer.headers.add("pooling/row_reduction.h")
    shape = writer.shape(step, table, "RowReduction::rows")
    yield f"row_reduction<float>({shape}, {elements(source)}, {elements(target, written=True)});"
