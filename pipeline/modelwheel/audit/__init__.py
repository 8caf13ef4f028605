"""The release rules of `modelwheel audit`, which cibuildwheel runs as its `audit-command` on every wheel.

Each rule is a gate: a module with a function `check` that yields findings about an opened wheel. Nothing is
installed or run, so wheels of every platform can be checked on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from ..errors import AuditError, EnvironmentProblemError, ModelwheelError
from ..util.watching import NOBODY, Watcher, each
from ..wheelfile.unverified import require_verified
from .gates import (
    build_paths,
    completeness,
    conventions,
    instructions,
    members,
    size,
    symbols,
    tags,
)
from .gates.finding import Gate, GateFinding
from .opened import open_wheel

__all__ = ["GATES", "Audited", "GateFinding", "audit_wheels", "require_accepted"]

GATES: dict[str, Gate] = {
    "members": members.check,
    "tags": tags.check,
    "symbols": symbols.check,
    "build paths": build_paths.check,
    "instruction sets": instructions.check,
    "size": size.check,
    "conventions": conventions.check,
    "completeness": completeness.check,
}
"""Every gate by its name, in the order in which they run."""


@dataclass(frozen=True)
class Audited:
    """The findings of all gates about one wheel."""

    JSON_FIELDS: ClassVar = ("wheel", "accepted", "error", "gates", "findings")

    wheel: Path
    gates: tuple[str, ...]
    """The gates that ran to their end."""
    findings: tuple[GateFinding, ...]
    error: ModelwheelError | None = None
    """Why the wheel could not be checked further."""

    @property
    def accepted(self) -> bool:
        """Whether all gates ran and none found a violation."""
        return self.error is None and not self.violations

    @property
    def violations(self) -> tuple[GateFinding, ...]:
        """The findings that keep the wheel from being released."""
        return tuple(finding for finding in self.findings if finding.severity == "violation")


def audit_wheels(wheels: Iterable[Path], watcher: Watcher = NOBODY) -> list[Audited]:
    """Runs every gate on every wheel; a wheel that cannot be read does not stop the others from being checked.

    Args:
        wheels: The files.
        watcher: Receives the name of each.

    Raises:
        EnvironmentProblemError: A tool that a gate requires is missing.
    """
    return [_audit(wheel) for wheel in each(wheels, lambda wheel: wheel.name, watcher)]


def _audit(path: Path) -> Audited:
    gates: list[str] = []
    findings: list[GateFinding] = []
    problem = None
    try:
        wheel = open_wheel(path)
        require_verified(wheel.wheel)
        for name, gate in GATES.items():
            findings += [replace(finding, gate=name) for finding in gate(wheel)]
            gates.append(name)
    # A missing tool says nothing about the wheel: it must not look like a rejection.
    except EnvironmentProblemError:
        raise
    except ModelwheelError as error:
        problem = error
    return Audited(path, tuple(gates), tuple(findings), problem)


def require_accepted(results: Iterable[Audited]) -> None:
    """Raises AuditError, naming the wheels, if any was rejected."""
    rejected = [result.wheel.name for result in results if not result.accepted]
    if rejected:
        raise AuditError(f"failed the audit: {', '.join(rejected)}")
