"""The sandbox of this machine, and starting programs in it."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from ..util.unfinished import temporary_directory
from . import bubblewrap, macos, windows
from .layout import program_files
from .policy import Access, Limits, Policy, SandboxError, environment
from .start import Stream, start_launched

_log = logging.getLogger(__name__)

_ADVICE = "`modelwheel doctor` says how to get one"
_WITHOUT = "--sandbox preferred runs models without, as safe as this machine can"
_GIVEN_UP = "--sandbox off: a model can read and change your files, use the network and start programs, as you can"

Kind: TypeAlias = Literal["bubblewrap", "landlock", "sandbox-exec", "partial", "job", "none"]


@dataclass(frozen=True)
class Sandbox:
    """A way to start programs.

    Attributes:
        kind: What it is.
        name: The same in words.
        program: Bubblewrap.
    """

    kind: Kind
    name: str
    program: str = ""
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
        if sys.platform == "win32":
            streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            allowed = limits if self.confines else Limits()
            return windows.start_in_job(argv, access, allowed, environment, streams)
        return start_launched(
            self._outer(access, limits),
            argv,
            access,
            limits,
            environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            confined=self.confines,
        )

    def _outer(self, access: Access, limits: Limits) -> list[str]:
        """The program that the launcher runs in."""
        if self.kind == "bubblewrap":
            return bubblewrap.bubblewrap_command(self.program, access)
        if self.kind == "sandbox-exec":
            return macos.command(access, alone=limits.processes == 1)
        return []


UNUSED = Sandbox("none", "none (nothing runs on this machine)")
"""Of a build whose steps run elsewhere."""


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
        _log.warning(_GIVEN_UP)
        return Sandbox("none", "none (switched off)")
    sandbox, reasons = find_sandbox()
    if sandbox is not None:
        return sandbox
    sentence = "no sandbox works on this machine: " + "; ".join(reasons)
    if policy is Policy.REQUIRED:
        raise SandboxError(f"{sentence}. {_ADVICE}; {_WITHOUT}")
    _log.warning("%s, so models run without it. %s", sentence, _ADVICE)
    return _part_of_one(reasons)


def _part_of_one(reasons: Sequence[str]) -> Sandbox:
    """The restrictions that confine a program at least a little."""
    why = "; ".join(reasons)
    if sys.platform == "win32":
        return Sandbox(
            "job", f"a job object alone, which limits memory, time and processes ({why})"
        )
    parts = _restrictions() if sys.platform == "linux" else "resource limits"
    return Sandbox("partial", f"{parts} alone ({why})")


@cache
def find_sandbox() -> tuple[Sandbox | None, tuple[str, ...]]:
    """The best sandbox that works on this machine, and why better ones do not."""
    reasons: list[str] = []
    if sys.platform == "win32":
        reasons.append("Windows confines neither files nor the network")
    for find in _WAYS.get(sys.platform, ()):
        outcome = find()
        if isinstance(outcome, Sandbox):
            return outcome, tuple(reasons)
        reasons.append(outcome)
    return None, tuple(reasons)


def _bubblewrap() -> Sandbox | str:
    program = bubblewrap.find_bubblewrap()
    if program is None:
        return "bubblewrap is not installed"
    sandbox = Sandbox("bubblewrap", f"bubblewrap with {_restrictions()}", program)
    problem = _try(sandbox)
    return sandbox if problem is None else f"bubblewrap does not run here ({problem})"


def _restrictions() -> str:
    """The restrictions of the launcher, beside a sandbox or in its place."""
    from . import landlock, seccomp

    kernel = [
        *(["Landlock"] if landlock.version() else []),
        *(["seccomp"] if seccomp.is_available() else []),
    ]
    return " and ".join([", ".join(kernel), "resource limits"] if kernel else ["resource limits"])


def _landlock() -> Sandbox | str:
    from . import landlock, seccomp

    if landlock.version() < landlock.ENOUGH:
        return f"the kernel has Landlock {landlock.version()}, not {landlock.ENOUGH} or newer"
    if not seccomp.is_available():
        return "the kernel does not allow seccomp filters"
    return Sandbox("landlock", _restrictions())


def _sandbox_exec() -> Sandbox | str:
    sandbox = Sandbox("sandbox-exec", "sandbox-exec with resource limits")
    problem = _try(sandbox)
    return sandbox if problem is None else f"sandbox-exec does not run here ({problem})"


_WAYS: Mapping[str, Sequence[Callable[[], Sandbox | str]]] = {
    "linux": (_bubblewrap, _landlock),
    "darwin": (_sandbox_exec,),
}


def _try(sandbox: Sandbox) -> str | None:
    """Why a sandbox cannot run this Python, found out by doing it."""
    with (
        temporary_directory("sandbox") as directory,
        tempfile.TemporaryFile() as errors,
    ):
        access = Access((), directory)
        argv = [sys.executable, "-I", "-S", "-c", ""]
        try:
            process = sandbox.start(
                argv, access, Limits(processes=1), environment({}), stderr=errors
            )
            code = process.wait(timeout=30)
        except SandboxError as error:
            errors.seek(0)
            return errors.read().decode(errors="replace").strip() or str(error)
        return None if code == 0 else f"exit code {code}"
