"""From a source distribution to a wheel for another system: environment of the build, repair, audit."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from zipfile import ZipFile

from packaging.utils import parse_wheel_filename

from ...assembly.manifest import Manifest
from ...audit import audit_wheels
from ...errors import AuditError, EnvironmentProblemError, WheelError
from ...packaging.backend import build_distribution
from ...packaging.project import load_manifests
from ...packaging.sdist import unpack
from ...packaging.template import SOURCE_DATE_EPOCH
from ...platforms import WheelPlatform, extension_suffix
from ...util.process import ProcessError, run
from ..outcome import Outcome, record_outcome
from .interpreter import Interpreter, find_interpreter
from .mach_o import hide_symbols
from .targets import can_build_extensions, python_platform

TOOLCHAIN = Path(__file__).with_name("zig.cmake")

_TOOLS = ("auditwheel", "ziglang")
_EXTENSIONS = (".so", ".pyd", ".dylib")


def build_wheels(
    sdists: Sequence[Path], target: WheelPlatform, python: str | None, out: Path
) -> Iterator[Outcome]:
    """Cross-builds one wheel of each source distribution, one after the other.

    One that fails leaves nothing behind in `out` and does not keep the others from being built.

    Args:
        sdists: Files that `modelwheel compile` or `modelwheel runtime` made.
        target: The system that wheels are for.
        python: The version of Python that extensions are for (`3.12`); the one that runs this by default.
        out: Where wheels are put when they are whole; made if missing.

    Raises:
        EnvironmentProblemError: zig, auditwheel or that Python is missing.
        UsageError: `python` is no version.
    """
    _require_tools()
    interpreter = find_interpreter(python)
    out.mkdir(parents=True, exist_ok=True)
    for sdist in sdists:
        yield record_outcome(sdist, partial(_build_wheels, sdist, target, interpreter, out))


def _build_wheels(
    sdist: Path, target: WheelPlatform, interpreter: Interpreter, out: Path
) -> tuple[Path, ...]:
    return (build_wheel(sdist, target, interpreter, out),)


def _require_tools() -> None:
    for tool in _TOOLS:
        if importlib.util.find_spec(tool) is None:
            raise EnvironmentProblemError(
                f"cross-building a wheel needs {tool}, which is not installed: "
                'pip install "modelwheel[release]"'
            )


def build_wheel(sdist: Path, target: WheelPlatform, interpreter: Interpreter, out: Path) -> Path:
    """Cross-builds the wheel of one source distribution into an existing directory.

    Raises:
        AuditError: A gate of `modelwheel audit` refuses the wheel.
        EnvironmentProblemError: There are no headers for that Python.
        WheelError: There is no machine code for that system, a tool failed, or the wheel is not what it should be.
    """
    with tempfile.TemporaryDirectory(prefix=".building-", dir=out.absolute()) as scratch:
        work = Path(scratch)
        project = unpack(sdist, work)
        extension = _has_extension(project, target, sdist)
        environment = build_environment(target)
        if extension:
            environment |= extension_environment(target, interpreter, work)
        for path in project.glob(f"platforms/{target.platform}/objects/*.o"):
            if target.objects.system == "macos":
                hide_symbols(path)
        wheel = _build(project, interpreter if extension else None, environment, work)
        if target.libc:
            wheel = _repair(wheel, target, work)
        require_name(wheel, target, interpreter if extension else None)
        _require_accepted(wheel)
        return wheel.replace(out / wheel.name)


def _has_extension(project: Path, target: WheelPlatform, sdist: Path) -> bool:
    """Whether the wheel gets a Python extension; and that it can be built at all."""
    manifests = _find_manifests(project)
    if manifests and target.platform not in manifests:
        raise WheelError(
            f"{sdist.name} has no machine code for {target.platform}; it was compiled for "
            f"{', '.join(manifests)} (modelwheel compile --platform ...)"
        )
    if manifests and manifests[target.platform].model.bindings == "shared":
        return False
    if not can_build_extensions(target):
        raise WheelError(
            f"{sdist.name} makes wheels with a Python extension, for which there are no headers of Python on "
            f"{target.platform} here: build them there, or say `package.bindings: shared` in the spec"
        )
    return True


def _find_manifests(project: Path) -> dict[str, Manifest]:
    """By platform; none in the package of the shared binding."""
    if not (project / "platforms").is_dir():
        return {}
    return {manifest.platform: manifest for manifest in load_manifests(project)}


def build_environment(target: WheelPlatform) -> dict[str, str]:
    """What CMake and the build backend are told about a target."""
    package = importlib.util.find_spec("ziglang")
    assert package is not None
    assert package.origin is not None
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    return {
        "PATH": path,
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_ARGS": f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}",
        "MODELWHEEL_ZIG": str(Path(package.origin).with_name("zig")),
        "MODELWHEEL_ZIG_TARGET": target.zig,
        "MODELWHEEL_ZIG_SYSTEM": target.system.cmake,
        "_PYTHON_HOST_PLATFORM": python_platform(target),
    }


def extension_environment(
    target: WheelPlatform, interpreter: Interpreter, directory: Path
) -> dict[str, str]:
    """What they are told beyond that for an extension; headers are put into an existing directory."""
    headers = interpreter.stage_headers(directory)
    suffix = module_suffix(target, interpreter)
    return {
        "CMAKE_ARGS": f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN} -DPython_INCLUDE_DIR={headers}",
        "MODELWHEEL_ZIG_SUFFIX": suffix,
        "SETUPTOOLS_EXT_SUFFIX": suffix,
    }


def module_suffix(target: WheelPlatform, interpreter: Interpreter) -> str:
    """How the file name of an extension ends, such as `.cpython-311-x86_64-linux-gnu.so`."""
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
        python = _install_backend(project, interpreter, work / "tools")
    return build_distribution(
        "wheel",
        project,
        out,
        python=python,
        environment=environment,
        settings={"install.strip": "false"},  # the toolchain file has the linker do it
    )


def _install_backend(project: Path, interpreter: Interpreter, directory: Path) -> str:
    """An environment of another Python with what the project's build needs."""
    import build

    required = sorted(build.ProjectBuilder(project).build_system_requires)
    python = directory / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    try:
        run([interpreter.executable, "-m", "venv", "--without-pip", directory])
        run([*pip, "--python", python, "install", "--no-compile", *required])
    except ProcessError as error:
        raise EnvironmentProblemError(
            f"cannot make an environment with Python {interpreter.name} to build in: {error}"
        ) from error
    return str(python)


