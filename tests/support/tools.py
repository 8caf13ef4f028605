"""CMake and Ninja for tests: those of this environment first, those on PATH otherwise."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from tests.support.commands import Done, run


def search_path() -> str:
    """PATH with the programs of this environment first, whether or not it is activated."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])


def find_tool(name: str) -> str:
    """The path of a program that the tests cannot do without."""
    found = shutil.which(name, path=search_path())
    assert found is not None, f"{name} is missing: python -m pip install {name}"
    return found


def cmake(*arguments: str | Path, code: int = 0) -> Done:
    """Runs CMake, which finds Ninja as `find_tool` does; it must end with this exit code."""
    return run(find_tool("cmake"), *arguments, code=code, PATH=search_path())


def ctest(*arguments: str | Path, code: int = 0) -> Done:
    """Runs CTest, which comes with CMake."""
    return run(find_tool("ctest"), *arguments, code=code, PATH=search_path())


_WITHOUT_PYTHON = (
    *("make", "cc", "c++", "gcc", "g++", "ar", "as", "ld", "ranlib"),
    *("sh", "mkdir", "rm", "cp", "find", "pkg-config"),
)
"""All that building a bundle needs; other programs of the compiler are called by it."""


def path_without_python(directory: Path) -> str:
    """A PATH with a compiler and make alone, as links in an empty directory."""
    for tool in _WITHOUT_PYTHON:
        found = shutil.which(tool)
        if found:
            (directory / tool).symlink_to(found)
    return str(directory)
