"""Which results a store has had for each step, so that one can be compared with the last.

An empty file `steps/<hash of the step's lineage>-<key>` stands for each. Nothing is ever overwritten, one listing finds
all of them with their times, and the record under the key says the rest.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property

from ..errors import StoreError
from .backends.base import Backend
from .backends.directory import DirectoryBackend
from .records import Record
from .store import Store

_PREFIX = "steps/"
_NAME = re.compile(rf"{_PREFIX}([0-9a-f]{{32}})-([0-9a-f]{{64}})")


def remember(store: Store, lineage: str, key: str) -> None:
    """Notes that the action `key` is about to be stored as the result of a step.

    Before the record, not after it: a build that is killed in between leaves a note that leads nowhere, which does no
    harm, where a result without a note would never be found.
    """
    store.backend.create(f"{_PREFIX}{_hash(lineage)}-{key}", b"")


def forget(store: Store, gone: Collection[str]) -> None:
    """Removes the notes of actions that are not in the store any more, by their keys."""
    for name, _, key in _listed(store.backend):
        if key in gone:
            store.backend.remove(name)


class History:
    """The earlier results of steps, in a store and its upstreams. It lists them once, when it is first asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, Record | None] = {}

    def results(self, lineage: str) -> Iterator[Record]:
        """The results of a step that are still there, the newest first."""
        for key in self._keys.get(_hash(lineage), ()):
            record = self.record(key)
            if record is not None:
                yield record

    def last(self, lineage: str) -> Record | None:
        """The newest result of a step; None if there is none."""
        return next(self.results(lineage), None)

    def has_had(self, lineage: str, key: str) -> bool:
        """Whether the action `key` was stored as a result of this step once."""
        return key in self._keys.get(_hash(lineage), ())

    def newest(self, number: int) -> Iterator[Record]:
        """The newest results of all steps."""
        for key in self._newest[:number]:
            record = self.record(key)
            if record is not None:
                yield record

    def record(self, key: str) -> Record | None:
        """The record under a key, read once."""
        if key not in self._read:
            self._read[key] = self._store.peek(key)
        return self._read[key]

    @cached_property
    def _keys(self) -> dict[str, list[str]]:
        """The keys of each step's results, the newest first, by the hash of its lineage."""
        keys: dict[str, list[str]] = defaultdict(list)
        for lineage, key in self._all:
            if key not in keys[lineage]:
                keys[lineage].append(key)
        return keys

    @cached_property
    def _newest(self) -> list[str]:
        return list(dict.fromkeys(key for _, key in self._all))

    @cached_property
    def _all(self) -> list[tuple[str, str]]:
        found: list[tuple[float, str, str]] = []
        for number, backend in enumerate(_backends(self._store)):
            try:
                for name, modified, key in _listed(backend):
                    found.append((modified, name.removeprefix(_PREFIX)[:32], key))
            except StoreError:
                # An upstream that cannot be read is left out, as everywhere.
                if number == 0:
                    raise
        # The key decides between equal times.
        return [(lineage, key) for _, lineage, key in sorted(found, reverse=True)]


def _backends(store: Store) -> Iterator[Backend]:
    yield store.backend
    yield from (DirectoryBackend(path) for path in store.upstream)


def _listed(backend: Backend) -> Iterator[tuple[str, float, str]]:
    """Name, time and key of each note."""
    for entry in backend.list(_PREFIX):
        found = _NAME.fullmatch(entry.name)
        if found is not None:
            yield entry.name, entry.modified, found[2]


def _hash(lineage: str) -> str:
    return hashlib.sha256(lineage.encode()).hexdigest()[:32]
