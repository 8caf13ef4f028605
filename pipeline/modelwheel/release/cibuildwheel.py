"""From model source distributions to the wheels of a release: drives cibuildwheel, judges each wheel.

What is built and how is written once, in the `[tool.cibuildwheel]` table that every source distribution
carries; its caller's CIBW_* environment variables (images, container engine, ...) take precedence over it.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import EnvironmentProblemError, ModelwheelError, UsageError, WheelError
from ..packaging.sdist import unpack
from ..packaging.template import SOURCE_DATE_EPOCH
from ..platforms import PLATFORMS, SYSTEM_OF_TAG_WORD, SYSTEMS, WHEEL_PLATFORMS, host_system
from ..util.process import Completed, ProcessError, run, stream

ENGINES = ("docker", "podman")
"""Container engines that cibuildwheel drives, the preferred one first."""

_TAIL_LINES = 20

_AUDIT_REFUSED = 9
"""The exit code of cibuildwheel where an audit command fails (its `errors.py`)."""

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_BUILDING = re.compile(r"Building (\S+) wheel")
_STARTING = "Starting container image "
_STEP = re.compile(
    rf"(?:::group::|##\[group\])?({_STARTING}\S+|(?:Copying|Setting up|Running|Building|Repairing|Auditing|Testing) .*)"
    r"\.\.\."
)


@dataclass(frozen=True)
class Selection:
    """Which wheels are built."""

    system: str
    """linux, macos or windows, which cibuildwheel calls a platform."""
    identifiers: tuple[str, ...] = ()
    """Those of cibuildwheel; empty for all that the source distribution's configuration names."""

    @property
    def options(self) -> tuple[str, ...]:
        """The command line of cibuildwheel."""
        archs = ("--archs", "all") if self.identifiers else ()
        return ("--platform", self.system, *archs)

    @property
    def environment(self) -> dict[str, str]:
        """What only environment variables can say: cibuildwheel takes no more than one `--only`."""
        if not self.identifiers:
            return {}
        return {"CIBW_BUILD": " ".join(self.identifiers), "CIBW_SKIP": ""}


@dataclass(frozen=True)
class Outcome:
    """What became of one source distribution."""

    sdist: Path
    wheels: tuple[Path, ...]
    """Empty if it failed."""
    seconds: float
    error: ModelwheelError | None = None

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "sdist": str(self.sdist),
            "wheels": [str(wheel) for wheel in self.wheels],
            "seconds": round(self.seconds, 1),
            "error": None if self.error is None else str(self.error),
        }


def select(system: str | None, identifiers: Sequence[str]) -> Selection:
    """Understands what a user asks for.

    Args:
        system: linux, macos or windows; that of the identifiers, or of this machine, by default.
        identifiers: Build identifiers of cibuildwheel; each may name several, separated by blanks.

    Raises:
        UsageError: They are for several systems, or for another than `system`.
    """
    names = tuple(dict.fromkeys(name for text in identifiers for name in text.split()))
    systems = {_system_of(name) for name in names} | ({system} if system else set())
    if len(systems) > 1:
        raise UsageError(
            f"one run builds for one system, but {', '.join(sorted(map(str, systems)))} are asked for; "
            "call `modelwheel wheel` once for each"
        )
    chosen = systems.pop() if systems else host_system()
    if chosen in SYSTEMS:
        return Selection(chosen, names)
    raise UsageError(f"{chosen!r} is not a system; choose from {', '.join(SYSTEMS)}")


def _system_of(identifier: str) -> str:
    python, _, platform = identifier.partition("-")
    system = SYSTEM_OF_TAG_WORD.get(platform.partition("_")[0])
    if not python or system is None:
        raise UsageError(
            f"{identifier!r} is no build identifier of cibuildwheel; they look like "
            "cp312-manylinux_x86_64 (`cibuildwheel --print-build-identifiers SDIST` lists all)"
        )
    return system


