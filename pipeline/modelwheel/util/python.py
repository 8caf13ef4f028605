"""Keeps files of the working directory from being imported: a `build.py` there would be run in place of the package."""

from __future__ import annotations

import os
import sys


def module_command(name: str) -> tuple[str, ...]:
    """The beginning of a command that runs a module of this Python's packages, as `python -m` does."""
    if sys.version_info >= (3, 11):
        return (sys.executable, "-P", "-m", name)
    code = f"import runpy, sys; sys.path.pop(0); runpy.run_module({name!r}, None, '__main__', True)"
    return (sys.executable, "-c", code)


def forget_start_directory() -> None:
    """Takes the directory that Python puts first out of the search path: the working one, or that of the script."""
    if not sys.path or getattr(sys.flags, "safe_path", False):
        return
    script = os.path.dirname(os.path.realpath(sys.argv[0]))  # noqa: PTH120 - an empty name has none
    if sys.path[0] == "" or os.path.realpath(sys.path[0]) in (os.path.realpath("."), script):
        del sys.path[0]
