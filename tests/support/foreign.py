"""Runs the test of a bundle with a model's library for Windows, under Wine, or for musl, instead of this system's.

Its lines have a hash of every output, so equal lines mean equal bits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.containers.apt import UnavailableError

_WINE = (Path("/usr/lib/wine/wine64"), Path("/usr/lib/wine/wine"))
"""Debian's package wine64 has no program on PATH; that of the package wine also looks for wine32."""


def run_windows(package: Path, bundle: Path, work: Path) -> str:
    """What the test prints with the DLL of a wheel, compiled by zig, under Wine.

    Args:
        package: The unpacked Python package of a wheel for Windows.
        bundle: A bundle of the same model.
        work: An existing directory.

    Raises:
        UnavailableError: Wine is not installed.
    """
    wine = next((path for path in _WINE if path.is_file()), None)
    if wine is None:
        raise UnavailableError("wine64 is not installed")
    module = package.name
    program = work / "program.exe"
    library = package / "lib" / f"{module}.lib"
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu"]
    _call([*zig, _source(bundle, module), f"-I{package}/include", library, "-o", program])
    shutil.copy(package / f"{module}.dll", work)
    settings = {
        "WINEDEBUG": "-all",
        "WINEPREFIX": str(work / "wine"),
        "WINEDLLOVERRIDES": "mscoree,mshtml=",
    }
    reference = os.path.relpath(bundle / "tests" / "reference.bin", work)
    return _call([wine, program, reference], work, settings).replace("\r\n", "\n")


def run_musl(package: Path, bundle: Path, work: Path) -> str:
    """The same with the library of a wheel for musl, by musl-gcc.

    Raises:
        UnavailableError: musl-gcc is not installed.
    """
    compiler = shutil.which("musl-gcc")
    if compiler is None:
        raise UnavailableError("musl-tools is not installed")
    module = package.name
    options = [
        f"-I{package}/include",
        f"-L{package}/lib",
        f"-l{module}",
        f"-Wl,-rpath,{package}/lib",
    ]
    _call([compiler, _source(bundle, module), *options, "-o", work / "program"])
    return _call([work / "program", bundle / "tests" / "reference.bin"])


FOREIGN: Mapping[str, Callable[[Path, Path, Path], str]] = {
    "win_amd64": run_windows,
    "musllinux_1_2_x86_64": run_musl,
}
"""By the platform tag of the wheel."""


def _source(bundle: Path, module: str) -> Path:
    return bundle / "tests" / f"{module}_test.c"


def _call(
    command: list[str | Path],
    directory: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **(settings or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
