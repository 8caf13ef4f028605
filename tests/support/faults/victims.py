"""Processes that are killed: forked from the test's own, which has everything imported, and examined for what they leave."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import psutil

_PR_SET_CHILD_SUBREAPER = 36
"""From sys/prctl.h: what a killed process leaves becomes a child of this process."""

_SURVIVORS_SECONDS = 30.0
"""Programs that compile a wheel end on their own; workers have to end at once."""


def adopt_orphans() -> None:
    """Makes this process the parent of whatever its descendants leave; Linux only."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl failed")


def kill_largest(pid: int) -> int:
    """Kills the descendant of a process that uses most memory, as the system does when none is left; returns its number."""
    family = psutil.Process(pid).children(recursive=True)
    largest = max(family, key=lambda child: child.memory_info().rss)
    largest.kill()
    return largest.pid


class Victim:
    """A process forked from this one, which has everything imported; it reports on a pipe.

    Args:
        work: Called in the process; it prints what it does.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._known = {child.pid for child in psutil.Process().children(recursive=True)}
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            _run(work, writer)
        os.close(writer)
        self.lines = os.fdopen(reader, encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """Kills it, and nothing that it has started."""
        os.kill(self.pid, signal.SIGKILL)

    def finish(self) -> tuple[int, list[str]]:
        """Its exit code, once it has ended, and the lines that have not been read."""
        # Not to the end of the pipe: whatever survives it may hold the other end.
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.set_blocking(self.lines.fileno(), False)
        rest = []
        with suppress(BlockingIOError, TypeError):  # TypeError: CPython 3.10, for the same reason
            rest = self.lines.readlines()
        self.lines.close()
        return code, [line.strip() for line in rest]

    def survivors(self) -> tuple[list[str], float]:
        """What it has left running after a while, and how long the last process took to end."""
        start = time.monotonic()
        while True:
            alive = [
                child for child in psutil.Process().children(recursive=True) if self._left(child)
            ]
            waited = time.monotonic() - start
            if not alive:
                return [], waited
            if waited > _SURVIVORS_SECONDS:
                left = [str(child) for child in alive]
                for child in alive:
                    with suppress(psutil.NoSuchProcess):
                        child.kill()
                return left, waited
            time.sleep(0.02)

    def _left(self, child: psutil.Process) -> bool:
        if child.pid in self._known:  # such as a package index
            return False
        with suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                return True
            with suppress(ChildProcessError):  # another's child, which has to see to it itself
                os.waitpid(child.pid, os.WNOHANG)
        return False


def _run(work: Callable[[], object], writer: int) -> NoReturn:
    code = 1
    try:
        for number in (1, 2):
            os.dup2(writer, number)
        # New ones: those of before may have been files, in which they know their place.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 - reported by the exit code and this line
        say(f"{type(error).__name__}: {error}")
    finally:
        with suppress(ValueError):
            sys.stdout.flush()
        os._exit(code)


def say(line: str) -> None:
    """Tells the process that will kill this one."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
