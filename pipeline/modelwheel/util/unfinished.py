"""Files and directories that are not finished yet. What a killed process leaves of them, the next one removes.

Each is locked as long as its process works on it; the system ends the lock with the process. So what nobody holds is
left over. Windows has no such locks: nothing is removed there.
"""

from __future__ import annotations

import os
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from .removal import remove, remove_tree

if os.name != "nt":
    import fcntl

_PREFIX, _SUFFIX = "modelwheel-", ".tmp"

_cleared: set[Path] = set()
"""Directories that this process has looked through: once is enough."""


@contextmanager
def temporary_directory(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """A new directory, removed at exit; what killed processes have left beside it goes, too.

    Args:
        purpose: A word for people who find it.
        parent: Where it is, with a hidden name; by default in the system's directory for temporary files.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent.absolute()
    _clear(place)
    hidden = "" if parent is None else "."
    with ExitStack() as stack:
        while True:
            made = Path(tempfile.mkdtemp(_SUFFIX, f"{hidden}{_PREFIX}{purpose}-", place))
            stack.callback(remove_tree, made)
            if _hold(made, stack):
                break
        yield made


@contextmanager
def unfinished_file(target: Path) -> Iterator[Path]:
    """A new, empty file beside `target`, for what is then renamed to it; removed at exit if it is still there.

    Raises:
        OSError: It cannot be made.
    """
    _clear(target.parent.absolute())
    name = f".{_PREFIX}{target.name[:64]}-"
    with ExitStack() as stack:
        while True:
            made = target.with_name(f"{name}{uuid.uuid4().hex}{_SUFFIX}")
            stack.callback(_remove_quietly, made)
            made.touch(exist_ok=False)
            if _hold(made, stack):
                break
        yield made


def _remove_quietly(path: Path) -> None:
    with suppress(OSError):
        remove(path)


def _hold(path: Path, stack: ExitStack) -> bool:
    """Locks what this process has just made; False if another one has removed it meanwhile."""
    if os.name == "nt":
        return True
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        return False
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # taken for something left over
        return False
    except OSError:  # a file system without locks: nobody can take it for that
        return True
    return _is_at(path, descriptor)


def _clear(directory: Path) -> None:
    """Removes what killed processes of this user have left in a directory."""
    if os.name == "nt" or directory in _cleared:
        return
    _cleared.add(directory)
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX) and entry.name.lstrip(".").startswith(_PREFIX):
                with suppress(OSError):
                    _remove_if_left(Path(entry.path))


def _remove_if_left(path: Path) -> None:
    descriptor = _open(path)
    try:
        status = os.fstat(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if status.st_uid != os.geteuid() or not _is_at(path, descriptor):
            return
        if stat.S_ISDIR(status.st_mode):
            remove_tree(path)
        elif stat.S_ISREG(status.st_mode):
            path.unlink()
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    # Another user may have put something else there: a link is not followed, a pipe not waited for.
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)


def _is_at(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    return False
