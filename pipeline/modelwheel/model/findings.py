"""Findings of checks in a model or its spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from ..errors import UnsupportedModelError

Severity: TypeAlias = Literal["error", "warning", "note"]

_CODES = {
    "unsupported-op": "MW401",
    "custom-op": "MW402",
    "string-tensor": "MW403",
    "dtype": "MW404",
    "encoding": "MW404",
    "state": "MW405",
    "no-state": "MW405",
    "lookup-table": "MW406",
    "effect": "MW407",
    "loading": "MW407",
    "shape": "MW408",
    "pad": "MW408",
    "not-constant": "MW409",
    "training-mode": "MW410",
    "random": "MW411",
    "no-signature": "MW412",
    "unknown-signature": "MW412",
    "no-outputs": "MW412",
    "unknown-input": "MW413",
    "batch-rules": "MW413",
    "batch-sizes": "MW413",
    "columns": "MW413",
    "range": "MW413",
    "unknown-name": "MW413",
    "shared-name": "MW413",
    "name": "MW413",
    "unknown-fusion": "MW414",
    "size": "MW415",
    "limit": "MW415",
}


@dataclass(frozen=True)
class Finding:
    """One thing that a model's author should know."""

    severity: Severity
    """error: the model cannot be compiled; warning: it can, but behaves differently; note: a fact."""
    kind: str
    """What it is about, for programs (`string-tensor`)."""
    message: str
    """One sentence, without a full stop."""
    fix: str = ""
    """What to do about it, without a full stop."""
    field: tuple[str, ...] = ()
    """The field of the spec that is wrong, if it is one: `("verify", "ranges", "x")`."""
    place: str = ""
    """Where this field is: `model_specs/digits.yaml:12:5`."""

    JSON_FIELDS: ClassVar = ("severity", "code", "kind", "message", "fix", "field", "place")

    @property
    def code(self) -> str:
        """The code that `modelwheel explain` knows; empty unless it is an error."""
        return _CODES.get(self.kind, UnsupportedModelError.code) if self.severity == "error" else ""

    def shown(self) -> str:
        """The finding for people, with its code."""
        return f"{self} [{self.code}]" if self.code else str(self)

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.message}; {self.fix}" if self.fix else f"{place}{self.message}"


def few(layers: Sequence[str], count: int, limit: int = 3) -> str:
    """The first few names, quoted, and how many there are."""
    shown = ", ".join(repr(layer) for layer in layers[:limit])
    return f"{shown}, ... ({count} times)" if len(layers) > limit else shown
