"""The findings of gates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from ..opened import OpenedWheel

Severity: TypeAlias = Literal["violation", "note"]


@dataclass(frozen=True)
class GateFinding:
    """Something that is wrong with a wheel, or that could not be checked (a note)."""

    JSON_FIELDS: ClassVar = ("gate", "file", "text", "severity")

    file: str
    """A file in the wheel, or the wheel itself."""
    text: str
    """What is wrong, and how to fix it; continues the name of the file."""
    severity: Severity = "violation"
    gate: str = ""
    """The name of the gate, which `modelwheel.audit` adds."""

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


Gate: TypeAlias = "Callable[[OpenedWheel], Iterator[GateFinding]]"
"""Checks one aspect of a wheel, and yields what is wrong."""
