"""Builds the wheels of a release from model source distributions with cibuildwheel, and audits each wheel.

The `[tool.cibuildwheel]` table in every source distribution says what is built and how. CIBW_* environment
variables of the caller (images, container engine, ...) take precedence over it.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import EnvironmentProblemError, ModelwheelError, UsageError, WheelError
from ..packaging.runtime import NEEDED
from ..packaging.sdist import unpack
from ..packaging.template import SOURCE_DATE_EPOCH
from ..platforms import (
    PLATFORMS,
    PYTHONS,
    SYSTEM_OF_TAG_WORD,
    SYSTEMS,
    WHEEL_PLATFORMS,
    host_system,
)
from ..util.processes.process import Completed, run, stream
from ..util.python import module_command
from ..util.unfinished import temporary_directory
from .containers import container_setting
from .outcome import Outcome, record_outcome

_TAIL_LINES = 20

_AUDIT_REFUSED = 9
"""The exit code of cibuildwheel where an audit command fails (its `errors.py`)."""

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_BUILDING = re.compile(r"Building (\S+) wheel")
_STARTING = "Starting container image "
_STEP = re.compile(
    # The prefixes with which GitHub Actions and Azure Pipelines fold logs, then the heading.
    rf"(?:::group::|##\[group\])?({_STARTING}\S+|(?:Copying|Setting up|Running|Building|Repairing|Auditing|Testing) .*)"
    r"\.\.\."
)


@dataclass(frozen=True)
class Selection:
    """The wheels to build."""

    system: str
    """linux, macos or windows, which cibuildwheel calls a platform."""
    identifiers: tuple[str, ...] = ()
    """Build identifiers of cibuildwheel; empty for all that the source distribution's configuration selects."""
    allowed: tuple[str, ...] = ()
    """Without identifiers: of which the configuration selects; empty for all."""

    @property
    def options(self) -> tuple[str, ...]:
        """Command-line options of cibuildwheel."""
        # Identifiers may be for architectures that this machine emulates; without them cibuildwheel builds
        # for its own.
        archs = ("--archs", "all") if self.identifiers else ()
        return ("--platform", self.system, *archs)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of cibuildwheel; its option `--only` takes a single identifier."""
        if not self.identifiers:
            allowed = {"CIBW_BUILD": " ".join(self.allowed)} if self.allowed else {}
            return {} if "CIBW_BUILD" in os.environ else allowed
        # What was asked for by name must not be dropped by a `skip` in the project.
        return {"CIBW_BUILD": " ".join(self.identifiers), "CIBW_SKIP": ""}


def select(
    system: str | None,
    identifiers: Sequence[str],
    platforms: Sequence[str] | None = None,
    pythons: Sequence[str] = PYTHONS,
) -> Selection:
    """Returns the selection that the options of a command stand for.

    Args:
        system: linux, macos or windows; by default that of the identifiers, or else this machine's.
        identifiers: Build identifiers of cibuildwheel; each may name several, separated by blanks.
        platforms: Without identifiers, the platforms of wheels that may be built (`[build]` of modelwheel.toml).
        pythons: The same for Pythons, some of `PYTHONS`.

    Raises:
        UsageError: The identifiers are for several systems, or not for `system`, or `platforms` has none of it.
    """
    names = tuple(dict.fromkeys(name for text in identifiers for name in text.split()))
    systems = {_system_of(name) for name in names} | ({system} if system else set())
    if len(systems) > 1:
        raise UsageError(
            f"one run builds for one system, not for {', '.join(sorted(map(str, systems)))}; "
            "run `modelwheel wheel` once for each",
            code="MW204",
        )
    chosen = systems.pop() if systems else host_system()
    if chosen in SYSTEMS:
        return Selection(chosen, names, () if names else _allowed(chosen, platforms, pythons))
    raise UsageError(f"{chosen!r} is not a system; choose from {', '.join(SYSTEMS)}", code="MW204")


def _allowed(
    system: str, platforms: Sequence[str] | None, pythons: Sequence[str]
) -> tuple[str, ...]:
    """The build identifiers of one system that `[build]` leaves; empty if it leaves all."""
    if platforms is None and tuple(pythons) == PYTHONS:
        return ()
    every = WHEEL_PLATFORMS if platforms is None else platforms
    ours = [p for p in map(WHEEL_PLATFORMS.__getitem__, every) if p.objects.system == system]
    if not ours:
        raise UsageError(
            f"[build] platforms of modelwheel.toml has none of {system}; add one, or pass --only IDENTIFIER",
            code="MW204",
        )
    return tuple(f"{python}-{platform.cibuildwheel}" for platform in ours for python in pythons)


def _system_of(identifier: str) -> str:
    python, _, platform = identifier.partition("-")
    system = SYSTEM_OF_TAG_WORD.get(platform.partition("_")[0])
    if not python or system is None:
        raise UsageError(
            f"{identifier!r} is not a build identifier of cibuildwheel; an example is "
            "cp312-manylinux_x86_64 (`cibuildwheel --print-build-identifiers SDIST` lists all of them)",
            code="MW204",
        )
    return system


def build_wheels(
    sdists: Sequence[Path], selection: Selection, out: Path, report: Callable[[str], None]
) -> Iterator[Outcome]:
    """Builds, repairs, audits and tests the wheels of each source distribution, one after the other.

    A failure leaves nothing in `out`, and the other source distributions are still built.

    Args:
        sdists: Files made by `modelwheel compile` or `modelwheel runtime`.
        selection: The wheels to build.
        out: The directory for finished wheels; created if missing.
        report: Called with each line of cibuildwheel's output.

    Raises:
        EnvironmentProblemError: cibuildwheel is missing, or no container engine works.
    """
    require_cibuildwheel()
    environment = {**os.environ, **selection.environment, **_settings()}
    if selection.system == "linux":
        # cibuildwheel itself would take docker, whether or not it works.
        environment["CIBW_CONTAINER_ENGINE"] = container_setting(environment)
    out.mkdir(parents=True, exist_ok=True)
    for sdist in sdists:
        build = partial(_build, sdist.absolute(), selection, out, environment, report)
        yield record_outcome(sdist, build)


def require_cibuildwheel() -> None:
    """Checks that cibuildwheel is installed.

    Raises:
        EnvironmentProblemError: It is not.
    """
    if importlib.util.find_spec("cibuildwheel") is None:
        raise EnvironmentProblemError(
            "building the wheels of a release requires cibuildwheel, which is not installed: "
            'pip install "modelwheel[release]" (Python 3.11 or newer)',
            code="MW721",
        )


def _settings() -> dict[str, str]:
    """Environment variables for every build; the caller's own values take precedence."""
    audit = (*module_command("modelwheel"), "audit")
    # cibuildwheel hands the command to the shell of the system.
    quoted = subprocess.list2cmdline(audit) if sys.platform == "win32" else shlex.join(audit)
    settings = {
        "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
        "CIBW_AUDIT_COMMAND": f"{quoted} {{wheel}}",  # outside of the container, before the tests
        # Nothing to install: the audit is that of the running modelwheel.
        "CIBW_AUDIT_REQUIRES": "",
        # Faster than pip, and downloads nothing from a code host; the images of manylinux include uv.
        "CIBW_BUILD_FRONTEND": "build[uv]",
    }
    return {name: value for name, value in settings.items() if name not in os.environ}


