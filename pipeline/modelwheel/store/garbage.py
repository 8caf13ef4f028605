"""Lists the content of a store, and removes what has not been used for long."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..util.files import remove
from .store import Store

_YOUNG_SECONDS = 24 * 3600
"""Unreferenced blobs younger than this may belong to a record that is about to be written."""


@dataclass(frozen=True)
class Entry:
    """One record in a listing of the store."""

    key: str
    size: int
    """Bytes of its files; blobs that several records share count in each."""
    used: float
    """When it was written or last looked up, in seconds since the epoch."""
    note: Mapping[str, Any]


def list_entries(store: Store) -> list[Entry]:
    """Every readable record, the least recently used first."""
    with store.disk_errors(store.root):
        found = [
            Entry(record.key, record.size, used, record.note) for record, used in store.records()
        ]
    return sorted(found, key=lambda entry: (entry.used, entry.key))


def disk_usage(store: Store) -> int:
    """Bytes of all blobs, each counted once."""
    with store.disk_errors(store.root):
        return sum(store.blobs.size(blob.name) or 0 for blob in store.blobs.all())


def collect_garbage(store: Store, unused_seconds: float) -> int:
    """Removes records unused for that long, and blobs that no record needs.

    Builds may run at the same time: at worst they do some work again.

    Returns:
        The number of bytes freed.
    """
    freed, now = 0, time.time()
    needed: set[str] = set()
    with store.disk_errors(store.root):
        for record, used in store.records():
            if now - used > unused_seconds:
                remove(store.record_path(record.key))
            else:
                needed.update(file.sha256 for file in record.files.values())
        # After the records: killed halfway, this leaves unused blobs, which the next one finds.
        for blob in store.blobs.all():
            with suppress(FileNotFoundError):
                status = blob.stat()
                # Blobs of a build that publishes just now are not in `needed`, but young
                # (`Blobs.add`).
                if blob.name not in needed and now - status.st_mtime > _YOUNG_SECONDS:
                    remove(blob)
                    freed += status.st_size
        freed += _remove_old(store.stopped_downloads, now)
    return freed


def _remove_old(directory: Path, now: float) -> int:
    """Removes what is in a directory and was not touched for a day; the number of bytes freed."""
    freed = 0
    for file in directory.glob("*"):
        with suppress(FileNotFoundError):
            status = file.stat()
            if now - status.st_mtime > _YOUNG_SECONDS:
                remove(file)
                freed += status.st_size
    return freed
