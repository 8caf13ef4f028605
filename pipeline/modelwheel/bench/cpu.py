"""The CPU that other runtimes see: one of the wheel's level, where the system can hide what this machine has beyond it."""

from __future__ import annotations

import ctypes
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from ..levels import Level, cpu_level, levels_of
from ..util.processes.process import ProcessError
from .native import compile_cpp
from .patched import is_possible, patched_package

SOURCE = Path(__file__).with_name("cpu.cpp")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LowerCpu:
    """How a process sees a CPU of a lower level.

    Attributes:
        library: What it loads for that.
        copies: A directory for patched copies of packages; None where CPUID can fault, so that none are needed.
    """

    library: Path
    copies: Path | None

    def files(self, package: str) -> tuple[Path, ...]:
        """The files of a side: the library, and the patched copy of its runtime; nothing if there is no such copy."""
        if self.copies is None:
            return (self.library,)
        patched = patched_package(package, self.copies)
        return () if patched is None else (self.library, patched)


def lower_cpu(level: Level, directory: Path, copies: Path) -> LowerCpu | None:
    """How other runtimes see a CPU of a level.

    Args:
        level: The level of the wheel.
        directory: Where the library is written.
        copies: A directory for patched copies of packages, which any level can use.

    Returns:
        None if this CPU has no higher level, or the system cannot hide it.
    """
    library = build_lower_cpu(level, directory)
    if library is None:
        return None
    if ctypes.CDLL(str(library)).can_fault():
        return LowerCpu(library, None)
    if not is_possible():
        _log.warning(
            "other runtimes use the whole CPU: this system cannot let CPUID fault, and iced-x86, which would find it "
            "in them, is not installed: pip install 'modelwheel[bench]'"
        )
        return None
    return LowerCpu(library, copies)


def build_lower_cpu(level: Level, directory: Path) -> Path | None:
    """Compiles the library with which a process sees a CPU of a level; whether the system allows it, its function says.

    Returns:
        The library; None if this CPU has no higher level, or this platform has no such thing.
    """
    if sys.platform != "linux" or level.architecture != "x86_64" or level == cpu_level():
        return None
    library = directory / "cpu.so"
    number = levels_of(level.architecture).index(level) + 1
    try:
        compile_cpp(SOURCE, library, "-O2", "-shared", "-fPIC", f"-DLEVEL={number}")
    except ProcessError as error:
        _log.warning("other runtimes use the whole CPU: %s", error)
        return None
    return library
