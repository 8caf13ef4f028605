"""Where the store is, and what to do when the disk or its permissions refuse."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from ..errors import StoreError

CACHE_VARIABLE = "MODELWHEEL_CACHE_DIR"

_REASONS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "your disk quota is used up: free some space",
    errno.EFBIG: "the file would exceed the size limit of this process (`ulimit -f`): raise it",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied: correct the permissions",
    errno.EPERM: "permission denied: correct the permissions",
}


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
        place = Path(error.filename) if isinstance(error.filename, str) else path
        message = f"cannot read or write {place}: "
        message += _REASONS.get(error.errno or 0, error.strerror or str(error))
        if place.is_relative_to(root):
            message += f", or set {CACHE_VARIABLE} to a directory elsewhere"
        raise StoreError(message) from error
