"""Keeps the copies of what is in object stores small: the least recently used contents go first."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ...util.removal import remove
from ..blobs import BLOB_NAME
from ..disk import listed

DEFAULT_BYTES = 50_000_000_000

_IN_USE_SECONDS = 3600.0
"""A step may be reading what was used since; the limit of one step is as long (`[sandbox] seconds`)."""

_STOPPED_SECONDS = 24 * 3600.0

_CHECKED_PART = 20
"""The disk is looked at when the copies may have grown by the limit divided by this."""

_FILLED_TO = 0.9
"""Of the limit, after something was removed: not every download removes something then."""


class CacheLimit:
    """The most bytes of the copies of all object stores; any number of processes and threads may use it at once.

    Args:
        directory: The directory of the copies, with one of each object store.
        limit: Bytes.
    """

    def __init__(self, directory: Path, limit: int = DEFAULT_BYTES) -> None:
        self._directory, self._limit = directory, limit
        self._guard = threading.Lock()
        self._grown: int | None = None

    def use(self, path: Path) -> None:
        """Notes that a copy is used."""
        with suppress(OSError):
            status = path.stat()
            # The time of change stays: it says that the content was verified.
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))

    def grew(self, size: int) -> None:
        """Notes a new copy, and removes others if there are too many bytes."""
        with self._guard:
            # The first one looks: other processes may have made copies.
            if self._grown is not None and (self._grown + size) * _CHECKED_PART < self._limit:
                self._grown += size
                return
            self._grown = 0
        self.trim()

    def trim(self) -> int:
        """Removes copies that are not in use, the least recently used first; the bytes removed."""
        self._remove_beginnings()
        copies = sorted(self._copies())
        total = sum(size for _, size, _ in copies)
        if total <= self._limit:
            return 0
        removed, oldest = 0, time.time() - _IN_USE_SECONDS
        for used, size, path in copies:
            if used > oldest or total - removed <= self._limit * _FILLED_TO:
                break
            with suppress(OSError):  # Windows: somebody reads it
                remove(path)
                removed += size
        return removed

    def _remove_beginnings(self) -> None:
        """Removes the beginnings of downloads that nobody goes on with."""
        for path in self._directory.glob("*/partial/*"):
            with suppress(OSError):
                old = time.time() - path.stat().st_mtime > _STOPPED_SECONDS
                if old and path.suffix != ".lock":
                    remove(path)

    def _copies(self) -> Iterator[tuple[float, int, Path]]:
        """When each copy was used, its bytes and its path."""
        for store in self._directory.glob("*/blobs"):
            for path in listed(store, BLOB_NAME):
                with suppress(OSError):
                    status = path.stat()
                    yield status.st_atime, status.st_size, path
