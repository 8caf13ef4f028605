"""Builds the wheel or the source distribution of a project by its PEP 517 build backend."""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
from collections.abc import Hashable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from ..errors import WheelError
from ..util.processes.process import ProcessError, run
from ..util.remembering import Remembered, packages_mark, programs_mark
from .template import SOURCE_DATE_EPOCH

_SAID_LINES = 30

_PROGRAMS = ("cmake", "ninja")
"""Packages with the programs that the build backend runs."""

# CMAKE_BUILD_PARALLEL_LEVEL only says how many compilers run at once.
STEERING = re.compile(r"(C|CXX|CPP|LD|ASM)FLAGS|SKBUILD_\w+|CMAKE_(?!BUILD_PARALLEL_LEVEL$)\w+")
"""Variables that would change the result but are not part of the key; CC and CXX are, and may be set."""

_READ_BY_COMPILERS = (
    *("ARCHFLAGS", "COMPILER_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"),
    *("GCC_EXEC_PREFIX", "INCLUDE", "LIB", "LIBRARY_PATH", "MACOSX_DEPLOYMENT_TARGET", "SDKROOT"),
)
"""Variables with places of headers and libraries, and the system to compile for; part of the key where they are set."""


def build_environment(bindings: str = "extension") -> Mapping[str, str]:
    """The dependencies of a wheel beside its project: compiler, build tools, and Python if it has an extension."""
    return _environments.get(bindings, _environment_mark, lambda: _look_at_environment(bindings))


_environments: Remembered[Mapping[str, str]] = Remembered()


def _environment_mark() -> Hashable:
    compilers = [_command(*compiler) for compiler in _COMPILERS]
    return (
        tuple(map(tuple, compilers)),
        tuple(map(programs_mark, compilers)),
        packages_mark(),
        tuple(map(os.environ.get, _READ_BY_COMPILERS)),
    )


def _look_at_environment(bindings: str) -> dict[str, str]:
    tools = {name: version(name) for name in (*_PROGRAMS, "scikit-build-core")}
    if bindings == "extension":
        # An extension is built for one ABI of Python; without one, a wheel serves all.
        tools["python"] = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
        tools["pybind11"] = version("pybind11")
    return {
        "platform": sysconfig.get_platform(),
        **{variable.lower(): _version(_command(variable, name)) for variable, name in _COMPILERS},
        **{name: os.environ[name] for name in _READ_BY_COMPILERS if name in os.environ},
        **tools,
    }


_COMPILERS = (("CC", "cc"), ("CXX", "c++"))
"""Variables, and the compilers where they are not set."""


def _command(variable: str, default: str) -> list[str]:
    # CC may have arguments, or a launcher before the compiler: `ccache gcc`.
    return shlex.split(os.environ.get(variable) or default)


def _version(command: Sequence[str]) -> str:
    first_line = run([*command, "--version"]).text.partition("\n")[0]
    return " ".join([first_line, *command[1:]])


def build_wheel(project: Path, out: Path, settings: Mapping[str, str] | None = None) -> Path:
    """Builds the wheel of a rendered project with the tools of this environment.

    Args:
        project: What `render_project` wrote.
        out: An existing directory for the wheel.
        settings: Settings of the build backend.

    Raises:
        WheelError: The compiler or the build backend failed; the message ends with its output.
    """
    return build_distribution("wheel", project, out, settings=settings)


def build_distribution(
    kind: Literal["sdist", "wheel"],
    project: Path,
    out: Path,
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Builds a distribution with the build backend of a project.

    Args:
        kind: What to build.
        project: A project with a `pyproject.toml`.
        out: An existing directory for the distribution.
        python: The Python that runs the backend; its environment must have what the project requires.
        environment: Variables beyond those of the caller.
        settings: Settings of the backend.

    Raises:
        WheelError: The build backend failed.
    """
    import build

    # The names of the parameters are those that pyproject_hooks passes.
    def run_backend(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        variables = {
            **{name: value for name, value in os.environ.items() if not STEERING.fullmatch(name)},
            **(extra_environ or {}),
            "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
            "LC_ALL": "C.UTF-8",
            **(environment or {}),
        }
        run(cmd, cwd=Path(cwd) if cwd else None, env=variables)

    try:
        builder = build.ProjectBuilder(project, python, run_backend)
        # Without isolation, nothing would install what is missing.
        needed = {*builder.build_system_requires, *(_PROGRAMS if kind == "wheel" else ())}
        missing = _missing(needed) if python == sys.executable else set()
        if missing:
            names = ", ".join(sorted(" -> ".join(chain) for chain in missing))
            raise WheelError(f"building a {kind} needs {names}; install modelwheel again")
        return Path(builder.build(kind, out, dict(settings or {})))
    except (build.BuildException, build.BuildBackendException, ProcessError) as error:
        reason = explain(error.exception if hasattr(error, "exception") else error)
        raise WheelError(
            f"building the {kind} of {project.name} failed: {reason}", code="MW601"
        ) from error


def _missing(requirements: Iterable[str]) -> set[tuple[str, ...]]:
    """The tools that a build lacks here, each behind what requires it.

    What else the backend would ask for is known, so it is not started to ask: the programs that it runs.
    """
    from build import check_dependency

    return {chain for requirement in requirements for chain in check_dependency(requirement)}


def explain(error: Exception) -> str:
    """The message of an error and the compiler's output, which Ninja prints on standard output."""
    _, failed, rest = getattr(error, "output", "").partition("\nFAILED: ")
    lines = f"FAILED: {rest}".splitlines()[:_SAID_LINES] if failed else []
    return "\n".join([str(error), *lines])
