"""Runs wheels of other processors with qemu's user emulation.

Levels that this CPU lacks run with this machine's Python. Wheels for 64-bit Arm run with Debian's, of the packages that
apt downloads, and NumPy from the package index. They are unpacked into a directory: nothing is installed on this
machine, and neither root nor binfmt_misc is needed.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import EnvironmentProblemError
from ..util.processes.process import ProcessError, run
from ..util.python import module_command

_LIBRARIES = ("libc6", "libexpat1", "libffi8", "libgcc-s1", "libstdc++6", "zlib1g")
_PYTHON = ("libpython{}-minimal", "libpython{}-stdlib", "python{}-minimal")
_MANYLINUX = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
_CPU = "max"
"""Everything that qemu emulates: of x86-64 nothing beyond x86-64-v3."""


@dataclass(frozen=True)
class Emulated:
    """How a Python program is started."""

    command: tuple[str | Path, ...]
    """What stands before the arguments of Python."""
    environment: dict[str, str]
    read: tuple[Path, ...] = ()
    """What it reads beside files of this system."""


def find_qemu(architecture: str) -> Path:
    """The emulator of an architecture.

    Raises:
        EnvironmentProblemError: There is none.
    """
    names = (f"qemu-{architecture}", f"qemu-{architecture}-static")
    emulator = next(filter(None, map(shutil.which, names)), None)
    if emulator is None:
        raise EnvironmentProblemError(
            f"--emulate needs {names[0]}, which is not installed; on Debian: apt-get install qemu-user"
        )
    return Path(emulator)


def emulate_host(python: Path, architecture: str) -> Emulated:
    """An interpreter of this machine on another CPU of the same architecture."""
    # -I: neither the working directory nor variables of the environment add modules.
    return Emulated((find_qemu(architecture), "-cpu", _CPU, python, "-I"), {})


def make_arm_python(
    directory: Path, requirements: Sequence[str | Path], version: str = ""
) -> Emulated:
    """Puts together an interpreter for 64-bit Arm with some packages.

    Args:
        directory: For all its files; it exists.
        requirements: Wheels, and names of distributions.
        version: Of Python (`3.11`); by default that of this one.

    Raises:
        EnvironmentProblemError: qemu or apt is missing, or Debian has no such Python.
    """
    qemu = find_qemu("aarch64")
    version = version or f"{sys.version_info.major}.{sys.version_info.minor}"
    root, packages = directory / "root", directory / "packages"
    _unpack_debian(root, directory / "apt", version)
    pip = [*module_command("pip"), "--quiet", "--disable-pip-version-check", "install"]
    # Building a source distribution would run its code; byte code would be that of this Python.
    options = ["--only-binary=:all:", "--no-compile", f"--python-version={version}"]
    platforms = [f"--platform={name}" for name in _MANYLINUX]
    try:
        run(
            [*pip, *options, "--implementation=cp", *platforms, "--target", packages, *requirements]
        )
    except ProcessError as error:
        raise EnvironmentProblemError(f"--emulate: {error}") from None
    variables = {
        "PYTHONHOME": str(root / "usr"),
        "PYTHONPATH": str(packages),
        "PYTHONDONTWRITEBYTECODE": "1",
        "QEMU_CPU": _CPU,
    }
    executable = root / "usr" / "bin" / f"python{version}"
    return Emulated((qemu, "-L", root, executable), variables, (root, packages))


def _unpack_debian(root: Path, apt: Path, version: str) -> None:
    """Downloads packages with the sources and keys of this machine's apt, but lists of its own."""
    for name in ("state/lists/partial", "cache/archives/partial", "packages"):
        (apt / name).mkdir(parents=True)
    (apt / "status").touch()
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
    }
    options = [f"--option={key}={value}" for key, value in settings.items()]
    packages = [*_LIBRARIES, *(name.format(version) for name in _PYTHON)]
    try:
        run(["apt-get", "--quiet=2", *options, "update"], cwd=apt)
        run(["apt-get", "--quiet=2", *options, "download", *packages], cwd=apt / "packages")
        for package in sorted((apt / "packages").glob("*.deb")):
            run(["dpkg-deb", "--extract", package, root])
    except ProcessError as error:
        raise EnvironmentProblemError(
            f"--emulate needs Python {version} for 64-bit Arm from Debian's packages: {error}"
        ) from None
    shutil.rmtree(apt)
