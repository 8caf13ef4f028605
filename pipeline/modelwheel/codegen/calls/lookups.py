"""Gathers: rows of a table by indices, and poolings of them."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import EmbeddingBag, Lookup
from ...program.steps import Step
from ..cpp import elements, pointer
from ..tables import pooling_values
from ..writer import StepWriter


def write_lookup(writer: StepWriter, step: Step, op: Lookup) -> Iterator[str]:
    """A call of `lookup`."""
    table, operands = _table(writer, step, op)
    writer.headers.add("elementwise/lookup.h")
    shape = writer.shape(step, table, "&Lookup::count")
    yield f"lookup({shape}, {operands}, {pointer(step.outputs['output'].slice)});"


def write_embedding_bag(writer: StepWriter, step: Step, op: EmbeddingBag) -> Iterator[str]:
    """A call of `embedding_bag`."""
    table, operands = _table(writer, step, op.lookup)
    output = step.outputs["output"]
    *_, features = output.shape
    # The rows that are looked up would follow each other.
    pooling = writer.table("Pooling", pooling_values(op.pooling, op.in_size, features, output))
    writer.headers.add("pooling/embedding_bag.h")
    target = elements(output, written=True)
    shape = writer.shape(step, pooling, "&Pooling::batch")
    yield f"embedding_bag<float>({table}, {shape}, {operands}, {target});"


def _table(writer: StepWriter, step: Step, op: Lookup) -> tuple[str, str]:
    """The name of a table [indices, rows, bytes of a row, wrap], and the memory that is read."""
    rows, indices = step.inputs["table"], step.inputs["indices"]
    table = writer.table("Lookup", [indices.elements, *rows.shape, op.wrap])
    return table, f"{pointer(rows.slice)}, {elements(indices)}"
