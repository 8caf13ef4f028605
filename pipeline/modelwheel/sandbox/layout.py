"""Which files every sandboxed Python program can read: what it needs to start, and no secrets.

Of /etc only what the loader and the clock read, no program directories, of environments only what
Python reads (the `pip.conf` of one may have a password).
"""

from __future__ import annotations

import sys
from pathlib import Path

import modelwheel

_SYSTEM = (
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/usr/share/zoneinfo",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
)


def library_paths() -> list[Path]:
    """Libraries of the system, and Python with its packages and modelwheel."""
    paths = [Path(path) for path in _SYSTEM]
    prefixes = {Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    for prefix in prefixes:
        paths += [prefix / "lib", prefix / "lib64", prefix / "pyvenv.cfg"]
        if prefix.is_relative_to("/nix/store"):  # libraries are in directories beside it
            paths.append(Path("/nix/store"))
    paths += program_files(Path(sys.executable))
    paths += [
        Path(path)
        for path in sys.path
        if Path(path).name in ("site-packages", "dist-packages") or path.endswith(".zip")
    ]
    # Python lists the directory in which it looks for a package.
    paths.append(Path(modelwheel.__file__).parents[1])
    return [path for path in dict.fromkeys(paths) if path.exists()]


def program_files(path: Path) -> list[Path]:
    """A program and every name on the way to the file that it links to."""
    links = [path]
    while path.is_symlink():
        path = path.parent / path.readlink()
        links.append(path)
    return [*links, path.resolve()]
