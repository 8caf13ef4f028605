"""The CPU levels (micro-architecture levels) that models are compiled for: the rows of `resources/levels.toml`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from . import resources
from .errors import EnvironmentProblemError
from .platforms import machine


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Feature(_Row):
    """A CPU feature that a level adds to the level below."""

    name: str
    """In the audit's disassemblers (`SSE4_1`)."""
    linux: tuple[str, ...]
    """Flags of `/proc/cpuinfo`, all of which must be there."""
    gcc: str = ""
    """The option that enables it in compilers without names for levels."""


class Level(_Row):
    """One micro-architecture level of one architecture."""

    name: str
    """What users write (`x86-64-v3`)."""
    architecture: str
    """The architecture that has this level (`x86_64`)."""
    llvm_cpu: str = ""
    """LLVM's name of the CPU; empty selects the baseline of the target triple."""
    llvm_features: str = ""
    """LLVM's features beyond those of the CPU (`+fullfp16`)."""
    xla_flags: tuple[str, ...] = ()
    """Flags that this level needs in addition to the common ones."""
    default: bool = True
    """Whether specs that name no levels get this one."""
    march: str
    """The CPU as GCC and clang call it."""
    zig_march: str
    """As zig calls it."""
    tuning: tuple[str, ...] = ()
    """Further options of every C++ compiler."""
    vector_bytes: int
    """The widest vector that the kernels use."""
    vector_registers: int
    features: tuple[Feature, ...] = ()
    """What the level adds to the one below."""
    asked: tuple[Feature, ...] = ()
    """What some of its CPUs have beyond that, which code uses only after it has asked the CPU."""

    @property
    def identifier(self) -> str:
        """The name as a C identifier (`x86_64_v3`)."""
        return self.name.replace("-", "_").replace(".", "_").replace("+", "_")


def _read_levels() -> dict[str, Level]:
    rows = TypeAdapter(tuple[Level, ...]).validate_python(resources.read("levels.toml")["level"])
    return {level.name: level for level in rows}


LEVELS = _read_levels()
"""Every known level by name, lowest first within an architecture."""


def levels_of(architecture: str) -> tuple[Level, ...]:
    """All levels of an architecture, lowest first."""
    return tuple(level for level in LEVELS.values() if level.architecture == architecture)


def default_levels(architecture: str) -> tuple[Level, ...]:
    """The levels for which models are compiled where a spec names none, lowest first."""
    return tuple(level for level in levels_of(architecture) if level.default)


def features_up_to(level: Level) -> tuple[Feature, ...]:
    """The features of a level beyond the lowest one of its architecture: its own features and those of the levels
    below."""
    levels = levels_of(level.architecture)
    below = levels[: levels.index(level) + 1]
    return tuple(feature for one in below for feature in one.features)


def host_levels() -> tuple[Level, ...]:
    """The levels of this machine's architecture, lowest first.

    Raises:
        EnvironmentProblemError: This architecture has no known level.
    """
    here = machine()
    levels = levels_of(here)
    if not levels:
        known = ", ".join(sorted({level.architecture for level in LEVELS.values()}))
        raise EnvironmentProblemError(
            f"this machine's architecture, {here}, is not supported (supported: {known})"
        )
    return levels


def cpu_level(cpuinfo: Path = Path("/proc/cpuinfo")) -> Level:
    """The highest level that this machine's CPU supports, according to Linux.

    Other systems have no such file: the result is the lowest level there.

    Raises:
        EnvironmentProblemError: This architecture has no known level.
    """
    highest, *higher = host_levels()
    flags = _read_flags(cpuinfo)
    for level in higher:
        # A level includes all below it. A hypervisor may mask a flag of a lower one.
        if not all(flags.issuperset(feature.linux) for feature in level.features):
            break
        highest = level
    return highest


def best_level(names: Collection[str]) -> str | None:
    """The highest of some levels that this machine's CPU supports; None if it supports none of them."""
    try:
        supported, highest = host_levels(), cpu_level()
    except EnvironmentProblemError:
        return None
    below = [level.name for level in supported[: supported.index(highest) + 1]]
    return next((name for name in reversed(below) if name in names), None)


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The maker's name of this machine's CPU."""
    for line in _read_lines(cpuinfo):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _read_lines(cpuinfo: Path) -> list[str]:
    try:
        return cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _read_flags(cpuinfo: Path) -> frozenset[str]:
    for line in _read_lines(cpuinfo):
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):  # of x86 and of Arm
            return frozenset(value.split())
    return frozenset()


# --- the compiler options of each level, for CMake ----------------------------------------------------

_OLD_GCC = 'CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11'
_ZIG = r'CMAKE_CXX_COMPILER MATCHES "/zig(\\.exe)?$"'


def cmake_flags() -> str:
    """CMake code that sets `LEVEL_NAMES`, and `LEVEL_FLAGS_<identifier>` to the compiler options of each level."""
    lines = [
        f"set(LEVEL_NAMES {' '.join(LEVELS)})",
        *_set_flags("", {level: (f"-march={level.march}",) for level in LEVELS.values()}),
        "",
        "# GCC before 11, as in images with an old glibc, has the instructions but no names for the psABI's levels.",
        f"if({_OLD_GCC})",
        *_set_flags("  ", dict(_old_gcc_options())),
        "endif()",
        "",
        "# zig is clang, but has its own names for CPUs and their features.",
        f"if({_ZIG})",
        *_set_flags("  ", {level: (f"-march={level.zig_march}",) for level in LEVELS.values()}),
        "endif()",
    ]
    return "\n".join(lines)


def _old_gcc_options() -> Iterator[tuple[Level, tuple[str, ...]]]:
    """The lowest level of the architecture, then each feature by its own option."""
    for level in LEVELS.values():
        options = tuple(feature.gcc for feature in features_up_to(level) if feature.gcc)
        if options:
            yield level, (f"-march={levels_of(level.architecture)[0].march}", *options)


def _set_flags(indent: str, options: dict[Level, tuple[str, ...]]) -> Iterator[str]:
    for level, flags in options.items():
        yield f"{indent}set(LEVEL_FLAGS_{level.identifier} {' '.join((*flags, *level.tuning))})"


if __name__ == "__main__":  # for tests/cpp/CMakeLists.txt, which has no template engine
    sys.stdout.write(f"{cmake_flags()}\n")
