"""The platforms that models are compiled for: an operating system on an architecture."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

from .errors import EnvironmentProblemError


@dataclass(frozen=True)
class Platform:
    """One operating system on one architecture: what an object file is made for."""

    name: str
    """As users write it (`linux-x86_64`)."""
    architecture: str
    """The machine name that Linux reports (`x86_64`), by which levels are found."""
    triple: str
    """The LLVM target triple of the objects."""

    @property
    def system(self) -> str:
        """The operating system: the first word of the name."""
        return self.name.partition("-")[0]


PLATFORMS = {
    known.name: known
    for known in (
        Platform("linux-x86_64", "x86_64", "x86_64-unknown-linux-gnu"),
        Platform("linux-aarch64", "aarch64", "aarch64-unknown-linux-gnu"),
        Platform("macos-arm64", "aarch64", "arm64-apple-darwin"),
        Platform("macos-x86_64", "x86_64", "x86_64-apple-darwin"),
        Platform("windows-amd64", "x86_64", "x86_64-pc-windows-msvc"),
    )
}
"""Every known platform by name. Objects for Linux serve glibc and musl alike: they call libm alone."""


_MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}
"""What Windows and macOS call the architectures."""

_SYSTEMS = {"darwin": "macos", "win32": "windows"}


def machine() -> str:
    """This machine's architecture, as Linux calls it."""
    return _MACHINES.get(platform.machine(), platform.machine())


def host_platform() -> Platform:
    """The platform of this machine.

    Raises:
        EnvironmentProblemError: It is not known.
    """
    here = machine()
    system = _SYSTEMS.get(sys.platform, sys.platform)
    for found in PLATFORMS.values():
        if (found.system, found.architecture) == (system, here):
            return found
    raise EnvironmentProblemError(
        f"this machine's platform, {system} on {here}, is not known (known: {', '.join(PLATFORMS)})"
    )
