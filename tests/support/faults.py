"""System calls that fail, and a record of what was written in which order: `faults.c`, preloaded into Python."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHORT = 0
"""In place of an error number: the call writes half of what it should, as POSIX allows."""

_SOURCE = Path(__file__).with_suffix(".c")


def compile_library(directory: Path) -> Path | None:
    """The library to preload; None where there is no compiler or nothing is preloaded in this way."""
    return build_preloaded(_SOURCE, directory)


def build_preloaded(source: Path, directory: Path) -> Path | None:
    """The same for another source in C."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    library = directory / f"{source.stem}.so"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, *flags, "-o", library, source, "-ldl"], check=True)
    return library


def run_preloaded(library: Path, call: str, *arguments: object) -> None:
    """Calls `module:function` with text arguments in a Python that has the library."""
    module, _, function = call.partition(":")
    code = f"import sys; from {module} import {function}; {function}(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Faults:
    """The preloaded library, in the process that has it."""

    def __init__(self, root: Path) -> None:
        self._library = ctypes.CDLL(None)
        self._library.faults_watch(os.fsencode(root))

    @contextmanager
    def failing(self, call: str, error: int, nth: int) -> Iterator[None]:
        """Lets one call fail: the `nth` of its kind below the root, from 0."""
        self._library.faults_choose(call.encode(), error, nth)
        try:
            yield
        finally:
            self._hits = self._library.faults_hits()
            self._library.faults_choose(b"", 0, 0)

    @property
    def happened(self) -> bool:
        """Whether the last `failing` met that many calls."""
        return bool(self._hits)

    @contextmanager
    def recording(self, path: Path) -> Iterator[None]:
        """Writes one line for each change below the root; `crash_states` reads them."""
        self._library.faults_record(os.fsencode(path))
        try:
            yield
        finally:
            self._library.faults_record(None)

    def mark(self, text: str) -> None:
        """Adds a line to the record."""
        self._library.faults_mark(text.encode())
