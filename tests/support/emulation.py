"""Python for 64-bit Arm on other machines: Debian's, run by qemu's user emulation; NumPy from PyPI.

Nothing is installed on this machine, and neither root nor binfmt_misc is needed: packages are unpacked into a
directory, and the interpreter is a script that starts qemu. Programs that the emulated Python starts by the path
of its interpreter come back to that script, so that tests with processes of their own run, too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.commands import Done, run

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

_PACKAGES = (
    *("libc6", "libexpat1", "libffi8", "libgcc-s1", "libstdc++6", "zlib1g"),
    *(f"libpython{VERSION}-minimal", f"libpython{VERSION}-stdlib", f"python{VERSION}-minimal"),
)
_MANYLINUX = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")

_SCRIPT = """\
#!/bin/sh
exec '{qemu}' -L '{root}' -0 "$0" '{root}/usr/bin/python{version}' "$@"
"""


class UnavailableError(Exception):
    """There is no such Python here, and why."""


@dataclass(frozen=True)
class ArmPython:
    """An interpreter in a directory of its own, with packages."""

    directory: Path

    @property
    def executable(self) -> Path:
        """What starts it on this machine."""
        return self.directory / "python"

    def __call__(self, *arguments: str | Path, cpu: str = "max") -> Done:
        """Runs it, on one of the CPUs that qemu knows; it sees no other programs."""
        return run(
            self.executable,
            *arguments,
            PATH=str(self.directory / "no-programs"),
            PYTHONHOME=str(self.directory / "root" / "usr"),
            PYTHONPATH=str(self.directory / "packages"),
            QEMU_CPU=cpu,
        )


def make_python(directory: Path, *requirements: str | Path) -> ArmPython:
    """Puts together an interpreter of this version with some packages.

    Raises:
        UnavailableError: qemu or apt is missing, or Debian has no such Python.
    """
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if qemu is None:
        raise UnavailableError("qemu-aarch64 is not installed")
    python = ArmPython(directory)
    _unpack_debian(directory / "root", directory / "apt")
    python.executable.write_text(
        _SCRIPT.format(qemu=qemu, root=directory / "root", version=VERSION)
    )
    python.executable.chmod(0o755)
    _install(directory / "packages", requirements)
    return python


def _unpack_debian(root: Path, apt: Path) -> None:
    """Downloads packages with the sources and keys of this machine's apt, but lists of its own."""
    for name in ("state/lists/partial", "cache/archives/partial", "packages"):
        (apt / name).mkdir(parents=True)
    (apt / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
    }
    apt_get = [
        "apt-get",
        "--quiet=2",
        *(f"--option={key}={value}" for key, value in options.items()),
    ]
    _try([*apt_get, "update"], apt)
    _try([*apt_get, "download", *_PACKAGES], apt / "packages")
    for package in sorted((apt / "packages").glob("*.deb")):
        _try(["dpkg-deb", "--extract", str(package), str(root)], apt)
    shutil.rmtree(apt)


def _try(command: Sequence[str], directory: Path) -> None:
    try:
        subprocess.run(command, cwd=directory, check=True, capture_output=True, encoding="utf-8")
    except FileNotFoundError:
        raise UnavailableError(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().rpartition("\n")[2]
        raise UnavailableError(f"no Python {VERSION} for arm64 from Debian: {reason}") from error


def _install(packages: Path, requirements: Sequence[str | Path]) -> None:
    """Byte code is that of this machine's Python: the same version understands it."""
    platforms = [f"--platform={name}" for name in _MANYLINUX]
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    options = ("--only-binary=:all:", f"--python-version={VERSION}", "--implementation=cp")
    run(*pip, *platforms, *options, "--target", packages, *requirements)
