"""Removes results that nobody wants any more, and never what a running build reads.

A collection has two parts, as processes may be reading:

1. It removes records, and lists the contents that they had in a file below `dropped/`. From then on, no build finds
   them.
2. It removes contents that no record needs, except those of such a list as long as a build runs that started before the
   list was complete (`leases`): it may have found the record before. The next collection looks again.

Readers without the right to write have no lease. For them, an object store keeps the contents for a day longer. All
times are those of the store's server.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

from ...util.removal import remove
from ..backends.base import Backend
from ..backends.base import Entry as File
from ..backends.directory import DirectoryBackend
from ..backends.parallel import in_parallel
from ..history import forget
from ..leases import PREFIX as LEASES
from ..leases import TOLERANCE_SECONDS, is_expired, live
from ..names import CLAIMS
from ..objects.copies import Packs
from ..objects.remote import TOUCHED_SECONDS
from ..store import Store
from .inventory import (
    Inventory,
    StoredRecord,
    kind_of,
    list_blobs,
    list_records,
    read_records,
    take_inventory,
)

_DAY = 24 * 3600.0

_YOUNG_SECONDS = _DAY
"""Unreferenced contents younger than this may belong to a record that is about to be written."""

_DROPPED = "dropped/"

_SHA256 = re.compile(r"[0-9a-f]{64}")


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
    read = read_records(store.backend, list_records(store.backend))
    return [
        Entry(stored.record.key, stored.record.size, stored.used, stored.record.note)
        for stored in read.records
    ]


@dataclass(frozen=True)
class _Rules:
    """The arguments of `collect_garbage` that say what to remove."""

    unused_seconds: float | None
    max_bytes: int | None
    keep: Collection[str] | None


@dataclass
class Collected:
    """The outcome of a collection, or of a trial of one."""

    results: int = 0
    """Results removed."""
    bytes: int = 0
    """Bytes of contents that only these results had."""
    freed: int = 0
    """Bytes removed: also those that earlier collections had left, without those that a running build may read."""
    kept: int = 0
    """Results that stay."""
    kept_bytes: int = 0
    in_use: int = 0
    """Results that stay because running builds may use them."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """How many results of each kind were removed."""


def collect_garbage(
    store: Store,
    unused_seconds: float | None = None,
    *,
    max_bytes: int | None = None,
    keep: Collection[str] | None = None,
    dry_run: bool = False,
) -> Collected:
    """Removes results, and contents that no result needs.

    Builds may run at the same time: at worst they do some work again.

    Args:
        store: Its own backend alone is looked at.
        unused_seconds: Remove results that were not used for longer; in an object store, which notes uses once in
            `TOUCHED_SECONDS`, for longer than both together.
        max_bytes: Remove the least recently used results until the rest has no more bytes.
        keep: Keys of results to keep, whatever their age; without a limit of age or bytes, remove all others.
        dry_run: Only say what would be removed.

    Raises:
        StoreError: The store cannot be read or written.
    """
    if unused_seconds is not None and not isinstance(store.backend, DirectoryBackend):
        unused_seconds += TOUCHED_SECONDS
    rules = _Rules(unused_seconds, max_bytes, keep)
    # This process reads nothing; what it looked up before must not keep contents.
    store.lease.release()
    backend = store.backend
    packs = Packs.of(backend, writable=not dry_run)
    stock, now = take_inventory(backend, packs), backend.now()
    doomed, in_use = _choose(stock, rules, now, _oldest(backend))
    collected = _describe(stock, doomed)
    collected.in_use = in_use
    if dry_run:
        return collected
    _drop(backend, [stored.entry.name for stored in doomed], doomed)
    if doomed:
        forget(backend, {stored.record.key for stored in doomed})
    # Damaged records, too: each is a miss, and its work will be done again.
    for name in stock.damaged:
        backend.remove(name)
    gone = {stored.entry.name for stored in doomed}
    remaining = [stored for stored in stock.records if stored.entry.name not in gone]
    packs.settle({stored.record.key: stored.entry.tag for stored in remaining})
    collected.freed = _sweep(backend, remaining, stock.foreign)
    _remove_expired(backend, now)
    with store.disk_errors(store.root):
        collected.freed += _remove_old(store.stopped_downloads)
    return collected


def _choose(
    stock: Inventory, rules: _Rules, now: float, oldest: float
) -> tuple[list[StoredRecord], int]:
    """The records to remove, and how many more the rules name that running builds may use."""
    chosen = {stored.record.key: stored for stored in stock.records if _names(rules, stored, now)}
    if rules.keep is not None:
        needed = _blobs(stored for stored in stock.records if stored.record.key not in chosen)
        # What has no content of its own costs nothing, such as the kernels that a kept step is made of.
        chosen = {
            key: stored
            for key, stored in chosen.items()
            if not stored.record.files or not needed.issuperset(stored.blobs)
        }
    if rules.max_bytes is not None:
        chosen.update(_exceeding(stock, rules, chosen))
    # By the clock of one server, but servers behind one name may differ.
    free = [stored for stored in chosen.values() if stored.used < oldest - TOLERANCE_SECONDS]
    return free, len(chosen) - len(free)


def _names(rules: _Rules, stored: StoredRecord, now: float) -> bool:
    """Whether the rules without the limit of bytes name a record."""
    if rules.keep is not None and stored.record.key in rules.keep:
        return False
    if rules.unused_seconds is not None:
        return now - stored.used > rules.unused_seconds
    return rules.keep is not None and rules.max_bytes is None


def _exceeding(
    stock: Inventory, rules: _Rules, chosen: Mapping[str, StoredRecord]
) -> dict[str, StoredRecord]:
    """The least recently used of the other records, without which the contents of the rest fit the limit."""
    assert rules.max_bytes is not None
    rest = [stored for stored in stock.records if stored.record.key not in chosen]
    uses = Counter(sha256 for stored in rest for sha256 in set(stored.blobs))
    sizes = {file.sha256: file.size for stored in rest for file in stored.record.files.values()}
    total, removed = sum(sizes.values()), {}
    for stored in rest:
        if total <= rules.max_bytes:
            break
        if rules.keep is not None and stored.record.key in rules.keep:
            continue
        removed[stored.record.key] = stored
        for sha256 in set(stored.blobs):
            uses[sha256] -= 1
            total -= 0 if uses[sha256] else sizes[sha256]
    return removed


def _describe(stock: Inventory, doomed: Collection[StoredRecord]) -> Collected:
    gone = {stored.record.key for stored in doomed}
    kept = [stored for stored in stock.records if stored.record.key not in gone]
    needed = _blobs(kept).union(*stock.foreign.values())
    sizes = {sha256: entry.size for sha256, entry in stock.blobs.items()}
    return Collected(
        results=len(doomed),
        bytes=sum(sizes.get(sha256, 0) for sha256 in _blobs(doomed) - needed),
        kept=len(kept),
        kept_bytes=sum(sizes.get(sha256, 0) for sha256 in needed),
        kinds=dict(Counter(kind_of(stored.record) for stored in doomed).most_common()),
    )


def _blobs(records: Iterable[StoredRecord]) -> set[str]:
    return {sha256 for stored in records for sha256 in stored.blobs}


def _drop(backend: Backend, names: Collection[str], doomed: Iterable[StoredRecord]) -> None:
    """Removes records, after their contents were listed."""
    if not names:
        return
    name, blobs = f"{_DROPPED}{uuid.uuid4().hex}.json", sorted(_blobs(doomed))

    def write(*, complete: bool) -> None:
        backend.write(name, json.dumps({"complete": complete, "blobs": blobs}).encode())

    # Before the records: if this is killed, contents without a record are listed all the same.
    write(complete=False)
    for _ in in_parallel(backend.remove, names):
        pass
    # Again: a build that started before now may have found any of them.
    write(complete=True)


@dataclass(frozen=True)
class _Dropped:
    """The list of the contents of removed records."""

    entry: File
    blobs: frozenset[str]


def _read_dropped(backend: Backend) -> list[_Dropped]:
    lists = []
    for entry in list(backend.list(_DROPPED)):
        with suppress(FileNotFoundError):
            content = backend.read(entry.name)
            try:
                fields = json.loads(content)
                blobs = frozenset(filter(_SHA256.fullmatch, fields["blobs"]))
                complete = fields["complete"] is True
            except (ValueError, KeyError, TypeError, RecursionError):
                backend.remove(entry.name)  # its contents are old enough after a day
                continue
            if not complete:
                # A collection was killed, or runs just now: records may have been there until now.
                fields = {"complete": True, "blobs": sorted(blobs)}
                backend.write(entry.name, json.dumps(fields).encode())
                entry = backend.stat(entry.name) or entry  # noqa: PLW2901
            lists.append(_Dropped(entry, blobs))
    return lists


def _sweep(
    backend: Backend,
    remaining: Collection[StoredRecord],
    foreign: Mapping[str, Collection[str]],
) -> int:
    """Removes contents that neither a record nor a running build needs; the bytes freed."""
    lists = _read_dropped(backend)
    # In this order: a build that starts from here on does not find what was removed.
    oldest, now = _oldest(backend), backend.now()
    grace = 0.0 if isinstance(backend, DirectoryBackend) else _DAY
    finished: list[_Dropped] = []
    protected: set[str] = set()
    for listing in lists:
        if (
            listing.entry.modified + TOLERANCE_SECONDS < oldest
            and now >= listing.entry.modified + grace
        ):
            finished.append(listing)
        else:
            protected |= listing.blobs
    dropped = {sha256: listing.entry.modified for listing in finished for sha256 in listing.blobs}
    blobs = list_blobs(backend)
    # Listed after the contents: what was there before has its record by now, or is young.
    known = {*(stored.entry.name for stored in remaining), *foreign}
    new = {name: entry for name, entry in list_records(backend).items() if name not in known}
    read = read_records(backend, new)
    protected |= _blobs((*remaining, *read.records))
    protected.update(*foreign.values(), *read.foreign.values())
    unneeded = [
        entry
        for sha256, entry in blobs.items()
        if sha256 not in protected
        # Object stores tell seconds: what was written and dropped within one has equal times.
        and entry.modified <= dropped.get(sha256, now - _YOUNG_SECONDS)
        and entry.modified < oldest
    ]
    freed = sum(in_parallel(lambda entry: _remove_unchanged(backend, entry), unneeded))
    for listing in finished:
        backend.remove(listing.entry.name)
    return freed


def _remove_unchanged(backend: Backend, entry: File) -> int:
    """Removes a file that nobody has written again since it was listed; the bytes freed."""
    latest = backend.stat(entry.name)
    if latest is None or latest.modified != entry.modified:
        return 0
    backend.remove(entry.name)
    return entry.size


def _oldest(backend: Backend) -> float:
    """When the oldest running process started to use the store, by the server's clock; infinity if none runs."""
    return min((holder.started for holder in live(backend)), default=float("inf"))


def _remove_expired(backend: Backend, now: float) -> None:
    """Removes what killed processes have left."""
    for entry in list(backend.list(LEASES)):
        if is_expired(entry, now):
            backend.remove(entry.name)
    for entry in list(backend.list(CLAIMS)):
        if now - entry.modified > _DAY:
            backend.remove(entry.name)


def _remove_old(directory: Path) -> int:
    """Removes what is in a directory of this machine and was not touched for a day; the number of bytes freed."""
    freed, now = 0, time()
    for file in directory.glob("*"):
        with suppress(FileNotFoundError):
            status = file.stat()
            if now - status.st_mtime > _YOUNG_SECONDS:
                remove(file)
                freed += status.st_size
    return freed