def build_wheels(
    sdists: Sequence[Path], selection: Selection, out: Path, report: Callable[[str], None]
) -> Iterator[Outcome]:
    """Builds, repairs, audits and tests wheels of each source distribution, one after the other.

    One that fails leaves nothing behind in `out` and does not keep the others from being built.

    Args:
        sdists: Files that `modelwheel compile` or `modelwheel runtime` made.
        selection: Which of their wheels.
        out: Where wheels are put when they are whole; made if missing.
        report: Takes each line of cibuildwheel's output.

    Raises:
        EnvironmentProblemError: cibuildwheel or the container engine is missing or does not work.
    """
    require_cibuildwheel()
    environment = {**os.environ, **selection.environment, **_settings()}
    if selection.system == "linux":
        environment["CIBW_CONTAINER_ENGINE"] = find_engine(environment)
    out.mkdir(parents=True, exist_ok=True)
    for sdist in sdists:
        start = time.monotonic()
        try:
            wheels = _build(sdist.absolute(), selection, out, environment, report)
        except ModelwheelError as error:
            yield Outcome(sdist, (), time.monotonic() - start, error)
        else:
            yield Outcome(sdist, wheels, time.monotonic() - start)


def require_cibuildwheel() -> None:
    """Makes sure that cibuildwheel is there.

    Raises:
        EnvironmentProblemError: It is not.
    """
    if importlib.util.find_spec("cibuildwheel") is None:
        raise EnvironmentProblemError(
            "building the wheels of a release needs cibuildwheel, which is not installed: "
            'pip install "modelwheel[release]" (Python 3.11 or newer)'
        )


def _settings() -> dict[str, str]:
    """What is set for every build unless the caller did."""
    audit = (sys.executable, "-m", "modelwheel", "audit")
    quoted = subprocess.list2cmdline(audit) if sys.platform == "win32" else shlex.join(audit)
    settings = {
        "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
        "CIBW_AUDIT_COMMAND": f"{quoted} {{wheel}}",  # runs here, on the repaired wheel, before its tests
        "CIBW_AUDIT_REQUIRES": "",
        # Quicker than pip, and needs nothing of a code host; the images of manylinux have it.
        "CIBW_BUILD_FRONTEND": "build[uv]",
    }
    return {name: value for name, value in settings.items() if name not in os.environ}


def find_engine(environment: Mapping[str, str]) -> str:
    """The container engine: what CIBW_CONTAINER_ENGINE says, else the first one that works.

    Raises:
        EnvironmentProblemError: There is none, or it does not answer.
    """
    chosen = environment.get("CIBW_CONTAINER_ENGINE")
    candidates = [chosen] if chosen else [name for name in ENGINES if shutil.which(name)]
    problems = []
    for candidate in candidates:
        name = candidate.partition(";")[0].removeprefix("name:").strip()
        problem = _engine_problem(name, environment)
        if problem is None:
            return candidate
        problems.append(f"{name}: {problem}")
    if problems:
        raise EnvironmentProblemError(
            "wheels for Linux are built in containers, but the engine does not work here "
            f"({'; '.join(problems)}); mend that, or name another in CIBW_CONTAINER_ENGINE"
        )
    raise EnvironmentProblemError(
        f"wheels for Linux are built in containers, but neither {' nor '.join(ENGINES)} is installed; "
        "install one, or build without containers: modelwheel wheel --cross"
    )


def _engine_problem(name: str, environment: Mapping[str, str]) -> str | None:
    try:
        answer = run([name, "version"], env=environment, check=False)
    except ProcessError:
        return "it is not installed"
    if answer.returncode == 0:
        return None
    said = answer.stderr.decode(errors="replace").strip()
    return said.rpartition("\n")[2] or f"`{name} version` fails without a word"


def _build(
    sdist: Path,
    selection: Selection,
    out: Path,
    environment: Mapping[str, str],
    report: Callable[[str], None],
) -> tuple[Path, ...]:
    with tempfile.TemporaryDirectory(prefix="modelwheel-sdist-") as directory:
        project = unpack(sdist, Path(directory))
        compiled = {path.name for path in project.glob("platforms/*")}
    _require_machine_code(sdist, compiled, find_identifiers(sdist, selection, environment))
    with _aside(out) as finished:
        command = _cibuildwheel(*selection.options, "--output-dir", finished, sdist)
        done = stream(command, report, env=environment)
        if done.returncode != 0:
            raise _failure(sdist, done)
        return tuple(wheel.replace(out / wheel.name) for wheel in sorted(finished.glob("*.whl")))


