"""Allocations that fail: `allocations.c`, preloaded into Python or linked into a program."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from tests.support.faults.calls import build_preloaded

_HERE = Path(__file__).parent


def compile_library(directory: Path) -> Path:
    """The library to preload. Skips where there is no glibc, whose functions it calls, or no compiler."""
    library = (
        build_preloaded(_HERE / "allocations.c", directory) if platform.libc_ver()[0] else None
    )
    if library is None:
        pytest.skip(
            "allocations fail by a library that only glibc can preload, and that a compiler makes"
        )
    return library


def starve(python: Path, library: Path, package: str) -> str:
    """What `starved.py` prints for a package that an interpreter has."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "PYTHONMALLOC": "malloc",  # otherwise CPython takes small objects from memory that it has
        "OPENBLAS_NUM_THREADS": "1",  # NumPy's threads allocate too
    }
    done = subprocess.run(
        [python, _HERE / "starved.py", package],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout
