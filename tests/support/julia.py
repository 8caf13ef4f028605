"""Julia: the one on PATH, or that of Debian 11, the last with a package of it, in a directory."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.containers.apt import UnavailableError, debian, options

_SUITE = "bullseye"


def find_julia(directory: Path, readable: Path) -> tuple[str, ...]:
    """What starts Julia.

    Args:
        directory: A new directory for Debian's.
        readable: Holds all files that programs read.

    Raises:
        UnavailableError: There is none, and Debian's cannot be had.
    """
    if found := shutil.which("julia"):
        return (found,)
    for tool in ("mmdebstrap", "bwrap"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"neither julia nor {tool} is installed")
    archive = f"deb {debian()[0].uri} {_SUITE} main"
    command = ["mmdebstrap", "--variant=extract", "--include=julia", *options()]
    done = subprocess.run(
        [*command, _SUITE, directory, archive], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise UnavailableError(f"Debian {_SUITE} cannot be unpacked: {done.stderr.strip()}")
    places = ("--bind", directory, "/", "--ro-bind", readable, readable)
    return ("bwrap", *map(str, places), "--dev", "/dev", "--proc", "/proc", "julia")
