"""The CPU levels that models are compiled for: policy as data.

Names are those of the x86-64 psABI supplement and of LLVM (https://gitlab.com/x86-psABIs/x86-64-ABI).
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from .errors import EnvironmentProblemError


@dataclass(frozen=True)
class Target:
    """One micro-architecture level of one architecture."""

    name: str
    """The level's name, as users write it (`x86-64-v3`)."""
    architecture: str
    """The machine name that `platform.machine()` reports (`x86_64`)."""
    triple: str
    """The LLVM target triple of the objects."""
    cpu: str
    """The LLVM CPU name; empty selects the triple's baseline."""
    xla_flags: tuple[str, ...] = ()
    """Flags that this level needs beyond the common ones."""

    @property
    def identifier(self) -> str:
        """The name as a C identifier (`x86_64_v3`)."""
        return self.name.replace("-", "_").replace(".", "_").replace("+", "_")


_LINUX_X86 = "x86_64-unknown-linux-gnu"
_LINUX_ARM = "aarch64-unknown-linux-gnu"

TARGETS = {
    target.name: target
    for target in (
        Target("x86-64", "x86_64", _LINUX_X86, "x86-64"),
        Target("x86-64-v2", "x86_64", _LINUX_X86, "x86-64-v2"),
        Target("x86-64-v3", "x86_64", _LINUX_X86, "x86-64-v3"),
        Target(
            "x86-64-v4",
            "x86_64",
            _LINUX_X86,
            "x86-64-v4",
            # LLVM prefers 256-bit vectors for this level; 512 is measurably faster here.
            ("--xla_cpu_prefer_vector_width=512",),
        ),
        Target("armv8-a", "aarch64", _LINUX_ARM, ""),
    )
}
"""Every known level by name, lowest first within an architecture."""


def host_targets() -> tuple[Target, ...]:
    """The levels of this machine's architecture, lowest first.

    Raises:
        EnvironmentProblemError: No level is known for this architecture.
    """
    machine = platform.machine()
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
}
"""What each level of the psABI's table adds, in Linux's names (`pni` is SSE3, `abm` has LZCNT)."""


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
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()
