"""Looks over this machine: what modelwheel needs, what was found, how to mend what is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.version import Version

from ..errors import EnvironmentProblemError
from ..levels import cpu_level
from ..store.disk import CACHE_VARIABLE, default_root
from ..util.process import ProcessError, run
from ..versions import CMAKE_MINIMUM, GIT_MINIMUM, TENSORFLOW_PYTHONS, TENSORFLOW_VERSION

_TIMEOUT = 20.0
_DISK_BYTES = 2 << 30
_MEMORY_BYTES = 2 << 30  # TensorFlow's import takes 0.6 GB; the rest is for a model of 60 MB

_RELEASE_TOOLS = ("cibuildwheel", "ziglang", "auditwheel", "capstone", "check-wheel-contents")

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")

# Uses what the wheel's own sources use: a C++17 compiler that can compile this and link it, can
# compile those.
_PROGRAM = b"""
#include <cstdint>
#include <optional>
int main() {
  if constexpr (sizeof(std::int64_t) == 8) return std::optional<int>{0}.value_or(1);
}
"""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    """What is there, in a few words."""
    remedy: str | None
    """How to mend it; None if there is nothing to mend."""
    required: bool
    """Whether modelwheel can do nothing useful without it."""


def diagnose() -> list[Finding]:
    """Looks at everything at once, without importing TensorFlow; takes well under a second."""
    with ThreadPoolExecutor(len(_CHECKS)) as pool:
        return [finding.result() for finding in [pool.submit(check) for check in _CHECKS]]


def _check_python() -> Finding:
    found = f"CPython {sys.version.split()[0]} ({sys.executable})"
    lowest, highest = TENSORFLOW_PYTHONS
    ok = lowest <= sys.version_info[:2] <= highest
    remedy = (
        f"TensorFlow {TENSORFLOW_VERSION} has wheels for CPython {_dotted(lowest)} to "
        f"{_dotted(highest)}: compile with one of them"
    )
    return _finding("Python", ok, found, remedy, required=False)


def _check_headers() -> Finding:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    version = _dotted(sys.version_info[:2])
    return _finding(
        "Python headers",
        header.is_file(),
        str(header) if header.is_file() else f"no {header}",
        f"install them (Debian and Ubuntu: `apt install python{version}-dev`)",
    )


def _check_venv() -> Finding:
    ok = importlib.util.find_spec("ensurepip") is not None
    return _finding(
        "Python venv",
        ok,
        "ensurepip is there" if ok else "no ensurepip",
        f"install it (Debian and Ubuntu: `apt install python{_dotted(sys.version_info[:2])}-venv`)",
    )


def _check_tensorflow() -> Finding:
    found = _installed("tensorflow") or _installed("tensorflow-cpu")
    return _finding(
        "TensorFlow",
        found == TENSORFLOW_VERSION,
        found or "not installed",
        f"`pip install 'modelwheel[compile]'` installs TensorFlow {TENSORFLOW_VERSION}; only "
        "compiling needs it",
        required=False,
    )


def _check_compiler() -> Finding:
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    remedy = "install a C++17 compiler (Debian and Ubuntu: `apt install g++`) or set CXX to one"
    with tempfile.TemporaryDirectory() as directory:
        output = str(Path(directory) / "a.out")
        try:
            banner = run([*compiler, "--version"], timeout=_TIMEOUT).text
            run(
                [*compiler, "-std=c++17", "-x", "c++", "-", "-o", output],
                input=_PROGRAM,
                timeout=_TIMEOUT,
            )
        except ProcessError as error:
            return _finding("C++ compiler", ok=False, found=_first_line(str(error)), remedy=remedy)
    return _finding("C++ compiler", ok=True, found=_first_line(banner), remedy=remedy)


def _check_cmake() -> Finding:
    return _tool("CMake", ["cmake", "--version"], CMAKE_MINIMUM, "pip install cmake", wheel="cmake")


def _check_ninja() -> Finding:
    return _tool("Ninja", ["ninja", "--version"], "1.5", "pip install ninja", wheel="ninja")


def _check_git() -> Finding:
    return _tool("git", ["git", "--version"], GIT_MINIMUM, "apt install git", required=False)


def _check_disk() -> Finding:
    root = default_root()
    existing = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    writable = os.access(existing, os.W_OK)
    found = f"{_gigabytes(free)} free in {root}" if writable else f"{existing} is not writable"
    return _finding(
        "disk",
        writable and free >= _DISK_BYTES,
        found,
        f"free {_gigabytes(_DISK_BYTES)} there, or set {CACHE_VARIABLE} to a directory elsewhere",
    )


def _check_memory() -> Finding:
    try:
        import psutil
    except ModuleNotFoundError:  # it is in the extra `build`
        hint = "`pip install 'modelwheel[build]'`"
        return _finding("memory", ok=False, found="unknown", remedy=hint, required=False)
    available = psutil.virtual_memory().available
    with suppress(OSError, ValueError):  # without a limit the file is absent or says "max"
        available = min(available, int(_CGROUP_LIMIT.read_text()))
    return _finding(
        "memory",
        available >= _MEMORY_BYTES,
        f"{_gigabytes(available)} available",
        f"compiling takes 1 GB and more: free {_gigabytes(_MEMORY_BYTES)}",
        required=False,
    )


def _check_cpu() -> Finding:
    try:
        found, ok = cpu_level().name, True
    except EnvironmentProblemError as error:
        found, ok = str(error), False
    return _finding("CPU level", ok, found, "use a machine with one of these architectures")


def _check_release_tools() -> Finding:
    versions = {name: _installed(name) for name in _RELEASE_TOOLS}
    missing = [name for name, version in versions.items() if version is None]
    found = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return _finding(
        "release tools",
        not missing,
        f"not installed: {', '.join(missing)}" if missing else found,
        "`pip install 'modelwheel[release]'`; only `wheel` and `audit` need them",
        required=False,
    )


def _check_containers() -> Finding:
    engine = os.environ.get("CIBW_CONTAINER_ENGINE", "docker").partition(";")[0].strip()
    path = shutil.which(engine) or shutil.which("podman")
    return _finding(
        "containers",
        path is not None,
        path or f"neither {engine} nor podman",
        "install podman or docker; only `wheel` for Linux needs one, and `wheel --cross` none",
        required=False,
    )


_CHECKS: Sequence[Callable[[], Finding]] = (
    _check_python,
    _check_headers,
    _check_venv,
    _check_tensorflow,
    _check_compiler,
    _check_cmake,
    _check_ninja,
    _check_git,
    _check_disk,
    _check_memory,
    _check_cpu,
    _check_release_tools,
    _check_containers,
)


def _tool(
    name: str,
    argv: list[str],
    minimum: str,
    install: str,
    *,
    wheel: str | None = None,
    required: bool = True,
) -> Finding:
    """Judges a program by its version: that of its wheel if installed, else that on PATH."""
    version = _installed(wheel) if wheel else None
    found = f"{version} (Python package)"
    if version is None:
        try:
            said = re.search(r"\d+(\.\d+)+", run(argv, timeout=_TIMEOUT).text)
            version = said and said[0]
            found = f"{version} ({shutil.which(argv[0])})"
        except ProcessError as error:
            found = _first_line(str(error))
    ok = version is not None and Version(version) >= Version(minimum)
    return _finding(name, ok, found, f"install {minimum} or newer (`{install}`)", required=required)


def _finding(name: str, ok: bool, found: str, remedy: str, *, required: bool = True) -> Finding:
    return Finding(name, ok, found, None if ok else remedy, required)


def _installed(distribution: str) -> str | None:
    """The version of a distribution, from its metadata alone."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _first_line(text: str) -> str:
    lines = text.splitlines()
    return lines[0] if lines else ""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _gigabytes(size: int) -> str:
    return f"{size / (1 << 30):.1f} GB"
