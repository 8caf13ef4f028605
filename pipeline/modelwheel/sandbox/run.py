"""Runs a sandboxed program to its end, within its wall clock, and captures what it prints."""

from __future__ import annotations

import logging
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from ..util.processes.groups import kill_group
from ..util.processes.process import Completed, ProcessTimeoutError, known_to_kill_all
from ..util.words import time_text
from .choose import Sandbox
from .policy import Access, Limits

_log = logging.getLogger(__name__)

_PRINTED = 64 << 20
"""Bytes of each stream that are read; a report of a wheel has some kilobytes."""

_SHELL_SIGNALS = 128
"""Bubblewrap adds it to the number of the signal that ended a program, as shells do."""


def run_sandboxed(
    sandbox: Sandbox,
    argv: Sequence[str | Path],
    access: Access,
    limits: Limits,
    environment: Mapping[str, str],
) -> Completed:
    """Runs a program to its end; any exit code is returned.

    What it prints goes through files, so that the limit of file sizes holds for that too.

    Raises:
        SandboxError: It cannot be started.
        ProcessTimeoutError: It took longer than its wall clock and was killed.
    """
    _log.debug("sandbox (%s): $ %s", sandbox.name, " ".join(map(str, argv)))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = sandbox.start(argv, access, limits, environment, stdout=out, stderr=err)
        try:
            code = wait_within(process, limits.wall_seconds)
        except subprocess.TimeoutExpired:
            raise ProcessTimeoutError(
                f"`{argv[0]}` took longer than {time_text(limits.wall_seconds or 0.0)} and was stopped"
            ) from None
        return Completed(tuple(map(str, argv)), code, _content(out), _content(err))


def wait_within(process: subprocess.Popen[bytes], seconds: float | None) -> int:
    """Waits for a process that leads its group, and kills the group if that takes too long.

    Returns:
        The exit code, negative for a signal.

    Raises:
        subprocess.TimeoutExpired: It was killed.
    """
    with known_to_kill_all(process):
        try:
            return exit_code(process.wait(seconds))
        except BaseException:  # also Ctrl-C
            kill_group(process)
            process.wait()
            raise


def exit_code(code: int) -> int:
    """The exit code of a sandboxed program, negative for a signal in every sandbox.

    Args:
        code: What `Popen.wait` returned.
    """
    with suppress(ValueError):
        return -signal.Signals(code - _SHELL_SIGNALS).value
    return code


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(_PRINTED)