def _repair(wheel: Path, target: WheelPlatform, work: Path) -> Path:
    """Lets auditwheel judge and name a wheel for Linux; nothing is copied into it.

    `--plat auto`, as auditwheel knows no names of platforms but those of this machine's architecture and C library.
    Which library a wheel is for it takes from the file name. musl's it would look for here, and find the linker
    script of glibc or copy Debian's musl into the wheel: it is shown an empty directory and told to do without.
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
        run([sys.executable, "-m", "auditwheel", "repair", *options, wheel], env=environment)
    except ProcessError as error:
        raise WheelError(f"auditwheel refuses {wheel.name}: {error}") from error
    return next(out.glob("*.whl"))


def _tag(target: WheelPlatform) -> str:
    return python_platform(target).replace("-", "_")


def require_name(wheel: Path, target: WheelPlatform, interpreter: Interpreter | None) -> None:
    """Proves that a wheel is called as what it is for, and so is the extension in it.

    Build backends and pybind11 ask the Python that runs them, which is one of another system: what they were
    told must have reached them.

    Args:
        wheel: The wheel.
        target: The system that it is for.
        interpreter: The Python that its extension is for; None if it has none.

    Raises:
        WheelError: A name is another.
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
            "what the model calls may be newer than that system promises"
        )
    if interpreter is not None:
        _require_module(wheel, module_suffix(target, interpreter))


def _require_module(wheel: Path, suffix: str) -> None:
    with ZipFile(wheel) as archive:
        modules = [
            name
            for name in archive.namelist()
            if name.endswith(_EXTENSIONS) and "/lib/" not in name
        ]
    if len(modules) != 1 or not modules[0].endswith(f"/_core{suffix}"):
        raise WheelError(
            f"{wheel.name} should have the extension _core{suffix}, but has "
            f"{', '.join(modules) or 'none'}; Python there would not find it"
        )


def _require_accepted(wheel: Path) -> None:
    (result,) = audit_wheels([wheel])
    if not result.accepted:
        found = [one for findings in result.findings.values() for one in findings]
        reasons = [str(one) for one in found if one.severity == "violation"]
        reasons += [] if result.error is None else [str(result.error)]
        raise AuditError("\n".join([f"{wheel.name} is not fit for release:", *reasons]))
