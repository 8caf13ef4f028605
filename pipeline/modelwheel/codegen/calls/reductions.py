"""Maxima and sums of windows: poolings of images, and reductions of the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import Pooling, RowReduction, Softmax, VolumePooling
from ...program.steps import Step
from ..cpp import braces, cpp_type, elements, kernel_call
from ..library import compiled
from ..tables import pooling_values, reducer
from ..writer import StepWriter


def write_pooling(writer: StepWriter, step: Step, op: Pooling) -> Iterator[str]:
    """A call of `pooling`."""
    source, target = step.inputs["input"], step.outputs["output"]
    in_size, column_stride = source.shape[1:3], source.strides[2]
    table = writer.table("Pooling", pooling_values(op, in_size, column_stride, target))
    writer.headers.add("pooling/pooling.h")
    yield _pooling_call(writer, step, "pooling", writer.shape(step, table, "&Pooling::batch"))


def write_volume_pooling(writer: StepWriter, step: Step, op: VolumePooling) -> Iterator[str]:
    """A call of `volume_pooling`."""
    source, target = step.inputs["input"], step.outputs["output"]
    values = pooling_values(op.plane, source.shape[2:4], source.strides[3], target)
    planes = source.shape[1], op.window, target.shape[1], op.stride, op.pad_low
    table = writer.table("VolumePooling", [target.shape[0], *planes, braces(values)])
    writer.headers.add("pooling/volume.h")
    shape = writer.shape(step, table, "&VolumePooling::batch")
    yield _pooling_call(writer, step, "volume_pooling", shape)


def _pooling_call(writer: StepWriter, step: Step, kernel: str, shape: str) -> str:
    if (parts := writer.parts(step)) > 1:
        writer.headers.add("pooling/parts.h")
        writer.scratch.parts.append("0")
    target = elements(step.outputs["output"], written=True)
    operands = f"{shape}, {elements(step.inputs['input'])}, {target}"
    types = f"<{cpp_type(step.outputs['output'])}>"
    return f"{kernel_call(kernel, types, parts)}{operands});"


def pooling_library(step: Step) -> Iterator[str]:
    """Poolings of 32-bit floats are compiled once, poolings of bytes with the model."""
    element = cpp_type(step.outputs["output"])
    return compiled(element, "pooling") if element == "float" else iter(())


def write_row_reduction(writer: StepWriter, step: Step, op: RowReduction) -> Iterator[str]:
    """A call of `row_reduction`."""
    source, target = step.inputs["input"], step.outputs["output"]
    (rows, size), (_, windows) = source.shape, target.shape
    values = [*reducer(op), rows, size, windows, op.window, op.pad_low]
    table = writer.table("RowReduction", values)
    writer.headers.add("pooling/row_reduction.h")
    shape = writer.shape(step, table, "&RowReduction::rows")
    yield f"row_reduction<float>({shape}, {elements(source)}, {elements(target, written=True)});"


def write_softmax(writer: StepWriter, step: Step, _: Softmax) -> Iterator[str]:
    """A call of `row_softmax`."""
    source, target, bias = step.inputs["input"], step.outputs["output"], step.inputs.get("bias")
    table = writer.table("RowSoftmax", list(source.shape))
    writer.headers.add("pooling/row_softmax.h")
    shape = writer.shape(step, table, "&RowSoftmax::rows")
    added = "nullptr" if bias is None else elements(bias)
    operands = f"{elements(source)}, {added}, {elements(target, written=True)}"
    yield f"row_softmax<float>({shape}, {operands});"
