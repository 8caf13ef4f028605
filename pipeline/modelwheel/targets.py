"""The platforms and CPU levels that models are compiled for: policy as data.

Names of levels are those of the x86-64 psABI supplement (https://gitlab.com/x86-psABIs/x86-64-ABI) and of
GCC's `-march` for Arm.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Target:
    """One micro-architecture level of one architecture."""

    name: str
    """The level's name, as users write it (`x86-64-v3`)."""
    architecture: str
    """The architecture that has this level (`x86_64`)."""
    cpu: str
    """The LLVM CPU name; empty selects the triple's baseline."""
    features: str = ""
    """LLVM features beyond those of the CPU (`+fullfp16`)."""
    xla_flags: tuple[str, ...] = ()
    """Flags that this level needs beyond the common ones."""
    default: bool = True
    """Whether specs that name no levels get this one."""

    @property
    def identifier(self) -> str:
        """The name as a C identifier (`x86_64_v3`)."""
        return self.name.replace("-", "_").replace(".", "_").replace("+", "_")


TARGETS = {
    target.name: target
    for target in (
        Target("x86-64", "x86_64", "x86-64"),
        Target("x86-64-v2", "x86_64", "x86-64-v2"),
        Target("x86-64-v3", "x86_64", "x86-64-v3"),
        Target(
            "x86-64-v4",
            "x86_64",
            "x86-64-v4",
            # LLVM prefers 256-bit vectors for this level; 512 is measurably faster here.
            xla_flags=("--xla_cpu_prefer_vector_width=512",),
        ),
        Target("armv8-a", "aarch64", ""),
        # Arithmetic on float16 and int8 alone: other models get the same instructions twice.
        Target(
            "armv8.2-a+fp16+dotprod",
            "aarch64",
            "",
            features="+v8.2a,+fullfp16,+dotprod",
            default=False,
        ),
    )
}
"""Every known level by name, lowest first within an architecture."""

_MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}
"""What Windows and macOS call the architectures."""

_SYSTEMS = {"darwin": "macos", "win32": "windows"}


def _machine() -> str:
    """This machine's architecture, as Linux calls it."""
    return _MACHINES.get(platform.machine(), platform.machine())


def host_platform() -> Platform:
    """The platform of this machine.

    Raises:
        EnvironmentProblemError: It is not known.
    """
    machine = _machine()
    system = _SYSTEMS.get(sys.platform, sys.platform)
    for found in PLATFORMS.values():
        if (found.system, found.architecture) == (system, machine):
            return found
    raise EnvironmentProblemError(
        f"this machine's platform, {system} on {machine}, is not known (known: {', '.join(PLATFORMS)})"
    )


def default_targets(architecture: str) -> tuple[Target, ...]:
    """The levels for which models are compiled where a spec names none, lowest first."""
    return tuple(t for t in TARGETS.values() if t.architecture == architecture and t.default)


def host_targets() -> tuple[Target, ...]:
    """The levels of this machine's architecture, lowest first.

    Raises:
        EnvironmentProblemError: No level is known for this architecture.
    """
    machine = _machine()
    found = tuple(target for target in TARGETS.values() if target.architecture == machine)
    if not found:
        known = ", ".join(sorted({target.architecture for target in TARGETS.values()}))
        raise EnvironmentProblemError(
            f"no CPU level is known for this machine's architecture {machine!r} (known: {known})"
        )
    return found


_CPU_FLAGS = {
    "x86-64": "cmov cx8 fpu fxsr mmx syscall sse sse2",
    "x86-64-v2": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "armv8.2-a+fp16+dotprod": "asimdhp asimddp",
}
"""What each level adds, in Linux's names (`pni` is SSE3, `abm` has LZCNT); x86-64's as in the psABI's table."""


def cpu_level(cpuinfo: Path = Path("/proc/cpuinfo")) -> Target:
    """The highest level that this machine's CPU runs, as Linux describes it.

    Where there is no such description, and on architectures with one level: the lowest.

    Raises:
        EnvironmentProblemError: No level is known for this architecture.
    """
    found, *higher = host_targets()
    flags = _read_flags(cpuinfo)
    for target in higher:
        if not flags.issuperset(_CPU_FLAGS[target.name].split()):
            break
        found = target
    return found


def _read_flags(cpuinfo: Path) -> frozenset[str]:
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
