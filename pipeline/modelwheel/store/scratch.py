"""Temporary directories that are removed in the end even if their process is killed.

Each process has one directory below a common parent and keeps a lock next to it until it ends. The
next process removes the directories whose locks are free.
"""

from __future__ import annotations

import atexit
import os
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from ..util.removal import remove_tree


class ScratchSpace:
    """Temporary directories of this process; any number of threads may use it at once.

    Args:
        parent: Common to all processes; created on first use. By default, it is in the system's directory for temporary
            files, and belongs to this user.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._guard = threading.Lock()
        self._own: Path | None = None
        self._remove: Callable[[], object] | None = None

    def make_directory(self) -> Path:
        """A new, empty directory, which stays until this process ends or `close` is called."""
        with self._guard:
            if self._own is None:
                parent = self._parent or _parent_of_user()
                if parent is None:
                    # A name that nobody can know before. It stays if this process is killed.
                    self._own, lock = Path(tempfile.mkdtemp(prefix="modelwheel-")), None
                else:
                    self._own, lock = _open(parent)
                self._remove = partial(_remove, self._own, lock, os.getpid())
                atexit.register(self._remove)
            return Path(tempfile.mkdtemp(dir=self._own))

    def close(self) -> None:
        """Removes every directory made here."""
        with self._guard:
            if self._remove is not None:
                atexit.unregister(self._remove)
                self._remove()
                self._own = self._remove = None


def _parent_of_user() -> Path | None:
    """A directory for temporary files in which no other user can write; None if one of them has taken its name."""
    # On Windows, each user has an own directory for temporary files.
    user = os.getuid() if hasattr(os, "getuid") else None
    path = Path(tempfile.gettempdir(), "modelwheel" if user is None else f"modelwheel-{user}")
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    private = user is None or (status.st_uid == user and not status.st_mode & 0o077)
    return path if stat.S_ISDIR(status.st_mode) and private else None


def _open(parent: Path) -> tuple[Path, FileLock]:
    """A directory for this process, and a lock that shows others that the process is alive."""
    parent.mkdir(parents=True, exist_ok=True)
    # Held until the liveness lock is taken: others would remove a directory without one as stale.
    with FileLock(parent / ".lock"):
        _remove_stale(parent)
        directory = Path(tempfile.mkdtemp(prefix="process-", dir=parent))
        # By default, only the thread that took a lock can release it; any may call `close`.
        lock = FileLock(_liveness(directory), thread_local=False)
        lock.acquire()
    return directory, lock


def _remove(directory: Path, lock: FileLock | None, owner: int) -> None:
    if os.getpid() != owner:  # in a forked child
        return
    if lock is None:
        remove_tree(directory)
    else:
        _discard(directory, lock)


def _discard(directory: Path, lock: FileLock) -> None:
    """Removes a directory whose lock this process has, and then the lock."""
    remove_tree(directory)
    lock.release()
    with suppress(OSError):  # Windows: another process is looking whether it can be taken
        _liveness(directory).unlink()


def _liveness(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.lock")


def _remove_stale(parent: Path) -> None:
    """Removes the directories of processes that have ended."""
    # Of directories and of locks: a process may have been killed between removing the two.
    names = {path.name.removesuffix(".lock") for path in parent.glob("process-*")}
    for directory in (parent / name for name in names):
        lock = FileLock(_liveness(directory))
        try:
            lock.acquire(timeout=0)
        # Not only taken: it may be another user's, or something that is not a file.
        except (Timeout, OSError):
            continue
        _discard(directory, lock)
