"""The program of a wheel for one CPU level and batch size, as typed values.

A program is a sequence of steps on a fixed set of memory allocations. The compile worker makes it from what XLA's compiler
writes; every later stage reads these values and needs neither TensorFlow nor protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..util.records import JsonRecord
from .arrays import Allocation
from .steps import Step
from .view import View
from .walk import slices, total, walk

PROGRAM_VERSION = 67
"""Raised when a field changes its meaning, or a pass what it makes of a program; part of every compile key."""


class Program(JsonRecord):
    """One compiled entry computation."""

    JSON_INDENT = None

    triple: str
    cpu: str
    allocations: tuple[Allocation, ...]
    parameters: tuple[View, ...]
    """By parameter number: dense; each slice is a whole allocation."""
    results: tuple[View, ...]
    """In fetch order, dense: where the program writes each of them."""
    steps: tuple[Step, ...]
    state: tuple[int | None, ...] = ()
    """One element for each of the last parameters, which hold the model's state: the number of the
    result with its new value, None if it is only read. These results come after the outputs, and XLA
    may write them over the parameter."""

    @property
    def inputs(self) -> tuple[View, ...]:
        """The parameters that callers pass."""
        return self.parameters[: len(self.parameters) - len(self.state)]

    @property
    def outputs(self) -> tuple[View, ...]:
        """The results that callers receive."""
        updates = sum(result is not None for result in self.state)
        return self.results[: len(self.results) - updates]

    def moved_updates(self) -> Iterator[tuple[int, int]]:
        """Parameters of the state, each with the result to copy there: it is not written in place."""
        for number, update in enumerate(self.state, start=len(self.inputs)):
            if update is not None:
                where = self.results[update].slice
                if self.allocations[where.allocation].parameter != number or where.offset:
                    yield number, update

    @property
    def used_allocations(self) -> frozenset[int]:
        """The indices of all allocations that some step, output or update of the state refers to."""
        used = {part.allocation for step in walk(self.steps) for part in slices(step)}
        used.update(result.slice.allocation for result in self.outputs)
        used.update(self.results[update].slice.allocation for _, update in self.moved_updates())
        return frozenset(used)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of all functions of the object file that are called, sorted."""
        return tuple(sorted({name for step in walk(self.steps) for name in step.op.symbols}))

    @property
    def operations(self) -> int:
        """Arithmetic operations of one run; see `walk.total` for loops and branches."""
        return total(self.steps, lambda step: step.operations)
