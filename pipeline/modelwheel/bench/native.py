"""Compiles the small C++ programs that a comparison needs."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ..util.processes.process import run


def compile_cpp(source: Path, result: Path, *options: str) -> None:
    """Compiles one source into a program or library.

    Raises:
        ProcessError: There is no C++ compiler that can.
    """
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    run([*compiler, "-std=c++17", *options, source, "-o", result])
