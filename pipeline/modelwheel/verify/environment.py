"""Virtual environments with nothing but a wheel and its dependencies."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ..errors import VerifyError, WheelError
from ..util.process import Completed, ProcessError, run
from ..wheelfile.reports import Report, Timing, parse_report, parse_timings

_SAID = 2000
"""Characters of what a wheel printed that an error message repeats."""

_FORCED_LEVEL = "MODELWHEEL_LEVEL"
"""Chooses the CPU level of every model of a process; a measurement must not inherit it."""


@dataclass(frozen=True)
class InstalledWheel:
    """A model's wheel in an environment of its own."""

    python: Path
    """The interpreter of that environment."""
    wheel: Path
    module: str

    def selftest(self, reference: Path | None = None) -> Report:
        """Compares its outputs with TensorFlow's.

        Args:
            reference: All recorded outputs; without them the wheel uses the sample that it contains.

        Raises:
            VerifyError: It crashed or could not be loaded. Errors beyond their tolerance are in
                the report.
        """
        options: list[str | Path] = ["--json"]
        if reference is not None:
            options += ["--reference", reference.absolute()]
        done = self._run("selftest", *options, check=False)
        try:
            return parse_report(done.stdout)
        except ValidationError:
            printed = done.stderr.decode(errors="replace").strip()[-_SAID:]
            failed = f"{self.wheel.name} failed with exit code {done.returncode}"
            raise VerifyError(
                f"{failed}: {printed}" if printed else f"{failed} and no output"
            ) from None

    def bench(self, *options: str) -> tuple[Timing, ...]:
        """Times calls with the wheel's own `bench`.

        Raises:
            VerifyError: It failed.
        """
        try:
            return parse_timings(self._run("bench", "--json", *options).stdout)
        except (ProcessError, ValidationError) as error:
            raise VerifyError(f"{self.wheel.name} cannot be timed: {error}") from None

    def _run(self, *options: str | Path, check: bool = True) -> Completed:
        environment = {k: v for k, v in os.environ.items() if k != _FORCED_LEVEL}
        # -I: neither the working directory nor PYTHON* variables of the caller have an effect.
        return run([self.python, "-I", "-m", self.module, *options], env=environment, check=check)


def install_wheel(
    wheel: Path, module: str, directory: Path, needed: Sequence[Path] = ()
) -> InstalledWheel:
    """Installs a wheel with its dependencies into a new environment.

    Args:
        wheel: The file.
        module: The Python package in it.
        directory: An existing directory for the environment.
        needed: Wheels that it depends on; all other dependencies come from the package index.

    Raises:
        WheelError: The wheel cannot be installed.
    """
    try:
        python = create_environment(directory / "environment")
        install(python, [path.absolute() for path in (wheel, *needed)], directory)
    except ProcessError as error:
        raise WheelError(f"{wheel.name} cannot be installed: {error}") from error
    return InstalledWheel(python, wheel, module)


def create_environment(directory: Path, interpreter: str = sys.executable) -> Path:
    """Creates a virtual environment without pip and returns its interpreter."""
    # A process of its own, since the environment may be for another Python than this one.
    run([interpreter, "-I", "-m", "venv", "--without-pip", directory])
    return directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(python: Path, requirements: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Installs into an environment with the pip of this one."""
    # pip's --python (22.3) installs into an environment that has no pip of its own.
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--python", python, "install", "--no-compile", *requirements], cwd=cwd)