def _cibuildwheel(*arguments: str | Path) -> tuple[str | Path, ...]:
    return (sys.executable, "-m", "cibuildwheel", *arguments)


def find_identifiers(
    sdist: Path, selection: Selection, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """What cibuildwheel would build of a source distribution.

    Raises:
        UsageError: An identifier of the selection does not exist.
        WheelError: There is nothing to build, or the configuration is wrong.
    """
    command = _cibuildwheel(*selection.options, "--print-build-identifiers", sdist)
    done = run(command, env=environment, check=False)
    found = tuple(done.text.split())
    if done.returncode != 0:
        raise _failure(sdist, done)
    if unknown := set(selection.identifiers).difference(found):
        raise UsageError(_unknown_identifier(min(unknown), sdist, selection, environment))
    if not found:
        raise WheelError(
            f"{sdist.name}: no wheel is selected for {selection.system}; look at CIBW_BUILD, CIBW_SKIP and "
            "CIBW_ARCHS, and at [tool.cibuildwheel] in its pyproject.toml"
        )
    return found


def _unknown_identifier(
    name: str, sdist: Path, selection: Selection, environment: Mapping[str, str]
) -> str:
    everything = {**environment, "CIBW_BUILD": "*"}
    command = _cibuildwheel(*selection.options, "--print-build-identifiers", sdist)
    known = run(command, env=everything, check=False).text.split()
    near = ", ".join(difflib.get_close_matches(name, known, 3)) or ", ".join(known)
    return f"cibuildwheel cannot build {name!r} of {sdist.name}; did you mean one of {near}?"


def _require_machine_code(sdist: Path, compiled: set[str], identifiers: Sequence[str]) -> None:
    """Says before anything is built what CMake would refuse after minutes."""
    if not compiled:  # the package of the shared binding holds none
        return
    platforms = {known.cibuildwheel: known.platform for known in WHEEL_PLATFORMS.values()}
    for identifier in identifiers:
        ending = identifier.partition("-")[2]
        platform = platforms.get(ending, ending)
        if platform not in compiled:
            known = ", ".join(name for name in PLATFORMS if name in compiled)
            raise WheelError(
                f"{sdist.name} has no machine code for {platform}, which {identifier} needs; it was compiled "
                f"for {known} (modelwheel compile --platform ...)"
            )


@contextmanager
def _aside(out: Path) -> Iterator[Path]:
    """A directory beside what is to be in `out`, on the same file system."""
    directory = Path(tempfile.mkdtemp(prefix=".building-", dir=out))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _failure(sdist: Path, done: Completed) -> ModelwheelError:
    """What went wrong, by the last headings in cibuildwheel's output, and the end of it."""
    text = _COLOUR.sub("", f"{done.text}\n{done.stderr.decode(errors='replace')}")
    lines = [line.rstrip() for line in text.splitlines()]
    identifier, step = "", ""
    for line in lines:
        if heading := _BUILDING.fullmatch(line):
            identifier = heading[1]
        elif heading := _STEP.fullmatch(line):
            step = heading[1]
    said = "\n".join([line for line in lines if line][-_TAIL_LINES:])
    if step.startswith(_STARTING):
        return EnvironmentProblemError(
            f"cannot start the container image {step.removeprefix(_STARTING)}; pull it, or name another in "
            f"CIBW_MANYLINUX_X86_64_IMAGE or the like:\n{said}"
        )
    if done.returncode == _AUDIT_REFUSED:
        return WheelError(f"{sdist.name}: the audit refuses the wheel {identifier}:\n{said}")
    what = f"{identifier}: {step[:1].lower()}{step[1:]}" if step else "cibuildwheel"
    return WheelError(f"{sdist.name}: {what} failed:\n{said}")
