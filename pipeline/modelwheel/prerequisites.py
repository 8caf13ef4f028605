"""Checks what must be on a machine before anything can be installed or built on it.

    PYTHONPATH=pipeline python3 -m modelwheel.prerequisites [GB of free disk space]

`make` runs this with the system's bare Python, so it imports the standard library only. `modelwheel
doctor` and `modelwheel build` use the same functions.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PYTHON_MINIMUM = (3, 10)

_PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"

# Uses what the wheel's own sources use: a compiler that compiles and links this can compile those.
_PROGRAM = b"""
#include <cstdint>
#include <optional>
int main() {
  if constexpr (sizeof(std::int64_t) == 8) return std::optional<int>{0}.value_or(1);
}
"""
_TIMEOUT = 60.0


@dataclass(frozen=True)
class Missing:
    """Something that this machine lacks."""

    what: str
    package: str | None
    """The package that has it on Debian and Ubuntu."""


def find_missing(free_bytes: int = 0, directory: Path | None = None) -> list[Missing]:
    """Everything that is missing, in the order in which it is needed.

    Args:
        free_bytes: Disk space that is needed.
        directory: Where it is needed; by default the current directory.
    """
    checks: Sequence[Callable[[], Missing | None]] = (
        check_python,
        check_venv,
        check_headers,
        check_compiler,
        check_git,
        lambda: check_disk(free_bytes, directory or Path.cwd()),
    )
    return [missing for check in checks if (missing := check()) is not None]


def explain(missing: Sequence[Missing]) -> str:
    """One sentence: what is missing and what to install."""
    sentence = f"this machine lacks {_join([each.what for each in missing])}"
    packages = [each.package for each in missing if each.package]
    if packages:
        sentence += f"; on Debian and Ubuntu: apt install {' '.join(packages)}"
    return sentence


def check_python() -> Missing | None:
    """Python itself."""
    if sys.version_info[:2] >= PYTHON_MINIMUM:
        return None
    wanted = ".".join(map(str, PYTHON_MINIMUM))
    return Missing(f"Python {wanted} or newer ({sys.executable} is {_PYTHON})", None)


def check_venv() -> Missing | None:
    """The parts of the standard library that Debian packages separately."""
    if all(importlib.util.find_spec(name) is not None for name in ("ensurepip", "venv")):
        return None
    return Missing("Python's venv module", f"{_PYTHON}-venv")


def headers() -> Path:
    """The file that extensions of this Python include."""
    return Path(sysconfig.get_path("include"), "Python.h")


def check_headers() -> Missing | None:
    """Python's headers."""
    if headers().is_file():
        return None
    return Missing(f"Python's headers ({headers()})", f"{_PYTHON}-dev")


def check_compiler() -> Missing | None:
    """A compiler that compiles and links a small C++17 program."""
    if sys.platform == "win32" and not os.environ.get("CXX"):
        return None  # CMake finds Visual Studio, whose compiler is not on PATH
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    with tempfile.TemporaryDirectory() as directory:
        program = str(Path(directory, "a.out"))
        try:
            done = subprocess.run(
                [*compiler, "-std=c++17", "-x", "c++", "-", "-o", program],
                input=_PROGRAM,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return Missing(f"a C++17 compiler ({compiler[0]})", "g++")
    if done.returncode == 0:
        return None
    return Missing(f"a C++17 compiler ({compiler[0]} cannot compile a small program)", "g++")


def check_git() -> Missing | None:
    """The program git."""
    return None if shutil.which("git") else Missing("git", "git")


def check_disk(free_bytes: int, directory: Path) -> Missing | None:
    """Free space where `directory` is or will be."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free >= free_bytes:
        return None
    wanted, found = (f"{size / 1e9:.1f} GB" for size in (free_bytes, free))
    return Missing(f"{wanted} of free disk space in {existing} (there are {found})", None)


def _join(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def main() -> None:
    """Ends with one sentence if something is missing."""
    missing = find_missing(int(float(sys.argv[1]) * 1e9) if len(sys.argv) > 1 else 0)
    if missing:
        sys.exit(f"error: {explain(missing)}")


if __name__ == "__main__":
    main()
