"""Leaves out steps that compute what nobody reads.

    %1 = kernel %0 {symbol=fill_with_zeros}             %1 = while (undefined) {trip_count=3}
    %2 = while (%1) {trip_count=3}                =>      body(%2):
      body(%3):                                             %3+64i into %2 = copy %0
        %4+64i into %3 = copy %0                            yield %3
        yield %4

XLA fills the array in which a loop collects its results, and copies it for each loop: it knows only that an iteration writes
some part of it. Where the parts of all iterations are all of it, `lift` knows that nobody reads what was there before.

When: always. Bits: the same.
"""

from __future__ import annotations

from ..ir.erasing import erase_dead
from ..ir.graph import Graph


class EraseDead:
    """See above."""

    name = "erase-dead"

    def run(self, graph: Graph) -> int:
        """Erases; returns how many nodes."""
        return erase_dead(graph)
