"""The CPU that other runtimes see: one of the wheel's level, where the system can hide what this machine has beyond it."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from ..levels import Level, cpu_level, levels_of
from ..util.process import ProcessError
from .native import compile_cpp

SOURCE = Path(__file__).with_name("cpu.cpp")

_log = logging.getLogger(__name__)


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
