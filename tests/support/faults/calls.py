"""System calls that fail, are slow or are the last ones, a wrong clock, and a record of what was written: `calls.c`, preloaded."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SHORT = 0
"""In place of an error number: the call writes half of what it should, as POSIX allows."""

KILL, _COUNT = -1, -2
"""In place of an error number: the process is killed there; in the middle, if the call writes or sends."""

DISK = ("create", "mkdir", "write", "fsync", "rename", "chmod", "unlink", "link", "rmdir", "utime")
"""All calls that change a disk. `open` and `read` can fail, too."""

NETWORK = ("connect", "send", "recv")
"""All calls that use a network."""

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
    """The preloaded library, in the process that has it.

    Args:
        root: Calls on files count if they concern a path below this directory.
    """

    def __init__(self, root: Path) -> None:
        self._library = ctypes.CDLL(None)
        self._library.faults_seen.restype = self._library.faults_hits.restype = ctypes.c_long
        self._library.faults_watch(os.fsencode(root))

    @contextmanager
    def failing(self, call: str, error: int, nth: int = 0, times: int | None = 1) -> Iterator[None]:
        """Lets calls of one kind fail: so many from the `nth` on, from 0; all if `times` is None."""
        self.fail_from((call,), error, nth, times)
        try:
            yield
        finally:
            self._hits = self._library.faults_hits()
            self._choose((), 0, 0, 0)

    def fail_from(self, calls: Sequence[str], error: int, nth: int, times: int | None) -> None:
        """As `failing`, for several kinds of calls and for good; an `error` of KILL ends this process."""
        self._choose(calls, error, nth, -1 if times is None else times)

    def count(self, calls: Sequence[str]) -> None:
        """Counts calls of these kinds from now on."""
        self._choose(calls, _COUNT, 0, 0)

    @property
    def counted(self) -> int:
        """How many calls there were since `count`."""
        return int(self._library.faults_seen())

    def _choose(self, calls: Sequence[str], error: int, nth: int, times: int) -> None:
        self._library.faults_choose(_listed(calls), error, *map(ctypes.c_long, (nth, times)))

    @contextmanager
    def slow(self, calls: Sequence[str], seconds: float) -> Iterator[None]:
        """Makes each call of these kinds take longer by so much."""
        self._library.faults_slow(_listed(calls), ctypes.c_long(round(seconds * 1e6)))
        try:
            yield
        finally:
            self._library.faults_slow(b"", ctypes.c_long(0))

    @contextmanager
    def clock(self, seconds: int) -> Iterator[None]:
        """Sets the clock of this process forward, or back; the times of files are the system's as before.

        So it is with a disk of another machine, whose clock is another one.
        """
        self._library.faults_clock(ctypes.c_long(seconds))
        try:
            yield
        finally:
            self._library.faults_clock(ctypes.c_long(0))

    @property
    def happened(self) -> bool:
        """Whether the last `failing` met that many calls."""
        return bool(self._hits)

    @contextmanager
    def recording(self, path: Path) -> Iterator[None]:
        """Writes one line for each change below the root; `power.crash_states` reads them."""
        self._library.faults_record(os.fsencode(path))
        try:
            yield
        finally:
            self._library.faults_record(None)

    def mark(self, text: str) -> None:
        """Adds a line to the record."""
        self._library.faults_mark(text.encode())


def _listed(calls: Sequence[str]) -> bytes:
    return f",{','.join(calls)},".encode() if calls else b""
