"""What the pipeline asks of worker processes, as values: the only thing that both sides share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

JobKind: TypeAlias = Literal["inspect", "freeze", "compile", "reference"]


@dataclass(frozen=True)
class Flags:
    """Compiler flags of a worker: a process reads them once, so each set needs a process."""

    xla: tuple[str, ...] = ()
    tf_xla: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """One piece of work: from some files to files in one directory, and nothing else.

    A job may be run again at any time; half-written outputs of a failed one are the caller's to drop.
    """

    kind: JobKind
    params: Mapping[str, Any]
    """What the kind needs to know, as JSON holds it."""
    inputs: Mapping[str, Path]
    """Files or directories that the job reads, by role."""
    out: Path
    """An existing, empty directory that receives the outputs."""
    flags: Flags = field(default_factory=Flags)

    def message(self, identity: int) -> dict[str, Any]:
        """The job as the worker's protocol has it."""
        return {
            "id": identity,
            "kind": self.kind,
            "params": dict(self.params),
            "inputs": {role: str(path.absolute()) for role, path in self.inputs.items()},
            "out": str(self.out.absolute()),
        }


@dataclass(frozen=True)
class JobResult:
    """A job that was done."""

    seconds: float
    peak_bytes: int
    """Largest resident size of the worker up to the end of the job."""
