"""Checks what must be on a machine before anything can be installed or built on it.

    PYTHONPATH=pipeline python3 -m modelwheel.prerequisites [GB of free disk space]

`make` runs this with the system's bare Python, so it imports the standard library only. `modelwheel
doctor`, `modelwheel build` and others use the same functions.
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

# Python reads this file before it can refuse itself: no syntax that is newer than Python 3.8.
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

BUILD_BYTES = 10**9
"""Disk space for a build: with 60 MB of weights it takes half of that, in copies and build trees."""

_VSWHERE = "Microsoft Visual Studio/Installer/vswhere.exe"
"""The program that finds Visual Studio, below `%ProgramFiles(x86)%` since version 15.2."""

_XCODE, _PYTHON_ORG = "xcode-select --install", "install Python from python.org"


@dataclass(frozen=True)
class Missing:
    """Something that this machine lacks, and how to get it on each system."""

    what: str
    debian: str | None = None
    """The package of Debian and Ubuntu; for other systems what to do."""
    macos: str | None = None
    windows: str | None = None

    @property
    def fix(self) -> str | None:
        """The command or step that installs it on this system."""
        if sys.platform == "darwin":
            return self.macos
        if sys.platform == "win32":
            return self.windows
        return self.debian and f"on Debian and Ubuntu: apt install {self.debian}"


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
    sentence = f"this machine lacks {_join([need.what for need in missing])}"
    if sys.platform in ("darwin", "win32"):
        fixes = list(dict.fromkeys(need.fix for need in missing if need.fix))
        return f"{sentence}; {_join(fixes)}" if fixes else sentence
    packages = [need.debian for need in missing if need.debian]
    if packages:
        sentence += f"; on Debian and Ubuntu: apt install {' '.join(packages)}"
    return sentence


def check_python() -> Missing | None:
    """Python itself."""
    if sys.version_info[:2] >= PYTHON_MINIMUM:
        return None
    wanted = ".".join(map(str, PYTHON_MINIMUM))
    return Missing(f"Python {wanted} or newer ({sys.executable} is {_PYTHON})")


def check_venv() -> Missing | None:
    """The parts of the standard library that Debian packages separately."""
    if all(importlib.util.find_spec(name) is not None for name in ("ensurepip", "venv")):
        return None
    return Missing("Python's venv module", f"{_PYTHON}-venv", _PYTHON_ORG, _PYTHON_ORG)


def headers() -> Path:
    """The file that extensions of this Python include."""
    return Path(sysconfig.get_path("include"), "Python.h")


def check_headers() -> Missing | None:
    """Python's headers."""
    if headers().is_file():
        return None
    return Missing(f"Python's headers ({headers()})", f"{_PYTHON}-dev", _PYTHON_ORG, _PYTHON_ORG)


def check_compiler() -> Missing | None:
    """A compiler that compiles and links a small C++17 program."""
    if sys.platform == "win32" and not os.environ.get("CXX"):
        return None if has_visual_studio() else _no_compiler("Visual Studio")
    compiler = compiler_command()
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
            return _no_compiler(compiler[0])
    if done.returncode == 0:
        return None
    return _no_compiler(f"{compiler[0]} cannot compile and link a small program")


def compiler_command() -> list[str]:
    """The C++ compiler of this environment, with the options that CXX may have."""
    return shlex.split(os.environ.get("CXX") or "c++")


def has_visual_studio() -> bool:
    """Whether CMake would find a C++ compiler on Windows. Usually it is not on PATH."""
    if shutil.which("cl"):
        return True
    vswhere = Path(os.environ.get("PROGRAMFILES(X86)", "C:/Program Files (x86)"), _VSWHERE)
    tools = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
    # `-products *`: by default vswhere does not list the Build Tools.
    options = ("-products", "*", "-requires", tools, "-property", "installationPath")
    try:
        done = subprocess.run(
            [vswhere, *options], capture_output=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return bool(done.stdout.strip())


def _no_compiler(detail: str) -> Missing:
    return Missing(
        f"a C++17 compiler ({detail})",
        "g++",
        _XCODE,
        "install the Build Tools for Visual Studio with the workload for C++",
    )


def check_git() -> Missing | None:
    """The program git."""
    if shutil.which("git"):
        return None
    return Missing("git", "git", _XCODE, "install git from git-scm.com")


def check_disk(free_bytes: int, directory: Path) -> Missing | None:
    """Free space where `directory` is or will be."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free >= free_bytes:
        return None
    wanted, present = (f"{size / 1e9:.1f} GB" for size in (free_bytes, free))
    return Missing(f"{wanted} of free disk space in {existing} (it has {present})")


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
