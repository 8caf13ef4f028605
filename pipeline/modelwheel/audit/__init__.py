"""Gates that every wheel of a release must pass; `modelwheel audit`, cibuildwheel's `audit-command`.

Each gate is a module with a function `check` that gives findings about an opened wheel. A wheel of any platform
can be judged on any machine: nothing is installed or run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import AuditError, EnvironmentProblemError, ModelwheelError
from .gates import build_paths, completeness, conventions, instructions, size, symbols, tags
from .gates.finding import Gate, GateFinding
from .opened import open_wheel

__all__ = ["GATES", "Audited", "GateFinding", "audit_wheels", "require_accepted"]

GATES: dict[str, Gate] = {
    "tags": tags.check,
    "symbols": symbols.check,
    "build paths": build_paths.check,
    "instruction sets": instructions.check,
    "size": size.check,
    "conventions": conventions.check,
    "completeness": completeness.check,
}
"""Every gate by its name, in the order in which they judge."""


@dataclass(frozen=True)
class Audited:
    """What all gates say about one wheel."""

    wheel: Path
    findings: dict[str, tuple[GateFinding, ...]]
    """By the name of the gate; only of gates that were asked."""
    error: ModelwheelError | None = None
    """Why it could not be judged to the end."""

    @property
    def accepted(self) -> bool:
        """Whether all gates were asked and none found a violation."""
        found = (finding for findings in self.findings.values() for finding in findings)
        return self.error is None and all(finding.severity == "note" for finding in found)

    def as_json(self) -> dict[str, object]:
        """Everything as JSON holds it."""
        return {
            "wheel": str(self.wheel),
            "accepted": self.accepted,
            "error": None if self.error is None else str(self.error),
            "gates": list(self.findings),
            "findings": [
                {"gate": gate, **asdict(finding)}
                for gate, findings in self.findings.items()
                for finding in findings
            ],
        }


def audit_wheels(wheels: Iterable[Path]) -> list[Audited]:
    """Asks every gate about every wheel; what is wrong with one does not keep it from the others.

    Raises:
        EnvironmentProblemError: A tool that a gate needs is missing.
    """
    return [_audit(wheel) for wheel in wheels]


def _audit(path: Path) -> Audited:
    findings: dict[str, tuple[GateFinding, ...]] = {}
    try:
        wheel = open_wheel(path)
        for name, gate in GATES.items():
            findings[name] = tuple(gate(wheel))
    except EnvironmentProblemError:
        raise
    except ModelwheelError as error:
        return Audited(path, findings, error)
    return Audited(path, findings)


def require_accepted(results: Iterable[Audited]) -> None:
    """Raises AuditError, naming the wheels, if a gate refused any."""
    refused = [result.wheel.name for result in results if not result.accepted]
    if refused:
        raise AuditError(f"not fit for release: {', '.join(refused)}")
