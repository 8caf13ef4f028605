"""The contents of a store, by kinds of results and by when they were last used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..leases import live
from ..objects.copies import Packs
from ..store import Store
from .inventory import StoredRecord, kind_of, take_inventory

_DAY = 24 * 3600.0

AGES = {"today": _DAY, "this week": 7 * _DAY, "this month": 30 * _DAY, "this year": 365 * _DAY}
"""Seconds since the last use, at most; what is older is `OLDER`."""

OLDER = "longer ago"


@dataclass(frozen=True)
class Group:
    """Results that have something in common."""

    results: int
    bytes: int
    """Of their contents, each counted once; contents that results of several groups have count in each."""


@dataclass(frozen=True)
class Statistics:
    """The contents of a store's own backend."""

    address: str
    results: int
    damaged: int
    """Records that cannot be read; `modelwheel cache verify` reads the contents, too."""
    contents: int
    bytes: int
    """Of all contents, each counted once."""
    unneeded_bytes: int
    """Of contents that no result needs."""
    running: int
    """Processes that use the store now."""
    kinds: Mapping[str, Group]
    """Results by kind, those with the most bytes first."""
    ages: Mapping[str, Group]
    """Results by the time since their last use; see `AGES`."""


def take_statistics(store: Store) -> Statistics:
    """Reads every record of a store."""
    backend = store.backend
    stock, now = take_inventory(backend, Packs.of(backend)), backend.now()
    needed = {sha256 for stored in stock.records for sha256 in stored.blobs}
    needed.update(*stock.foreign.values())
    kinds: dict[str, list[StoredRecord]] = {}
    ages: dict[str, list[StoredRecord]] = {name: [] for name in (*AGES, OLDER)}
    for stored in stock.records:
        kinds.setdefault(kind_of(stored.record), []).append(stored)
        age = now - stored.used
        ages[next((name for name, most in AGES.items() if age <= most), OLDER)].append(stored)
    grouped = {kind: _group(records) for kind, records in kinds.items()}
    return Statistics(
        address=backend.address,
        results=len(stock.records),
        damaged=len(stock.damaged),
        contents=len(stock.blobs),
        bytes=stock.bytes,
        unneeded_bytes=sum(
            entry.size for sha256, entry in stock.blobs.items() if sha256 not in needed
        ),
        running=len(live(backend)),
        kinds=dict(sorted(grouped.items(), key=lambda item: (-item[1].bytes, item[0]))),
        ages={name: _group(records) for name, records in ages.items()},
    )


def _group(records: Iterable[StoredRecord]) -> Group:
    listed = list(records)
    sizes = {file.sha256: file.size for stored in listed for file in stored.record.files.values()}
    return Group(len(listed), sum(sizes.values()))