def _before_test(project: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """`before-test` of a project that needs modelwheel-runtime, for environments of uv, which have no pip."""
    if not environment["CIBW_BUILD_FRONTEND"].startswith("build[uv]"):
        return {}
    # The file itself, as in `cibuildwheel.toml.inc`: never the newest version that some index has.
    needed = sorted(path.name for path in (project / NEEDED).glob("*.tar.gz"))
    if not needed:
        return {}
    return {"CIBW_BEFORE_TEST": f"uv pip install {{project}}/{NEEDED}/{needed[0]}"}


def _build(
    sdist: Path,
    selection: Selection,
    out: Path,
    environment: Mapping[str, str],
    report: Callable[[str], None],
) -> tuple[Path, ...]:
    with temporary_directory("sdist") as directory:
        project = unpack(sdist, directory)
        compiled = {path.name for path in project.glob("platforms/*")}
        environment = {**_before_test(project, environment), **environment}
    _require_machine_code(sdist, compiled, find_identifiers(sdist, selection, environment))
    # Wheels appear in `out` all together, after the last one has passed its tests.
    with temporary_directory("building", out) as finished:
        command = _cibuildwheel(*selection.options, "--output-dir", finished, sdist)
        done = stream(command, report, env=environment)
        if done.returncode != 0:
            raise _failure(sdist, done)
        return tuple(wheel.replace(out / wheel.name) for wheel in sorted(finished.glob("*.whl")))


def _cibuildwheel(*arguments: str | Path) -> tuple[str | Path, ...]:
    return (*module_command("cibuildwheel"), *arguments)


def find_identifiers(
    sdist: Path, selection: Selection, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """The build identifiers that cibuildwheel selects for a source distribution.

    Raises:
        UsageError: An identifier in the selection does not exist.
        WheelError: Nothing is selected, or the configuration is invalid.
    """
    # cibuildwheel ignores an identifier that does not exist if there is another one: a typo would go unnoticed.
    command = _cibuildwheel(*selection.options, "--print-build-identifiers", sdist)
    done = run(command, env=environment, check=False)
    identifiers = tuple(done.text.split())
    if done.returncode != 0:
        raise _failure(sdist, done)
    if unknown := set(selection.identifiers).difference(identifiers):
        raise UsageError(
            _unknown_identifier(min(unknown), sdist, selection, environment), code="MW204"
        )
    if not identifiers:
        raise WheelError(
            f"{sdist.name}: no wheel is selected for {selection.system}; check CIBW_BUILD, CIBW_SKIP and "
            "CIBW_ARCHS, and [tool.cibuildwheel] in its pyproject.toml",
            code="MW604",
        )
    return identifiers


def _unknown_identifier(
    name: str, sdist: Path, selection: Selection, environment: Mapping[str, str]
) -> str:
    everything = {**environment, "CIBW_BUILD": "*"}
    command = _cibuildwheel(*selection.options, "--print-build-identifiers", sdist)
    known = run(command, env=everything, check=False).text.split()
    near = ", ".join(difflib.get_close_matches(name, known, 3)) or ", ".join(known)
    return f"cibuildwheel cannot build {name!r} of {sdist.name}; did you mean one of {near}?"


def _require_machine_code(sdist: Path, compiled: set[str], identifiers: Sequence[str]) -> None:
    """Raises at once the error that CMake would report minutes later, in a container."""
    if not compiled:  # modelwheel-runtime has no machine code
        return
    platforms = {known.cibuildwheel: known.platform for known in WHEEL_PLATFORMS.values()}
    for identifier in identifiers:
        ending = identifier.partition("-")[2]
        platform = platforms.get(ending, ending)
        if platform not in compiled:
            known = ", ".join(name for name in PLATFORMS if name in compiled)
            raise WheelError(
                f"{sdist.name} has no machine code for {platform}, which {identifier} requires; it was compiled "
                f"for {known}. Compile it again with `modelwheel compile --platform {platform}`",
                code="MW603",
            )


def _failure(sdist: Path, done: Completed) -> ModelwheelError:
    """The error for a failed run: the step that failed, from cibuildwheel's last heading, and the last lines."""
    text = _COLOUR.sub("", f"{done.text}\n{done.stderr.decode(errors='replace')}")
    lines = [line.rstrip() for line in text.splitlines()]
    identifier, step = "", ""
    # cibuildwheel has no machine-readable log; its headings are "Building X wheel" and "Step...".
    for line in lines:
        if heading := _BUILDING.fullmatch(line):
            identifier = heading[1]
        elif heading := _STEP.fullmatch(line):
            step = heading[1]
    tail = "\n".join([line for line in lines if line][-_TAIL_LINES:])
    if step.startswith(_STARTING):
        return EnvironmentProblemError(
            f"cannot start the container image {step.removeprefix(_STARTING)}; pull it, or set another image "
            f"in CIBW_MANYLINUX_X86_64_IMAGE or the variable for your platform:\n{tail}",
            code="MW721",
        )
    if done.returncode == _AUDIT_REFUSED:
        return WheelError(
            f"{sdist.name}: the audit rejected the wheel {identifier}:\n{tail}", code="MW604"
        )
    what = f"{identifier}: {step[:1].lower()}{step[1:]}" if step else "cibuildwheel"
    return WheelError(f"{sdist.name}: {what} failed:\n{tail}", code="MW604")
