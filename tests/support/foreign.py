"""Runs the test of a bundle where this system's C library is not: with musl, and on Windows under Wine.

Its lines have a hash of every output, so equal lines mean equal bits.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.containers.apt import UnavailableError
from tests.support.commands import run

_WINE = Path("/usr/lib/wine/wine64")
"""Debian's package wine64 puts nothing on PATH."""


def run_here(bundle: Path, work: Path) -> str:
    """What the test prints with the library for this machine."""
    program = _compile(bundle, "linux-x86_64", work / "here", "cc", "-lm")
    return run(program, bundle / "tests/reference.bin").out


def run_musl(bundle: Path, work: Path) -> str:
    """The same for a program of musl-gcc, linked statically.

    Raises:
        UnavailableError: A program is not installed.
    """
    _require("musl-gcc", "musl-tools")
    program = _compile(bundle, "linux-x86_64", work / "musl", "musl-gcc", "-static", "-lm")
    return run(program, bundle / "tests/reference.bin").out


def run_windows(bundle: Path, work: Path) -> str:
    """The same for a program and a library for Windows, under Wine.

    Raises:
        UnavailableError: A program is not installed.
    """
    _require(str(_WINE), "wine64")
    _require("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64-win32")
    options = ("-DMODELWHEEL_STATIC", "-static")
    program = _compile(
        bundle, "windows-amd64", work / "here.exe", "x86_64-w64-mingw32-gcc", *options
    )
    reference = os.path.relpath(bundle / "tests/reference.bin")
    done = run(
        _WINE,
        program,
        reference,
        WINEDEBUG="-all",
        WINEPREFIX=str(work / "wine"),
        WINEDLLOVERRIDES="mscoree,mshtml=",
    )
    return done.out.replace("\r\n", "\n")


FOREIGN: Mapping[str, Callable[[Path, Path], str]] = {"musl": run_musl, "Windows": run_windows}
"""By what runs."""


def _require(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise UnavailableError(f"{package} is not installed")


def _compile(bundle: Path, platform: str, program: Path, compiler: str, *options: str) -> Path:
    (source,) = bundle.glob("tests/*_test.c")
    (library,) = (bundle / "lib" / platform).glob("*.a")
    run(compiler, source, library, f"-I{bundle / 'include'}", *options, "-o", program)
    return program
