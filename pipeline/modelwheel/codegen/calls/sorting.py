"""Sorts, and the largest elements of rows."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import Sort, TopK
from ...program.steps import Step
from ..cpp import braces, elements, pointer
from ..strides import sort_extents
from ..writer import StepWriter


def write_sort(writer: StepWriter, step: Step, op: Sort) -> Iterator[str]:
    """A call of `sort`.

    Raises:
        UnsupportedProgramError: The operands have different layouts.
    """
    # The comparator is machine code of the model and knows the element types; moving elements needs
    # their sizes only.
    operands = step.inputs_of("operand")
    item_bytes = [view.element_type.item_bytes for view in operands]
    values = [*sort_extents(step, op), len(item_bytes), braces(item_bytes)]
    table = writer.table("Sort", values)
    scratch = writer.needs("sorting/sort.h", f"sort_scratch({table})")
    addresses = braces(pointer(view.slice) for view in operands)
    yield f"sort({table}, {op.comparator}, {addresses}, {scratch});"


def write_top_k(writer: StepWriter, step: Step, _: TopK) -> Iterator[str]:
    """A call of `top_k`."""
    values, output = step.inputs["values"], step.outputs["output"]
    table = writer.table("TopK", [*values.shape, output.shape[1]])
    scratch = writer.needs("sorting/top_k.h", f"top_k_scratch({table})")
    indices = elements(step.outputs["indices"], written=True, element="std::int32_t")
    operands = [table, elements(values), elements(output, written=True), indices, scratch]
    yield f"top_k<float>({', '.join(operands)});"
