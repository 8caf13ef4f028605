"""The CPU levels (micro-architecture levels) that models are compiled for.

Names of levels are those of the x86-64 psABI supplement (https://gitlab.com/x86-psABIs/x86-64-ABI) and of
GCC's `-march` for Arm.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import EnvironmentProblemError
from .platforms import machine


@dataclass(frozen=True)
class Level:
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


LEVELS = {
    level.name: level
    for level in (
        Level("x86-64", "x86_64", "x86-64"),
        Level("x86-64-v2", "x86_64", "x86-64-v2"),
        Level("x86-64-v3", "x86_64", "x86-64-v3"),
        Level(
            "x86-64-v4",
            "x86_64",
            "x86-64-v4",
            # LLVM prefers 256-bit vectors for this level; 512 is measurably faster here.
            xla_flags=("--xla_cpu_prefer_vector_width=512",),
        ),
        Level("armv8-a", "aarch64", ""),
        # Arithmetic on float16 and int8 alone: other models get the same instructions twice.
        Level(
            "armv8.2-a+fp16+dotprod",
            "aarch64",
            "",
            features="+v8.2a,+fullfp16,+dotprod",
            default=False,
        ),
    )
}
"""Every known level by name, lowest first within an architecture."""


def default_levels(architecture: str) -> tuple[Level, ...]:
    """The levels for which models are compiled where a spec names none, lowest first."""
    return tuple(t for t in LEVELS.values() if t.architecture == architecture and t.default)


def host_levels() -> tuple[Level, ...]:
    """The levels of this machine's architecture, lowest first.

    Raises:
        EnvironmentProblemError: No level is known for this architecture.
    """
    here = machine()
    found = tuple(level for level in LEVELS.values() if level.architecture == here)
    if not found:
        known = ", ".join(sorted({level.architecture for level in LEVELS.values()}))
        raise EnvironmentProblemError(
            f"no CPU level is known for this machine's architecture {here!r} (known: {known})"
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


def cpu_level(cpuinfo: Path = Path("/proc/cpuinfo")) -> Level:
    """The highest level that this machine's CPU runs, as Linux describes it.

    Where there is no such description, and on architectures with one level: the lowest.

    Raises:
        EnvironmentProblemError: No level is known for this architecture.
    """
    found, *higher = host_levels()
    flags = _read_flags(cpuinfo)
    for level in higher:
        if not flags.issuperset(_CPU_FLAGS[level.name].split()):
            break
        found = level
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
