"""Decides the batch sizes of a model whose spec names none, from its program for several rows.

Whether rows are worth computing together follows from the program: weights are read once for all rows, and steps begin once.
Of some sets of sizes, the smallest is chosen with which no number of rows takes much longer than if it were a size of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..codegen.cost import estimate_cost, fixed_cost, partial_part
from ..codegen.rows.demand import FirstRows
from ..model.findings import Finding
from ..program.program import Program
from ..request import SMALLEST_BATCH
from ..util.records import JsonRecord
from ..workers.jobs import Sizing
from .splits import Cost, lowest_times

SIZING_ROWS = 16
"""The rows of the program from which sizes are decided."""

CHOICE_VERSION = 1
"""Raised when other sizes may follow from the same program; part of a key."""

_SETS: Sequence[tuple[int, ...]] = (
    SMALLEST_BATCH,
    (1, 16),
    (1, 4, 16),
    (1, 16, 64),
    (1, 4, 16, 64),
)
"""By how much code they make."""

_MOST_ROWS = 128
"""Numbers of rows up to this one count."""

_ENOUGH = 1.15
"""How many times as long as with a size of its own a number of rows may take."""

_WORTH = 1.05
"""Where no set is enough: more sizes must make the worst number of rows quicker by 5 %."""


class ChosenSizes(JsonRecord):
    """The batch sizes that were decided, and why."""

    batch_sizes: tuple[int, ...] = SMALLEST_BATCH
    why: str = ""
    """One sentence without a full stop; empty if there is no batch axis."""

    @property
    def finding(self) -> Finding | None:
        """A note for whoever checks or builds the model."""
        if not self.why:
            return None
        sizes = ", ".join(map(str, self.batch_sizes))
        message = f"batch sizes: {sizes} ({self.why}); compilation.batch_sizes sets others"
        return Finding("note", "batch-sizes", message)


@dataclass(frozen=True)
class _Growth:
    """The nanoseconds of a run by its rows, as the program for some rows tells them."""

    fixed: float
    """Of any run, whatever its rows."""
    row: float
    """Of each row."""
    skipped: float
    """The part of a row's time that a run saves which computes one row less than it could."""

    @classmethod
    def of(cls, program: Program) -> _Growth:
        """The growth of a model, from its program for `SIZING_ROWS` rows."""
        per_row = [bool(v.shape) and v.shape[0] % SIZING_ROWS == 0 for v in program.outputs]
        first = FirstRows(program, SIZING_ROWS, per_row)
        total, fixed = estimate_cost(program), fixed_cost(program)
        growing = max(total - fixed, 0.0)
        saved = partial_part(program, first) * total
        return cls(fixed, growing / SIZING_ROWS, min(saved / growing, 1.0) if growing else 0.0)

    def own(self, rows: int) -> float:
        """A run of a size of its own."""
        return self.fixed + self.row * rows

    def _cost(self, size: int) -> Cost:
        whole = self.own(size)
        return Cost(whole, self.row * self.skipped * size / whole)

    def worst(self, sizes: Sequence[int]) -> float:
        """How many times as long as with a size of its own a number of rows takes at most."""
        taken = lowest_times({size: self._cost(size) for size in sizes}, _MOST_ROWS)
        return max(taken[n] / self.own(n) for n in range(1, _MOST_ROWS + 1))


def choose_sizes(sizing: Sizing) -> ChosenSizes:
    """The batch sizes of a model.

    Args:
        sizing: Its program for `SIZING_ROWS` rows, if it has one.
    """
    if sizing.refusal:
        return ChosenSizes(why=f"{SIZING_ROWS} rows at once cannot be compiled: {sizing.refusal}")
    if sizing.program is None:
        return ChosenSizes()
    growth = _Growth.of(sizing.program)
    worst = {sizes: growth.worst(sizes) for sizes in _SETS}
    limit = max(_ENOUGH, min(worst.values()) * _WORTH)
    sizes = next(sizes for sizes in _SETS if worst[sizes] <= limit)
    together, alone = growth.own(SIZING_ROWS), SIZING_ROWS * growth.own(1)
    return ChosenSizes(
        batch_sizes=sizes,
        why=f"{SIZING_ROWS} rows at once take an estimated {together / alone:.2f} of the time of {SIZING_ROWS} single rows",
    )
