"""The Python that a wheel is for: found on this machine, which must have that version with its headers."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import EnvironmentProblemError, UsageError
from ...util.process import ProcessError, run

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
    """A CPython of this machine."""

    executable: str
    version: str
    """`3.11`."""
    flags: str
    """`t` where it is free-threaded."""
    include: str
    """The directory of `Python.h`, if that is installed."""
    multiarch: str
    """Where Debian and its kin keep what depends on the architecture (`x86_64-linux-gnu`)."""

    @property
    def name(self) -> str:
        """As a user asks for it: `3.11`, `3.13t`."""
        return self.version + self.flags

    @property
    def digits(self) -> str:
        """`311` or `313t`: as in tags of wheels and names of extensions."""
        return self.name.replace(".", "")

    @property
    def is_this(self) -> bool:
        """Whether it is the one that runs modelwheel, whose packages can be used."""
        return self.executable == sys.executable

    def stage_headers(self, directory: Path) -> Path:
        """Copies the headers, so that they can be used for another architecture; gives their directory.

        Debian's `pyconfig.h` includes that of the architecture that is compiled for, from a directory
        that a cross compiler does not search and that only has this machine's. Both have 64-bit pointers
        and longs and are little endian, so that this machine's takes its place.

        Raises:
            EnvironmentProblemError: There are none.
        """
        include = Path(self.include)
        if not (include / "Python.h").is_file():
            raise EnvironmentProblemError(
                f"a wheel with an extension needs the headers of Python {self.name}, but there is no "
                f"{include / 'Python.h'}; install them (Debian and Ubuntu: `apt install python{self.name}-dev`)"
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
        UsageError: That is no version.
        EnvironmentProblemError: There is none on `PATH`.
    """
    this = _probe(sys.executable)
    if version is None or version == this.name:
        return this
    if not _VERSION.fullmatch(version):
        raise UsageError(f"{version!r} is no version of Python; write it like 3.12 or 3.13t")
    for program in _programs(version):
        try:
            found = _probe(program)
        except ProcessError:  # pyenv puts programs of all versions on PATH, and most refuse to run
            continue
        if found.name == version:
            return found
    raise EnvironmentProblemError(
        f"Python {version} is not installed here; put a `python{version}` on PATH, or build for "
        f"Python {this.name}"
    )


def _programs(version: str) -> Iterator[str]:
    for name in (f"python{version}", f"python{version.removesuffix('t')}", "python3"):
        if program := shutil.which(name):
            yield program


def _probe(program: str) -> Interpreter:
    return Interpreter(**json.loads(run([program, "-I", "-c", _PROBE]).text))
