"""The scratch memory that the kernels of a variant take: where it is, and how much it is.

Kernels run one after the other, so they share it. How much each needs is a constant expression that only the C++ compiler
can evaluate: it depends on the vectors of the level.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .memory import ScratchPlace


@dataclass
class Scratch:
    """Gives scratch memory to the steps of one variant, and collects what they need."""

    place: ScratchPlace = field(default_factory=ScratchPlace)
    """Where it is for the steps that are written next."""
    ends: list[str] = field(default_factory=list)
    """C++ constant expressions for where, in the arena, that of each kernel ends."""
    parts: list[str] = field(default_factory=list)
    """C++ constant expressions for the bytes of each part of the steps that threads may share."""
    _branch: list[str] | None = None
    """C++ constant expressions for the bytes of each step of the branches that are written."""

    def take(self, needed: str) -> str:
        """A C++ expression for the address of so many bytes, which are a C++ constant expression."""
        if self._branch is not None:
            self._branch.append(needed)
            return "scratch"
        offset, gap = self.place.offset, self.place.gap
        if gap is None:
            self.ends.append(f"{offset} + {needed}")
            return f"arena + {offset}"
        self.ends.append(f"{offset} + beyond({len(gap)}, {needed})")
        return f"gap_or({len(gap)}, {needed}, arena + {gap.start}, arena + {offset})"

    @contextmanager
    def of_branches(self) -> Iterator[list[str]]:
        """Steps have the memory that their branch is given; the list has what each needs, which is also that of a part."""
        sizes: list[str] = []
        self._branch = sizes
        yield sizes
        self._branch = None
        self.parts += sizes
