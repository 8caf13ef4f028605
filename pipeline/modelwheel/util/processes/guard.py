"""Ends programs whose caller is killed: a small process that sees the end of this one kills what is left of them.

A process that gets SIGKILL cannot end what it has started, and the kernel's own means (PR_SET_PDEATHSIG) reaches a
program, but not the compilers that it has started. Windows has no such process: a program ends there with its own work.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

# Sessions as `groups.kill_session` reads them; this program imports nothing but Python's own modules.
_PROGRAM = """
import os, signal
left = set()
with open(0, "rb") as told:
    for line in told:
        (left.add if line.startswith(b"+") else left.discard)(int(line[1:]))
def session(pid):
    try:
        with open("/proc/%s/stat" % pid, encoding="latin-1") as file:
            state, _, _, found = file.read().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else int(found)
def others():
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [int(name) for name in names if name.isdecimal() and session(name) in left]
for group in left:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
for _ in range(100):
    found = others()
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    if not found:
        break
"""

_channel: list[int] = []
"""Where the guard of this process reads; it is started with the first program."""


def watch(group: int) -> None:
    """From now on a process group is killed when this process ends in any way."""
    if not hasattr(os, "posix_spawn"):
        return
    if not _channel:
        _channel.append(_start())
    _tell(f"+{group}\n")


def forget(group: int) -> None:
    """A process group has ended: its number may be another's from now on."""
    if _channel:
        _tell(f"-{group}\n")


def _tell(line: str) -> None:
    with suppress(BrokenPipeError):  # somebody has ended the guard
        os.write(_channel[0], line.encode())


def _start() -> int:
    reader, writer = os.pipe()
    quiet = (1, os.devnull, os.O_WRONLY, 0)
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", _PROGRAM],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, reader, 0),
            # It must not keep the pipes open that our own caller reads.
            (os.POSIX_SPAWN_OPEN, *quiet),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,  # Ctrl-C is for us
    )
    os.close(reader)
    return writer


def _forget_guard() -> None:
    # A fork that lives longer than this process would keep the guard waiting.
    while _channel:
        os.close(_channel.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_guard)
