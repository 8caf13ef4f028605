"""The container engine, which cibuildwheel builds Linux wheels in."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from ..errors import EnvironmentProblemError
from ..util.processes.process import ProcessError, ProcessTimeoutError, run

ENGINES = ("docker", "podman")
"""The engines that cibuildwheel supports, the preferred one first."""

_ANSWER_SECONDS = 20.0
"""A daemon that is being started by its socket takes a few seconds to answer."""


def container_setting(environment: Mapping[str, str]) -> str:
    """The value of CIBW_CONTAINER_ENGINE for an environment; see `find_engine`.

    Unless the caller decides, containers do not see the files of this machine, which cibuildwheel would
    mount at `/host`: they build and test, as root, what strangers may have written.
    """
    engine = find_engine(environment)
    is_chosen = "CIBW_CONTAINER_ENGINE" in environment
    return engine if is_chosen else f"{engine}; disable_host_mount: true"


def find_engine(environment: Mapping[str, str]) -> str:
    """Returns the container engine: the value of CIBW_CONTAINER_ENGINE, or else the first engine that works.

    Raises:
        EnvironmentProblemError: No engine is installed, or none answers.
    """
    chosen = environment.get("CIBW_CONTAINER_ENGINE")
    candidates = [chosen] if chosen else [name for name in ENGINES if shutil.which(name)]
    problems = []
    for candidate in candidates:
        # cibuildwheel also takes options of the engine: "docker; create_args: --gpus all".
        name = candidate.partition(";")[0].removeprefix("name:").strip()
        problem = _find_problem(name, environment)
        if problem is None:
            return candidate
        problems.append(f"{name}: {problem}")
    if problems:
        raise EnvironmentProblemError(
            "wheels for Linux are built in containers, but the container engine does not work "
            f"({'; '.join(problems)}). Fix it, name another one in CIBW_CONTAINER_ENGINE, or build "
            "without containers: modelwheel wheel --cross manylinux_2_17_x86_64",
            code="MW724",
        )
    raise EnvironmentProblemError(
        f"wheels for Linux are built in containers, but neither {' nor '.join(ENGINES)} is installed. "
        "Install one of them, or build without containers: modelwheel wheel --cross manylinux_2_17_x86_64",
        code="MW724",
    )


def _find_problem(name: str, environment: Mapping[str, str]) -> str | None:
    """Why an engine does not work. `version` asks the daemon too, so that an installed client alone is not enough."""
    try:
        answer = run([name, "version"], env=environment, check=False, timeout=_ANSWER_SECONDS)
    except ProcessTimeoutError:
        return f"`{name} version` does not answer"
    except ProcessError:
        return "it is not installed"
    if answer.returncode == 0:
        return None
    output = answer.stderr.decode(errors="replace").strip()
    return output.rpartition("\n")[2] or f"`{name} version` fails with no output"
