"""Steps: operations with their operands in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..util.records import JsonRecord
from .ops import AnyOp
from .view import View


class Step(JsonRecord):
    """An operation, the memory of its operands, and the sequences that it runs."""

    op: AnyOp
    inputs: Mapping[str, View] = {}
    """By the name of the operand (`Op.INPUTS`)."""
    outputs: Mapping[str, View] = {}
    regions: tuple[tuple[Step, ...], ...] = ()
    """The steps of a loop's condition and body, or of branches."""
    operations: int = 0
    """Arithmetic operations of one run, without those of regions."""
    origin: str = ""
    """The operation of the model that it comes from, as XLA names it: `StatefulPartitionedCall/model/dense/MatMul`."""

    def inputs_of(self, role: str) -> list[View]:
        """The inputs of a role that has several, by their numbers."""
        return numbered(self.inputs, role)

    def outputs_of(self, role: str) -> list[View]:
        """The outputs of a role that has several, by their numbers."""
        return numbered(self.outputs, role)

    @property
    def views(self) -> Iterator[View]:
        """All operands."""
        yield from self.inputs.values()
        yield from self.outputs.values()


def numbered(operands: Mapping[str, View], role: str) -> list[View]:
    """The operands named `role0`, `role1`, ... in this order, as far as numbers follow each other."""
    views: list[View] = []
    while (name := f"{role}{len(views)}") in operands:
        views.append(operands[name])
    return views


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """Every step, those inside loops and branches included, in program order."""
    for step in steps:
        yield step
        for region in step.regions:
            yield from walk(region)
