"""The systems and CPUs that models are compiled, packed and audited for: the rows of `resources/platforms.toml`.

A *platform* is an operating system on an architecture: what an object file is made for. A wheel is for one
of them and, on Linux, for one C library.
"""

from __future__ import annotations

import platform
import sys
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from . import resources
from .errors import EnvironmentProblemError

SystemName: TypeAlias = Literal["linux", "macos", "windows"]
BinaryFormat: TypeAlias = Literal["ELF", "Mach-O", "PE"]
Libc: TypeAlias = Literal["", "glibc", "musl"]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class System(_Row):
    """An operating system."""

    sys_platform: str
    """Python's `sys.platform`."""
    cmake: str
    """CMake's name (`CMAKE_SYSTEM_NAME`)."""
    binary_format: BinaryFormat
    """The format of shared libraries."""
    tag_words: dict[str, Libc]
    """The C library that platform tags with some first word promise."""
    extension_suffix: str
    """How file names of Python extensions end, with the placeholders of `extension_suffix` below."""
    libraries: tuple[str, ...]
    """Regular expressions for the libraries that C needs."""
    extension_libraries: tuple[str, ...]
    """In addition for C++ and Python."""


class Platform(_Row):
    """One operating system on one architecture."""

    name: str
    """What users write (`linux-x86_64`)."""
    architecture: str
    """Linux's name of the architecture (`x86_64`); CPU levels refer to it."""
    triple: str
    """The LLVM target triple of the objects."""
    cpu_features: tuple[str, ...] = ()
    """What every CPU there has beyond the architecture's lowest level."""

    @property
    def system(self) -> str:
        """The operating system: the first word of the name."""
        return self.name.partition("-")[0]


class WheelPlatform(_Row):
    """A platform that wheels are built for, and how."""

    name: str
    """In names of jobs and artifacts (`musllinux-x86_64`)."""
    platform: str
    """The name of the platform whose machine code they hold."""
    cibuildwheel: str
    """How cibuildwheel's build identifiers end (`manylinux_x86_64`)."""
    image: str = ""
    """The container image that they are built in; Linux only."""
    minimum_macos: str = ""
    """The oldest macOS that they run on."""
    runner: str
    """GitHub's label of a machine that can run them."""
    cross_tag: str
    """The platform tag of cross-built wheels."""
    zig: str
    """zig's name of the same, with the oldest C library or macOS."""

    @property
    def objects(self) -> Platform:
        """The platform whose machine code they hold."""
        return PLATFORMS[self.platform]

    @property
    def system(self) -> System:
        """The operating system."""
        return SYSTEMS[self.objects.system]

    @property
    def libc(self) -> Libc:
        """`glibc` or `musl`; empty on other systems than Linux."""
        return self.system.tag_words[self.cibuildwheel.partition("_")[0]]


class _Pythons(_Row):
    tags: tuple[str, ...]


class _Facts(_Row):
    architecture: dict[str, tuple[str, ...]]
    system: dict[SystemName, System]
    platform: tuple[Platform, ...]
    wheel: tuple[WheelPlatform, ...]
    pythons: _Pythons


_FACTS = _Facts.model_validate(resources.read("platforms.toml"))

SYSTEMS: dict[str, System] = {str(name): system for name, system in _FACTS.system.items()}
"""Every known operating system by name."""

PLATFORMS = {known.name: known for known in _FACTS.platform}
"""Every known platform by name."""

WHEEL_PLATFORMS = {known.name: known for known in _FACTS.wheel}
"""Every platform of wheels by name."""

PYTHONS = _FACTS.pythons.tags
"""What wheels with an extension are built for, oldest first (`cp314t`; `t` is free-threaded)."""

SYSTEM_OF_TAG_WORD: dict[str, SystemName] = {
    word: name for name, system in _FACTS.system.items() for word in system.tag_words
}
"""Operating systems by the first word of platform tags (`manylinux`)."""

ARCHITECTURES = _FACTS.architecture
"""Other names of every known architecture, in lower case."""

_ALIASES = {alias: name for name, aliases in ARCHITECTURES.items() for alias in aliases}


def architecture_of(name: str) -> str:
    """Linux's name of an architecture, whatever a system calls it; unknown names stay as they are."""
    # In lower case: Windows says `AMD64`.
    return _ALIASES.get(name.lower(), name)


def machine() -> str:
    """This machine's architecture, in Linux's words."""
    return architecture_of(platform.machine())


def host_system() -> str:
    """This machine's operating system; Python's name of it where it is not a known one."""
    known = {system.sys_platform: name for name, system in SYSTEMS.items()}
    return known.get(sys.platform, sys.platform)


def host_platform() -> Platform:
    """The platform of this machine.

    Raises:
        EnvironmentProblemError: It is not supported.
    """
    here, system = machine(), host_system()
    for found in PLATFORMS.values():
        if (found.system, found.architecture) == (system, here):
            return found
    raise EnvironmentProblemError(
        f"this machine's platform, {system} on {here}, is not supported "
        f"(supported: {', '.join(PLATFORMS)})"
    )


def extension_suffix(
    system: System, *, python: str, architecture: str = "", libc: Libc = "", tag: str = ""
) -> str:
    """How the file name of a Python extension ends.

    Args:
        system: The operating system.
        python: The digits of the ABI tag (`312`, `314t`).
        architecture: In Linux's words.
        libc: The C library of Linux.
        tag: The platform tag of the wheel.
    """
    return system.extension_suffix.format(
        python=python, architecture=architecture, libc="musl" if libc == "musl" else "gnu", tag=tag
    )
