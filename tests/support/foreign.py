"""Runs the test of a bundle where this system's C library is not: with musl, and on Windows under Wine.

Its lines have a hash of every output, so equal lines mean equal bits.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.containers.apt import UnavailableError
from tests.support.commands import run

_WINE = Path("/usr/lib/wine/wine64")
"""Debian's package wine64 puts nothing on PATH."""

_MINGW = "x86_64-w64-mingw32-gcc"


def run_here(bundle: Path, work: Path) -> str:
    """What the test prints with the library for this machine."""
    program = work / "here"
    _compile(bundle, "cc", *_static(bundle, "linux-x86_64"), "-lm", "-o", program)
    return run(program, _reference(bundle)).out


def run_musl(bundle: Path, work: Path) -> str:
    """The same for a program of musl-gcc, linked statically.

    Raises:
        UnavailableError: A program is not installed.
    """
    _require("musl-gcc", "musl-tools")
    program = work / "musl"
    _compile(bundle, "musl-gcc", *_static(bundle, "linux-x86_64"), "-static", "-lm", "-o", program)
    return run(program, _reference(bundle)).out


def run_windows(bundle: Path, work: Path) -> str:
    """The same for a program and a library for Windows, under Wine.

    Raises:
        UnavailableError: A program is not installed.
    """
    require_windows()
    options = ("-DMODELWHEEL_STATIC", "-static")
    program = work / "here.exe"
    _compile(bundle, _MINGW, *_static(bundle, "windows-amd64"), *options, "-o", program)
    return _run_wine(program, bundle, work)


def run_windows_wheel(wheel: Path, bundle: Path, work: Path) -> str:
    """The same for a program that uses the shared library of a wheel for Windows.

    Args:
        wheel: As `modelwheel wheel --cross win_amd64` builds it.
        bundle: Of the same model; its test is run.
        work: An existing directory.

    Raises:
        UnavailableError: A program is not installed.
    """
    require_windows()
    package, program = _unpack(wheel, work / "wheel"), work / "wheel.exe"
    library = package / "lib" / f"{package.name}.lib"
    _compile(bundle, _MINGW, f"-I{package / 'include'}", library, "-o", program)
    shutil.copy(package / f"{package.name}.dll", work)
    return _run_wine(program, bundle, work)


FOREIGN: Mapping[str, Callable[[Path, Path], str]] = {"musl": run_musl, "Windows": run_windows}
"""By what runs."""


def _require(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise UnavailableError(f"{package} is not installed")


def require_windows() -> None:
    """Checks that programs for Windows can be compiled and run.

    Raises:
        UnavailableError: They cannot.
    """
    _require(str(_WINE), "wine64")
    _require(_MINGW, "gcc-mingw-w64-x86-64-win32")


def _static(bundle: Path, platform: str) -> tuple[Path, ...]:
    return tuple((bundle / "lib" / platform).glob("*.a"))


def _reference(bundle: Path) -> Path:
    return bundle / "tests/reference.bin"


def _unpack(wheel: Path, directory: Path) -> Path:
    """The package in a wheel."""
    shutil.rmtree(directory, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    (library,) = directory.glob("*/*.dll")
    return library.parent


def _compile(bundle: Path, compiler: str, *options: str | Path) -> None:
    """Compiles the test; headers that the options do not have are the bundle's."""
    (source,) = bundle.glob("tests/*_test.c")
    run(compiler, source, *options, f"-I{bundle / 'include'}")


def _run_wine(program: Path, bundle: Path, work: Path) -> str:
    done = run(
        _WINE,
        program,
        os.path.relpath(_reference(bundle)),
        WINEDEBUG="-all",
        WINEPREFIX=str(work / "wine"),
        WINEDLLOVERRIDES="mscoree,mshtml=",
    )
    return done.out.replace("\r\n", "\n")
