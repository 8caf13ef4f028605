"""What checks find in a model or its spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing that a model's author should know."""

    severity: Severity
    """error: the model cannot be compiled; warning: it can, but behaves differently; note: a fact."""
    code: str
    """The kind of finding, for programs (`string-tensor`)."""
    message: str
    """One sentence, without a full stop."""
    fix: str = ""
    """What to do about it, without a full stop."""
    field: tuple[str, ...] = ()
    """The field of the spec that is wrong, if it is one: `("verify", "ranges", "x")`."""
    place: str = ""
    """Where this field is: `model_specs/digits.yaml:12:5`."""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.message}; {self.fix}" if self.fix else f"{place}{self.message}"


def few(layers: Sequence[str], count: int, limit: int = 3) -> str:
    """The first few names, quoted, and how many there are."""
    shown = ", ".join(repr(layer) for layer in layers[:limit])
    return f"{shown}, ... ({count} times)" if len(layers) > limit else shown
