"""What the passes on thunks know of steps, until loops are a matter of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...program.arrays import overlap
from ..ir.emitted import thunks as p
from ..ir.emitted.thunk_walk import slices, walk, written

# With fewer columns XLA's kernel is faster: its vectors run along all axes.
_MIN_COLUMNS = 4


@dataclass(eq=False)
class Emitted:
    """A thunk, and the name of the instruction that it computes."""

    thunk: p.Thunk
    instruction: str
    fusion: str | None = None
    """The instruction that became its epilogue."""
    is_kept: bool = False
    """Whether its value is read by more steps than the module says."""

    @property
    def value(self) -> str:
        """The name of the instruction whose value it writes."""
        return self.fusion or self.instruction


def may_exchange(between: Sequence[p.Thunk], one: p.Thunk) -> bool:
    """Whether a thunk may run before or after some others alike: neither writes what the other reads or writes."""
    for thunk in walk(tuple(between)):
        for a, b in ((thunk, one), (one, thunk)):
            if any(overlap(part, other) for part in written(a) for other in slices(b)):
                return False
    return True
