"""An environment with another TensorFlow and this modelwheel."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from .. import extras
from ..errors import EnvironmentProblemError, UsageError
from ..util.processes.process import ProcessError, run
from ..util.watching import Watcher, step
from ..versions import TENSORFLOW_VARIABLE, TENSORFLOW_VERSION

_PROJECT = "modelwheel"
_DONE = ".complete"
_PINNED = ("tensorflow", "tensorflow-cpu", "tf-keras", "tf_keras", _PROJECT)
"""Distributions that the candidate decides, or that are installed by themselves."""


_EXTRAS = ("jax", "onnx", "keras", "s3", "gs", "abfs", "cluster")
"""What a candidate has, too, if it is installed here."""


@dataclass(frozen=True)
class Installation:
    """A Python with a TensorFlow and modelwheel."""

    python: Path
    tensorflow: str
    """Its version."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of its commands."""
        return {**os.environ, TENSORFLOW_VARIABLE: self.tensorflow}


def this_installation() -> Installation:
    """The one that runs this."""
    return Installation(Path(sys.executable), TENSORFLOW_VERSION)


def parse_candidate(text: str) -> str:
    """The version in `tensorflow==VERSION`.

    Raises:
        UsageError: It is something else, or the version that is used already.
    """
    try:
        requirement = Requirement(text)
        versions = [clause.version for clause in requirement.specifier if clause.operator == "=="]
    except InvalidRequirement:
        requirement, versions = None, []
    if requirement is None or requirement.name != "tensorflow" or len(versions) != 1:
        raise UsageError(
            f"{text!r} is not of the form tensorflow==VERSION, such as tensorflow==2.22.0"
        )
    if "*" in versions[0]:
        raise UsageError(f"{text!r} names many versions; name one, such as tensorflow==2.22.0")
    if Version(versions[0]) == Version(TENSORFLOW_VERSION):
        raise UsageError(f"TensorFlow {TENSORFLOW_VERSION} is the version that is used already")
    return versions[0]


def install_candidate(version: str, directory: Path, watcher: Watcher) -> Installation:
    """Makes an environment with a TensorFlow and this modelwheel; one that was made before is used again.

    Args:
        version: Of TensorFlow.
        directory: Where environments are; created if needed.
        watcher: Receives the name of this step.

    Raises:
        EnvironmentProblemError: pip cannot install it.
    """
    place = directory / f"tensorflow-{version}"
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    installed = Installation(python, version)
    if (place / _DONE).exists():
        return installed
    with step(f"install tensorflow {version}", watcher):
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            run([sys.executable, "-I", "-m", "venv", place])
            pip: list[str | Path] = [
                python,
                "-I",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]
            run([*pip, f"tensorflow=={version}", *_others()])
            run([*pip, "--no-deps", *_this_project()])
        except ProcessError as error:
            raise EnvironmentProblemError(
                f"cannot install TensorFlow {version} into {place}: {error}"
            ) from None
        (place / _DONE).touch()
    return installed


def _others() -> Iterator[str]:
    """The packages that modelwheel needs beside TensorFlow, in the versions that are installed here.

    Only those of extras that are installed here; so both builds differ in TensorFlow alone.
    """
    names = {"build", *(extra for extra in _EXTRAS if not extras.missing(extra))}
    needed = {name for extra in names for name in extras.distributions(extra)}
    core = (Requirement(text) for text in metadata.requires(_PROJECT) or ())
    needed |= {
        requirement.name
        for requirement in core
        if not requirement.marker or requirement.marker.evaluate({"extra": ""})
    }
    for name in sorted(needed.difference(_PINNED)):
        yield f"{name}=={metadata.version(name)}"


def _this_project() -> tuple[str, ...]:
    """The argument of pip for this modelwheel: its directory if it is installed from one."""
    origin_text = metadata.distribution(_PROJECT).read_text("direct_url.json")
    origin = json.loads(origin_text) if origin_text else {}
    url = origin.get("url")
    if not isinstance(url, str):
        return (f"{_PROJECT}=={metadata.version(_PROJECT)}",)
    if origin.get("dir_info", {}).get("editable"):
        return ("--editable", url)
    return (url,)
