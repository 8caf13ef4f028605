"""The rights of a sandboxed program: the policy, the limits, the files and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ..errors import EnvironmentProblemError

_INHERITED = frozenset(
    ["PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT", "WINDIR"]
)
"""Variables that programs need to start and to format what they print; none holds a secret."""

_TEMPORARY = ("TMPDIR", "TEMP", "TMP")
_HOME = ("HOME", "USERPROFILE")


class SandboxError(EnvironmentProblemError):
    """A sandbox is required and none works here, or one could not be set up."""

    code = "MW723"


class Policy(str, Enum):
    """The choice for a machine that has no sandbox."""

    REQUIRED = "required"
    """Refuse to run anything."""
    PREFERRED = "preferred"
    """Use the best one there is; without one, warn and run."""
    OFF = "off"
    """Use none, even if there is one."""


@dataclass(frozen=True)
class Limits:
    """Limits of a sandboxed program; None means no limit."""

    memory_bytes: int | None = None
    """Private memory of each process. Address space is limited to more, see `rlimits`."""
    cpu_seconds: int | None = None
    """CPU time of each process."""
    wall_seconds: float | None = None
    """Enforced by whoever waits for the program, with `wait.wait_within`."""
    reading_seconds: float | None = None
    """In place of `wall_seconds` where a model is only read, as far as it is less."""
    processes: int | None = None
    """1 allows threads, but no other process; otherwise threads count too. Root has no limit above 1."""
    file_bytes: int | None = None
    """Size of each file."""


@dataclass(frozen=True)
class Access:
    """The files of a sandboxed program in addition to those of the system and of Python.

    Attributes:
        read: Files and directories that it may read; what does not exist is left out.
        write: The one directory that it may change: also its working directory, its home and its
            place for temporary files. It exists.

    Raises:
        ValueError: A path of `read` is inside `write`, where it could not be protected.
    """

    read: tuple[Path, ...]
    write: Path

    def __post_init__(self) -> None:
        write = self.write.resolve()
        for path in self.read:
            if path.resolve().is_relative_to(write):
                raise ValueError(f"{path} is inside {self.write}, which can be written")


def environment(
    extra: Mapping[str, str], inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a sandboxed program: a few inherited variables and those of `extra`.

    Args:
        extra: Variables to add.
        inherited: The variables to choose from; by default those of this process.
    """
    source = os.environ if inherited is None else inherited
    chosen = {
        name: value
        for name, value in source.items()
        if name.upper() in _INHERITED or name.startswith("LC_")
    }
    return {**chosen, **extra}


def with_home(variables: Mapping[str, str], directory: Path) -> dict[str, str]:
    """The variables with a directory as home and as the place for temporary files."""
    return {**variables, **dict.fromkeys((*_TEMPORARY, *_HOME), str(directory))}
