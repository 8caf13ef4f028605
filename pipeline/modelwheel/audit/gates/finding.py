"""What a gate says about a wheel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from ..opened import OpenedWheel

Severity: TypeAlias = Literal["violation", "note"]


@dataclass(frozen=True)
class GateFinding:
    """One thing that is wrong, or that could not be judged."""

    file: str
    """A file of the wheel, or the wheel itself."""
    text: str
    """What is wrong, and how to mend it."""
    severity: Severity = "violation"

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


Gate: TypeAlias = "Callable[[OpenedWheel], Iterator[GateFinding]]"
"""Judges one aspect of a wheel; gives nothing if all is well."""
