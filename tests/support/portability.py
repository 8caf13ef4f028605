"""Linux made to behave like Windows, as far as modelwheel can see: names are missing, files resist."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

IS_WINDOWS = os.name == "nt"

POSIX_ONLY = {
    "os": frozenset(
        [
            "O_CLOEXEC",
            "O_DIRECTORY",
            "O_DSYNC",
            "O_NDELAY",
            "O_NOCTTY",
            "O_NOFOLLOW",
            "O_NONBLOCK",
            "O_PATH",
            "O_SYNC",
            "WEXITSTATUS",
            "WIFEXITED",
            "WIFSIGNALED",
            "WNOHANG",
            "WTERMSIG",
            "chown",
            "chroot",
            "confstr",
            "ctermid",
            "fchdir",
            "fchmod",
            "fchown",
            "fork",
            "forkpty",
            "fwalk",
            "getegid",
            "geteuid",
            "getgid",
            "getgroups",
            "getloadavg",
            "getpgid",
            "getpgrp",
            "getpriority",
            "getrusage",
            "getsid",
            "getuid",
            "initgroups",
            "killpg",
            "lchown",
            "lockf",
            "major",
            "makedev",
            "minor",
            "mkfifo",
            "mknod",
            "nice",
            "openpty",
            "pathconf",
            "posix_fadvise",
            "posix_fallocate",
            "posix_spawn",
            "posix_spawnp",
            "pread",
            "preadv",
            "pwrite",
            "pwritev",
            "sched_getaffinity",
            "sched_setaffinity",
            "sched_yield",
            "sendfile",
            "setegid",
            "seteuid",
            "setgid",
            "setpgid",
            "setpriority",
            "setsid",
            "setuid",
            "statvfs",
            "sync",
            "sysconf",
            "tcgetpgrp",
            "uname",
            "wait",
            "wait3",
            "wait4",
            "waitid",
        ]
    ),
    "signal": frozenset(
        [
            "SIGALRM",
            "SIGBUS",
            "SIGCHLD",
            "SIGCONT",
            "SIGHUP",
            "SIGKILL",
            "SIGPIPE",
            "SIGPROF",
            "SIGQUIT",
            "SIGSTOP",
            "SIGTSTP",
            "SIGTTIN",
            "SIGTTOU",
            "SIGUSR1",
            "SIGUSR2",
            "SIGVTALRM",
            "SIGXCPU",
            "SIGXFSZ",
            "alarm",
            "getitimer",
            "pause",
            "pthread_kill",
            "pthread_sigmask",
            "setitimer",
            "sigpending",
            "sigtimedwait",
            "sigwait",
            "sigwaitinfo",
            "siginterrupt",
        ]
    ),
}
"""What Windows lacks of these modules."""

POSIX_MODULES = frozenset(
    ["crypt", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"]
)


class _Without:
    """A module as Windows has it."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name in POSIX_ONLY[self._module.__name__]:
            raise AttributeError(f"Windows has no {self._module.__name__}.{name}")
        if (self._module.__name__, name) == ("os", "name"):
            return "nt"
        return getattr(self._module, name)


def behave_like_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides what Windows lacks from modelwheel, and lets nobody remove a read-only file.

    The libraries that modelwheel uses have their own halves for each system and keep Linux's.
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "modelwheel":
            for hidden in (os, signal):
                if getattr(module, hidden.__name__, None) is hidden:
                    monkeypatch.setattr(module, hidden.__name__, _Without(hidden))
    monkeypatch.setattr(shutil, "_use_fd_functions", False)  # it removes by os.unlink then
    for owner, method, number in ((Path, "replace", 1), (Path, "unlink", 0), (os, "unlink", 0)):
        monkeypatch.setattr(owner, method, _resisting(getattr(owner, method), number))


def _resisting(change: Any, number: int) -> Any:
    """The function, but refusing if its argument of that number is a read-only file."""

    def changed(*args: Any, **options: Any) -> Any:
        target = Path(args[number])
        if target.exists() and not target.is_dir() and not target.stat().st_mode & stat.S_IWRITE:
            raise PermissionError(errno.EACCES, "Access is denied", str(target))
        return change(*args, **options)

    return changed


@pytest.fixture(params=["here"] if IS_WINDOWS else ["here", "like-windows"])
def both_systems(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test twice: as the system is, and as if it were Windows. The value says which."""
    if request.param == "like-windows":
        behave_like_windows(monkeypatch)
    return str(request.param)
