"""Images multiplied by factors of their features."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import Scaling
from ...program.steps import Step
from ..cpp import elements, kernel_call
from ..writer import StepWriter


def write(writer: StepWriter, step: Step, _: Scaling) -> Iterator[str]:
    """A call of `scaling`."""
    source, factors, target = step.inputs["input"], step.inputs["factors"], step.outputs["output"]
    table = writer.table("Scaling", source.shape)
    writer.headers.add("elementwise/scaling.h")
    if (parts := writer.parts(step)) > 1:
        writer.scratch.parts.append("0")
    images = factors.shape[0]
    shape = writer.shape(step, table, "&Scaling::rows" if images == 1 else "&Scaling::batch")
    operands = [shape, elements(source), elements(factors), elements(target, written=True)]
    yield f"{kernel_call('scaling', '<float>', parts)}{', '.join(operands)});"
