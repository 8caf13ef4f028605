"""Python for 64-bit Arm on other machines, as `modelwheel verify --emulate` makes it, as a program.

It is a script that starts qemu. Programs that the emulated Python starts by the path of its interpreter come back to
that script, so that tests with processes of their own run, too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from modelwheel.errors import EnvironmentProblemError
from modelwheel.verify.emulation import make_arm_python
from tests.support.commands import Done, run

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

_SCRIPT = """\
#!/bin/sh
exec '{qemu}' -L '{root}' -0 "$0" '{program}' "$@"
"""


class UnavailableError(Exception):
    """There is no such Python here, and why."""


@dataclass(frozen=True)
class ArmPython:
    """An interpreter in a directory of its own, with packages."""

    directory: Path

    @property
    def executable(self) -> Path:
        """What starts it on this machine."""
        return self.directory / "python"

    def __call__(self, *arguments: str | Path, cpu: str = "max") -> Done:
        """Runs it, on one of the CPUs that qemu knows; it sees no other programs."""
        return run(
            self.executable,
            *arguments,
            PATH=str(self.directory / "no-programs"),
            PYTHONHOME=str(self.directory / "root" / "usr"),
            PYTHONPATH=str(self.directory / "packages"),
            QEMU_CPU=cpu,
        )


def make_python(directory: Path, *requirements: str | Path) -> ArmPython:
    """Puts together an interpreter of this version with some packages.

    Raises:
        UnavailableError: qemu or apt is missing, or Debian has no such Python.
    """
    try:
        emulated = make_arm_python(directory, requirements)
    except EnvironmentProblemError as error:
        raise UnavailableError(str(error)) from None
    python = ArmPython(directory)
    qemu, _, root, program = emulated.command
    python.executable.write_text(_SCRIPT.format(qemu=qemu, root=root, program=program))
    python.executable.chmod(0o755)
    return python
