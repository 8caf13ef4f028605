"""Virtual environments with nothing but a wheel and its dependencies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from ..errors import VerifyError, WheelError
from ..sandbox.choose import Sandbox
from ..sandbox.policy import Access, environment
from ..sandbox.run import run_sandboxed
from ..util.processes.process import Completed, ProcessError, run, signal_name
from ..util.python import module_command
from ..util.text import safe_lines
from ..util.unfinished import temporary_directory
from ..wheelfile.reports import Report, Timing, parse_report, parse_timings
from .emulation import Emulated

_SAID = 2000
"""Characters of what a wheel printed that an error message repeats."""

_MEMORY_AT_LEAST = 8 << 30
_MEMORY_PER_WHEEL_BYTE = 16
"""The memory that a wheel may use by default: its weights, its largest batch, the reference."""
_PRINTED_BYTES = 64 << 20
"""What it may print, and the largest file that it may write."""


@dataclass(frozen=True)
class InstalledWheel:
    """A model's wheel in an environment of its own."""

    python: Path
    """The interpreter of that environment."""
    wheel: Path
    module: str
    sandbox: Sandbox
    """Where it runs: it sees its environment and what it is compared with, and writes nothing."""
    emulated: Emulated | None = None
    """What starts Python instead."""

    def selftest(self, reference: Path | None = None, levels: Iterable[str] = ()) -> Report:
        """Compares its outputs with TensorFlow's.

        Args:
            reference: All recorded outputs; without them the wheel uses the sample that it contains.
            levels: CPU levels; by default all.

        Raises:
            VerifyError: It crashed or could not be loaded. Errors beyond their tolerance are in
                the report.
        """
        options: list[str | Path] = ["--json"]
        if reference is not None:
            options += ["--reference", reference.absolute()]
        options += [option for level in levels for option in ("--level", level)]
        done = self._run("selftest", *options, read=() if reference is None else (reference,))
        try:
            return parse_report(done.stdout)
        except ValidationError:
            raise VerifyError(f"{self.wheel.name} {_ending(done)}") from None

    def bench(self, *options: str) -> tuple[Timing, ...]:
        """Times calls with the wheel's own `bench`.

        Raises:
            VerifyError: It failed.
        """
        try:
            done = self._run("bench", "--json", *options)
            if done.returncode != 0:
                raise VerifyError(f"{self.wheel.name} cannot be timed: {_ending(done)}")
            return parse_timings(done.stdout)
        except ValidationError as error:
            raise VerifyError(f"{self.wheel.name} cannot be timed: {error}") from None

    def _run(self, *options: str | Path, read: tuple[Path, ...] = ()) -> Completed:
        # -I: neither the working directory nor variables of the environment add modules.
        start = self.emulated or Emulated((self.python, "-I"), {})
        argv = [*start.command, "-m", self.module, *options]
        size = self.wheel.stat().st_size
        limits = replace(
            self.sandbox.limits,
            memory_bytes=self.sandbox.limits.memory_bytes
            or _MEMORY_AT_LEAST + _MEMORY_PER_WHEEL_BYTE * size,
            processes=1,
            file_bytes=_PRINTED_BYTES,
        )
        with temporary_directory("run") as scratch:
            access = Access((self.python.parents[1], *start.read, *read), scratch)
            variables = environment(start.environment)
            try:
                return run_sandboxed(self.sandbox, argv, access, limits, variables)
            except ProcessError as error:
                raise VerifyError(f"{self.wheel.name}: {error}") from None


def _ending(done: Completed) -> str:
    """How a wheel's process ended, and the end of what it printed."""
    printed = safe_lines(done.stderr.decode(errors="replace").strip()[-_SAID:])
    code = done.returncode
    ended = f"was killed by {signal_name(-code)}" if code < 0 else f"failed with exit code {code}"
    return f"{ended}: {printed}" if printed else f"{ended} and no output"


def install_wheel(
    wheel: Path,
    module: str,
    directory: Path,
    sandbox: Sandbox,
    needed: Sequence[Path] = (),
    python: Path | None = None,
) -> InstalledWheel:
    """Installs a wheel with its dependencies into a new environment.

    Args:
        wheel: The file.
        module: The Python package in it.
        directory: An existing directory for the environment.
        sandbox: Where the wheel is to run. Installing it runs nothing of it.
        needed: Wheels that it depends on; all other dependencies come from the package index.
        python: The interpreter of an environment that has nothing but such dependencies; by default one is created.

    Raises:
        WheelError: The wheel cannot be installed.
    """
    try:
        python = python or create_environment(directory / "environment")
        install(python, [path.absolute() for path in (wheel, *needed)], directory)
    except ProcessError as error:
        raise WheelError(f"{wheel.name} cannot be installed: {error}", code="MW602") from error
    return InstalledWheel(python, wheel, module, sandbox)


def create_environment(directory: Path, interpreter: str = sys.executable) -> Path:
    """Creates a virtual environment without pip and returns its interpreter."""
    # A process of its own, since the environment may be for another Python than this one.
    run([interpreter, "-I", "-m", "venv", "--without-pip", directory])
    return directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def compile_modules(python: Path, unless: str) -> None:
    """Compiles the Python files of an environment, as pip does by default, except those whose paths match `unless`."""
    run([python, "-I", "-m", "compileall", "-q", "-x", unless, python.parents[1]])


def install(python: Path, requirements: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Installs into an environment with the pip of this one."""
    # pip's --python (22.3) installs into an environment that has no pip of its own.
    pip = [*module_command("pip"), "--quiet", "--disable-pip-version-check"]
    # Building a source distribution would run its code, outside of any sandbox.
    options = ["install", "--no-compile", "--only-binary", ":all:"]
    run([*pip, "--python", python, *options, *requirements], cwd=cwd)
