"""Finds the Python that an extension is for. This machine must have that version, with its headers."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import EnvironmentProblemError, UsageError
from ...util.processes.process import ProcessError, run

_PROBE = """
import json, sys, sysconfig
print(json.dumps({
    "executable": sys.executable,
    "version": "%d.%d" % sys.version_info[:2],
    "flags": sys.abiflags,
    "include": sysconfig.get_path("include"),
    "multiarch": sysconfig.get_config_var("MULTIARCH") or "",
}))
"""

_VERSION = re.compile(r"3\.(\d{2})t?")


@dataclass(frozen=True)
class Interpreter:
    """A CPython on this machine."""

    executable: str
    version: str
    """`3.11`."""
    flags: str
    """`t` if it is free-threaded."""
    include: str
    """The directory for `Python.h`, which need not be installed."""
    multiarch: str
    """The directory in which Debian and Ubuntu keep architecture-dependent files (`x86_64-linux-gnu`)."""

    @property
    def name(self) -> str:
        """The version as users write it: `3.11`, `3.13t`."""
        return self.version + self.flags

    @property
    def digits(self) -> str:
        """The version in wheel tags and names of extensions: `311`, `313t`."""
        return self.name.replace(".", "")

    @property
    def is_this(self) -> bool:
        """Whether it runs modelwheel; then its installed packages can be used."""
        return self.executable == sys.executable

    def stage_headers(self, directory: Path) -> Path:
        """Copies the headers so that they can be used for another architecture; returns their directory.

        Debian's `pyconfig.h` includes a second one from a directory named after the architecture, which a cross
        compiler does not search. It is replaced by this machine's: all supported architectures of Linux are little
        endian with 64-bit pointers and longs, so nothing in it differs.

        Raises:
            EnvironmentProblemError: The headers are not installed.
        """
        include = Path(self.include)
        if not (include / "Python.h").is_file():
            raise EnvironmentProblemError(
                f"a wheel with an extension requires the headers of Python {self.name}, but "
                f"{include / 'Python.h'} does not exist; install them (Debian and Ubuntu: "
                f"`apt install python{self.name}-dev`)"
            )
        staged = directory / include.name
        shutil.copytree(include, staged)
        actual = include.parent / self.multiarch / include.name / "pyconfig.h"
        if self.multiarch and actual.is_file():
            shutil.copyfile(actual, staged / "pyconfig.h")
        return staged


def find_interpreter(version: str | None) -> Interpreter:
    """Finds a CPython by its version; by default the one that runs modelwheel.

    Raises:
        UsageError: This is not a version.
        EnvironmentProblemError: No such Python is on `PATH`.
    """
    this = _probe(sys.executable)
    # First, as the installed build backend can be used with it (`is_this`).
    if version is None or version == this.name:
        return this
    if not _VERSION.fullmatch(version):
        raise UsageError(f"{version!r} is not a version of Python; examples are 3.12 and 3.13t")
    for program in _programs(version):
        try:
            interpreter = _probe(program)
        except ProcessError:  # pyenv puts programs for all versions on PATH, and most of them fail
            continue
        if interpreter.name == version:
            return interpreter
    raise EnvironmentProblemError(
        f"Python {version} is not installed here; put a `python{version}` on PATH, or build for "
        f"Python {this.name}"
    )


def _programs(version: str) -> Iterator[str]:
    for name in (f"python{version}", f"python{version.removesuffix('t')}", "python3"):
        if program := shutil.which(name):
            yield program


def _probe(program: str) -> Interpreter:
    # -I: a json.py in the working directory must not be imported.
    return Interpreter(**json.loads(run([program, "-I", "-c", _PROBE]).text))
