"""Decides the batch sizes of a model whose spec names none, from its program for several rows.

Whether rows are worth computing together follows from the program: weights are read once for all rows, and steps begin once.
Of some sets of sizes, the smallest is chosen with which no number of rows takes much longer than if it were a size of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.cost import estimate_cost, partial_part
from ..codegen.rows.demand import FirstRows
from ..model.findings import Finding
from ..program.program import Program
from ..request import SMALLEST_BATCH
from ..spec.verification import COMPARED_ROWS, FEW_ROWS
from ..util.records import JsonRecord
from ..workers.outcomes import Sizing
from .splits import Cost, lowest_times

SIZING_ROWS = 16
"""The rows of the program from which sizes are decided."""

CHOICE_VERSION = 4
"""Raised when other sizes may follow from the same program; part of a key."""

_LONG = 20e6
"""Nanoseconds that one row is estimated to take of a model of which few rows are compared: evaluating it in float64, and running
it at the lowest level, takes ten times as long and more."""

_SETS: Sequence[tuple[int, ...]] = (
    SMALLEST_BATCH,
    (1, 16),
    (1, 4, 16),
    (1, 16, 64),
    (1, 4, 16, 64),
)
"""By how much code they make."""

_ROWS = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
"""The numbers of rows that count."""

_ENOUGH = 1.15
"""How many times as long as with a size of its own a number of rows may take."""

_WORTH = 1.05
"""Where no set is enough: more sizes must make the worst number of rows quicker by 5 %."""


class ChosenSizes(JsonRecord):
    """The batch sizes that were decided, and why."""

    batch_sizes: tuple[int, ...] = SMALLEST_BATCH
    why: str = ""
    """One sentence without a full stop; empty if there is no batch axis."""
    compared_rows: int = COMPARED_ROWS
    """How many rows are compared if the spec does not say it."""

    @property
    def finding(self) -> Finding | None:
        """A note for whoever checks or builds the model."""
        if not self.why:
            return None
        sizes = ", ".join(map(str, self.batch_sizes))
        message = f"batch sizes: {sizes} ({self.why}); compilation.batch_sizes sets others"
        return Finding("note", "batch-sizes", message)


class _Growth:
    """The cost of a run by its rows, as the program for `SIZING_ROWS` rows tells it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        per_row = [bool(v.shape) and v.shape[0] % SIZING_ROWS == 0 for v in program.outputs]
        first = FirstRows(program, SIZING_ROWS, per_row)
        whole, fixed = estimate_cost(program), estimate_cost(program, 0.0)
        saved = partial_part(program, first) * whole
        self._fixed = fixed
        self._skipped = min(saved / (whole - fixed), 1.0) if whole > fixed else 0.0
        """The part of what grows with the rows that a run of fewer rows saves."""
        self._own: dict[int, float] = {rows: self.own(rows) for rows in _ROWS}

    def own(self, rows: int) -> float:
        """A run of a size of its own."""
        return estimate_cost(self._program, rows / SIZING_ROWS)

    def _cost(self, size: int) -> Cost:
        whole = self._own[size]
        return Cost(whole, self._skipped * max(whole - self._fixed, 0.0) / whole)

    def worst(self, sizes: Sequence[int]) -> float:
        """How many times as long as with a size of its own a number of rows takes at most."""
        taken = lowest_times({size: self._cost(size) for size in sizes}, _ROWS[-1])
        return max(taken[rows] / own for rows, own in self._own.items())


def choose_sizes(sizing: Sizing) -> ChosenSizes:
    """The batch sizes of a model.

    Args:
        sizing: Its program for `SIZING_ROWS` rows, if it has one.
    """
    if sizing.refusal:
        return ChosenSizes(why=f"{SIZING_ROWS} rows at once cannot be compiled: {sizing.refusal}")
    if sizing.program is None:
        return ChosenSizes()
    growth = _Growth(sizing.program)
    worst = {sizes: growth.worst(sizes) for sizes in _SETS}
    limit = max(_ENOUGH, min(worst.values()) * _WORTH)
    sizes = next(sizes for sizes in _SETS if worst[sizes] <= limit)
    row = growth.own(1)
    together, alone = growth.own(SIZING_ROWS), SIZING_ROWS * row
    return ChosenSizes(
        batch_sizes=sizes,
        why=f"{SIZING_ROWS} rows at once take an estimated {together / alone:.2f} of the time of {SIZING_ROWS} single rows",
        compared_rows=FEW_ROWS if row > _LONG else COMPARED_ROWS,
    )
