"""The columns of an input, which are the positions along its last axis, whose values reach a tensor.

`x[:, 3]` may be the index of a table where the rest of `x` are measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Columns:
    """Positions along the last axis of an input."""

    first: int
    end: int
    """Not reached."""
    width: int
    """The extent of that axis."""
    aligned: bool = True
    """Whether they are the last axis of a tensor still, in their order."""

    @property
    def part(self) -> tuple[int, int] | None:
        """The first and the end; None if these are all."""
        return None if (self.first, self.end) == (0, self.width) else (self.first, self.end)

    def take(self, part: tuple[int, int, bool] | None, width: int | None) -> Columns:
        """The part that is taken from a tensor whose last axis has the extent `width`.

        `part` is where it begins and ends, and whether it is the last axis of the result; None if that is not known.
        """
        if not self.aligned or self.end - self.first != width or part is None:
            return replace(self, aligned=False)
        first, end, kept = part
        if not 0 <= first < end <= width:
            return replace(self, aligned=False)
        return Columns(self.first + first, self.first + end, self.width, aligned=kept)


def hull(positions: Sequence[int]) -> tuple[int, int, bool] | None:
    """From the first to the last position, and whether these are all between, in their order."""
    if not positions:
        return None
    first, end = min(positions), max(positions) + 1
    return first, end, list(positions) == list(range(first, end))
