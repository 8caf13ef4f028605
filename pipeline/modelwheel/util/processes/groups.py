"""Process groups: ends a program together with everything that it started, on every system.

Start a program with `Popen(..., start_new_session=True, creationflags=CREATION_FLAGS)`; each system
ignores the half that is not its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import Any

CREATION_FLAGS: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
"""On Windows, keeps Ctrl-C in the console away from the program, as a new session does elsewhere."""


_ROUNDS = 100
"""A program may start others while they are listed."""


def interrupt_group(process: subprocess.Popen[Any]) -> None:
    """Asks a program and its children to stop, as Ctrl-C does in a terminal."""
    with suppress(OSError):  # it has ended, or (on Windows) there is no console
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGINT)
        else:
            # The only event that reaches a process group of Windows.
            process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kills a program and its children at once; harmless if it has ended."""
    if process.poll() is not None:  # its number may belong to another process by now
        return
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
        kill_session(process.pid)
    else:
        _kill_tree(process)


def kill_session(leader: int) -> None:
    """Kills what is left of a session: ninja gives each compiler a group of its own. Only Linux shows sessions."""
    for _ in range(_ROUNDS):
        left = [pid for pid in _processes() if _session(pid) == leader]
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return []


def _session(pid: int) -> int | None:
    """The session of a process; None if it has ended, also if nobody has waited for it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:  # noqa: PTH123 - hundreds of them
            state, _, _, session = file.read().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else int(session)


def _kill_tree(process: subprocess.Popen[Any]) -> None:
    """Kills the descendants that can be found. One whose own parent has ended cannot be."""
    try:
        import psutil
    except ModuleNotFoundError:
        subprocess.run(
            ["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False
        )
        return
    with suppress(psutil.Error):
        # Listed while the program lives: psutil lists no children of a process that has ended.
        descendants = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in descendants:
            with suppress(psutil.Error):
                child.kill()
