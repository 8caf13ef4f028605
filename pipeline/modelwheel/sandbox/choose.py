"""The sandbox of this machine, and starting programs in it."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from . import bubblewrap
from .layout import program_files
from .policy import Access, Limits, Policy, SandboxError, environment
from .start import Stream, start_launched

_log = logging.getLogger(__name__)

Kind: TypeAlias = Literal["bubblewrap", "landlock", "none"]


@dataclass(frozen=True)
class Sandbox:
    """A way to start programs.

    Attributes:
        kind: What it is.
        name: The same in words.
        program: The program that it needs.
    """

    kind: Kind
    name: str
    program: str | None = None
    limits: Limits = field(default_factory=Limits)
    """What the repository allows each program; where it says nothing, who starts one decides."""

    @property
    def confines(self) -> bool:
        """Whether it restricts anything; without, a forked child is not to call `confine` either."""
        return self.kind != "none"

    def start(
        self,
        argv: Sequence[str | Path],
        access: Access,
        limits: Limits,
        environment: Mapping[str, str],
        *,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
    ) -> subprocess.Popen[bytes]:
        """Starts a program; returns when it runs, within its limits and with its files alone.

        It leads a process group of its own and is killed when this process ends. It inherits no
        descriptors but the three streams. The limit of the wall clock is for the caller to enforce.

        Args:
            argv: The program, with an absolute path, and its arguments.
            access: Its files in addition to those of the system and of Python.
            limits: What it may use.
            environment: Its variables, see `policy.environment`; HOME and TMPDIR are added.
            stdin: As `subprocess.Popen` takes it.
            stdout: The same.
            stderr: The same.

        Raises:
            SandboxError: It cannot be started.
        """
        # The program itself, under every name that leads to it.
        access = replace(access, read=(*access.read, *program_files(Path(argv[0]))))
        outer: list[str] = []
        if self.kind == "bubblewrap" and self.program is not None:
            outer = bubblewrap.bubblewrap_command(self.program, access)
        return start_launched(
            outer,
            argv,
            access,
            limits,
            environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            confined=self.confines,
        )


def choose_sandbox(policy: Policy, limits: Limits | None = None) -> Sandbox:
    """The best sandbox that works here.

    Args:
        policy: Whether there must be one.
        limits: What the repository allows each program.

    Raises:
        SandboxError: One is required and none works; the message says how to get one.
    """
    return replace(_choose(policy), limits=limits or Limits())


def _choose(policy: Policy) -> Sandbox:
    if policy is Policy.OFF:
        return Sandbox("none", "none (switched off)")
    found, reasons = _find()
    if found is not None:
        return found
    said = "no sandbox works on this machine: " + "; ".join(reasons)
    if policy is Policy.REQUIRED:
        raise SandboxError(said)
    _log.warning("%s; models run without one", said)
    return Sandbox("none", f"none ({'; '.join(reasons)})")


@cache
def _find() -> tuple[Sandbox | None, tuple[str, ...]]:
    """The first that works, and why those before it do not."""
    reasons: list[str] = []
    for find in (_bubblewrap, _landlock):
        found = find()
        if isinstance(found, Sandbox):
            return found, tuple(reasons)
        reasons.append(found)
    return None, tuple(reasons)


def _bubblewrap() -> Sandbox | str:
    program = bubblewrap.find_bubblewrap() if sys.platform == "linux" else None
    if program is None:
        return "bubblewrap is not installed"
    sandbox = Sandbox(
        "bubblewrap", "bubblewrap with Landlock, seccomp and resource limits", program
    )
    problem = _try(sandbox)
    return sandbox if problem is None else f"bubblewrap does not run here ({problem})"


def _landlock() -> Sandbox | str:
    if sys.platform != "linux":
        return "this system has no Landlock"
    from . import landlock, seccomp

    if landlock.version() < landlock.ENOUGH:
        return f"the kernel has Landlock {landlock.version()}, not {landlock.ENOUGH} or newer"
    if not seccomp.is_available():
        return "the kernel does not allow seccomp filters"
    return Sandbox("landlock", "Landlock with seccomp and resource limits")


def _try(sandbox: Sandbox) -> str | None:
    """Why a sandbox cannot run this Python, found out by doing it."""
    with (
        tempfile.TemporaryDirectory(prefix="modelwheel-") as name,
        tempfile.TemporaryFile() as said,
    ):
        access = Access((), Path(name))
        argv = [sys.executable, "-I", "-S", "-c", ""]
        try:
            process = sandbox.start(argv, access, Limits(processes=1), environment({}), stderr=said)
            code = process.wait(timeout=30)
        except SandboxError as error:
            said.seek(0)
            return said.read().decode(errors="replace").strip() or str(error)
        return None if code == 0 else f"exit code {code}"
