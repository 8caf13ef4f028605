"""Evaluates the rows of a batch a few at a time where they are independent: float64 doubles what every value takes.

A convolution of one long spectrogram has results of 150 MB; sixteen rows at once would need more than a machine has.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ....model.reference_result import Reference
from .missing import NoTruthError

Arrays = Mapping[str, np.ndarray[Any, Any]]
Evaluate = Callable[[list[Arrays]], list[Arrays]]

_BYTES = 128 << 20
"""Of the largest value in float64, where rows can be fewer."""
MANY = 64
"""Rows. More are evaluated so many at a time: they are there to read every row of a large table, each once."""
_LIVE = 4
"""Values of the size of the largest one that an evaluation needs at the same time: a convolution has its padded input, a
product and a sum. XLA does not look at what an allocation returns and crashes, so that this is asked first."""


@dataclass(frozen=True)
class Pieces:
    """How calls become calls of fewer rows."""

    rows: int
    """Of each call."""
    count: int
    """Of all rows."""
    needed: int
    """Bytes of memory for each call."""
    batched: frozenset[str] = frozenset()
    """The inputs that have rows."""
    leading: Mapping[str, int] = field(default_factory=dict)
    """For every output, the extent of axis 0 for each row."""

    @property
    def is_split(self) -> bool:
        """Whether calls are cut at all."""
        return self.rows < self.count

    def first(self, inputs: Arrays) -> Arrays:
        """The first call, which has the shapes of all."""
        return next(self._cut(inputs, self.count))

    def run(self, evaluate: Evaluate, calls: Iterable[Arrays]) -> list[Arrays]:
        """The outputs of calls of all rows, from a function that evaluates calls of few.

        Raises:
            NoTruthError: There is not enough memory, or `evaluate` raises it.
        """
        left = _memory_left()
        if self.needed > left:
            raise NoTruthError(
                f"{'a row' if self.is_split else 'a call'} needs some {self.needed / 1e9:.1f} GB in float64, and "
                f"{max(left, 0) / 1e9:.1f} GB are left; raise `memory_gb` of [sandbox] in modelwheel.toml"
            )
        if not self.is_split:
            return evaluate(list(calls))
        calls = list(calls)
        places = [self._distinct(inputs) for inputs in calls]
        cut = [
            list(self._cut(self._take(inputs, firsts), len(firsts)))
            for inputs, (firsts, _) in zip(calls, places, strict=True)
        ]
        results = iter(evaluate([piece for pieces in cut for piece in pieces]))
        return [
            self._join([next(results) for _ in pieces], of)
            for pieces, (_, of) in zip(cut, places, strict=True)
        ]

    def as_first(self, spread: Arrays) -> Arrays:
        """How far rounding moves each element of all rows: in the first call as it is given, in the others as far as any of that."""
        every = {}
        for name, moves in spread.items():
            rows = self.leading[name]
            most = moves.reshape(-1, rows, *moves.shape[1:]).max(axis=0)
            others = [most] * (self.count - self.rows)
            every[name] = np.concatenate([moves, *others])
        return every

    def _distinct(self, inputs: Arrays) -> tuple[list[int], list[int]]:
        """The first of each rows that are the same, and for every row which of these it is: each is evaluated once."""
        known: dict[bytes, int] = {}
        firsts, of = list[int](), list[int]()
        for row in range(self.count):
            content = sha256()
            for name in sorted(self.batched):
                content.update(np.asarray(inputs[name][row]).tobytes())
            number = known.setdefault(content.digest(), len(known))
            if number == len(firsts):
                firsts.append(row)
            of.append(number)
        return firsts, of

    def _take(self, inputs: Arrays, rows: list[int]) -> Arrays:
        if len(rows) == self.count:
            return inputs
        return {name: a[rows] if name in self.batched else a for name, a in inputs.items()}

    def _cut(self, inputs: Arrays, count: int) -> Iterator[Arrays]:
        """Rows of the last call that are missing are its last row again."""
        for first in range(0, count, self.rows):
            yield {
                name: _part(array, first, self.rows) if name in self.batched else array
                for name, array in inputs.items()
            }

    def _join(self, outputs: Sequence[Arrays], of: list[int]) -> Arrays:
        joined = {}
        for name in outputs[0]:
            values = np.concatenate([output[name] for output in outputs])
            rows = self.leading[name]
            places = [rows * number + place for number in of for place in range(rows)]
            joined[name] = values[places]
        return joined


def find_pieces(elements: int, summary: Reference, rows: int) -> Pieces:
    """How calls of a graph for some rows are evaluated: at once if it is small, or rows depend on each other.

    Args:
        elements: Of the largest value.
        summary: Says whether rows are independent.
        rows: The number of rows that the graph is for.
    """
    largest = 8 * elements
    is_small = largest <= _BYTES and rows <= MANY
    if is_small or not summary.independent or summary.calls is not None:
        return Pieces(rows, rows, _LIVE * largest)
    few = max(1, min(MANY, rows * _BYTES // largest))
    needed = _LIVE * largest * few // rows
    return Pieces(few, rows, needed, frozenset(summary.batched_inputs), summary.leading_per_row)


def _memory_left() -> float:
    """Bytes that this process may still allocate."""
    if sys.platform != "linux":
        return math.inf
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        # Landlock allows the inode that this directory had, and the kernel makes another when its caches are full.
        return math.inf
    used = re.search(r"^VmData:\s*(\d+) kB", status, re.MULTILINE)
    if limit == resource.RLIM_INFINITY or used is None:
        return math.inf
    return limit - 1024 * int(used[1])


def _part(array: np.ndarray[Any, Any], first: int, rows: int) -> np.ndarray[Any, Any]:
    part = array[first : first + rows]
    return (
        part if len(part) == rows else np.concatenate([part, part[-1:].repeat(rows - len(part), 0)])
    )
