"""Where the store is, and what to do when the disk or its permissions refuse."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from ..errors import StoreError

CACHE_VARIABLE = "MODELWHEEL_CACHE_DIR"

_ELSEWHERE = f"set {CACHE_VARIABLE} to a directory elsewhere"

# What is wrong and how to fix it, by error number. The second part of the fix is `_ELSEWHERE`.
_REASONS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "your disk quota is used up: free some space",
    errno.EFBIG: "the file would exceed the size limit of this process (`ulimit -f`): raise it",
    errno.EROFS: "the file system is read-only: make it writable",
    errno.EACCES: "permission denied: correct the permissions",
    errno.EPERM: "permission denied: correct the permissions",
    errno.EIO: "the disk reports an error: check it (`dmesg`)",
    errno.EISDIR: "there is a directory in place of a file: remove it",
    errno.ENOTDIR: "there is a file in place of a directory: remove it",
    errno.ELOOP: "there is a symbolic link in place of a file: remove it",
}

_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})

# ENXIO: a socket. ESTALE: network file systems. EBADMSG and EUCLEAN: failed checksums of a file system.
_DAMAGE = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EIO),
        *(getattr(errno, name, errno.EIO) for name in ("ESTALE", "EBADMSG", "EUCLEAN")),
    }
)


def default_root() -> Path:
    """The directory of the store: `$MODELWHEEL_CACHE_DIR`, else the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return (
        Path(chosen).expanduser().absolute()
        if chosen
        else platformdirs.user_cache_path("modelwheel")
    )


@contextmanager
def disk_errors(root: Path, path: Path) -> Iterator[None]:
    """Turns errors of the operating system into a StoreError with the path and a fix.

    Args:
        root: The store.
        path: Named by the error if the operating system does not name one.
    """
    try:
        yield
    except OSError as error:
        raise _explain(error, root, path) from error


@contextmanager
def work_errors(root: Path, path: Path) -> Iterator[None]:
    """As `disk_errors`, for work that may fail in other ways, too: those errors pass unchanged."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REASONS:
            raise
        raise _explain(error, root, path) from error


def is_read_only(error: OSError) -> bool:
    """Whether a directory cannot be written to, but may be read."""
    return error.errno in _READ_ONLY


def is_damage(error: OSError) -> bool:
    """Whether a file is missing, is not a file, or cannot be read from the disk: all are a miss."""
    return error.errno in _DAMAGE


def listed(root: Path, name: re.Pattern[str]) -> Iterator[Path]:
    """The regular files `root/ab/ab...` whose names match, in the store's layout.

    What is removed is listed here first, so no link is followed: a directory `ab` that is a link to
    somebody's home must not be cleared.
    """
    for directory in _scan(root):
        for entry in _scan(Path(directory.path)):
            fits = entry.name[:2] == directory.name and name.fullmatch(entry.name)
            if fits and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _scan(directory: Path) -> list[os.DirEntry[str]]:
    """The entries of a directory; none if it is a link or not a directory."""
    try:
        if directory.is_symlink():
            return []
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError as error:
        if is_damage(error):
            return []
        raise


def _explain(error: OSError, root: Path, path: Path) -> StoreError:
    place = Path(error.filename) if isinstance(error.filename, str) else path
    message = f"cannot read or write {place}: "
    message += _REASONS.get(error.errno or 0, error.strerror or str(error))
    if place.is_relative_to(root):
        message += f", or {_ELSEWHERE}"
    return StoreError(message)
