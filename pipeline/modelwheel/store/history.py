"""Which results a store has had for each step, so that one can be compared with the last.

An empty file `steps/<hash of the step's lineage>-<key>` stands for each. Nothing is ever overwritten, one listing finds
all of them with their times, and the record under the key says the rest.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from weakref import WeakKeyDictionary

from ..errors import StoreError
from ..util.places import is_url
from .backends.base import Backend
from .backends.directory import DirectoryBackend
from .backends.objects import ObjectBackend
from .backends.parallel import in_parallel
from .records import Record
from .store import Store

_PREFIX = "steps/"
_DIGITS = 32
"""Of the hash of a lineage."""

_NEWEST = 5
"""Results among which one of the same version is looked for."""

_NAME = re.compile(rf"{_PREFIX}([0-9a-f]{{{_DIGITS}}})-([0-9a-f]{{64}})")

_NOTED: WeakKeyDictionary[Store, set[str]] = WeakKeyDictionary()
"""The names of the notes in each store."""

_LISTED, _CLOSED = "listed", "closed"
"""Among them: they were listed; this store cannot be listed or written."""

_LOCK = threading.Lock()


def remember(store: Store, lineage: str, key: str) -> None:
    """Notes that the action `key` is about to be stored as the result of a step.

    Before the record, not after it: a build that is killed in between leaves a note that leads nowhere, which does no
    harm, where a result without a note would never be found.
    """
    store.backend.create(_name(lineage, key), b"")


def remember_use(store: Store, lineage: str, record: Record) -> None:
    """Notes that a result in the store, which may be of another step with the same inputs, serves this one, too.

    This costs one listing for each process, and a write for each result that is new to a step. It does nothing for
    results that do not say what they were made from, and in a store that cannot be written.
    """
    name = _name(lineage, record.key)
    if "inputs" not in record.note:
        return
    with _LOCK:
        noted = _NOTED.setdefault(store, set())
        try:
            if not noted:
                noted.add(_LISTED)
                noted.update(name for name, _, _ in _listed(store.backend))
            if name in noted or _CLOSED in noted:
                return
            noted.add(name)
            store.backend.create(name, b"")
        except StoreError:
            noted.add(_CLOSED)


def forget(backend: Backend, gone: Collection[str]) -> None:
    """Removes the notes of actions that are not in the store any more, by their keys."""
    names = [name for name, _, key in _listed(backend) if key in gone]
    for _ in in_parallel(backend.remove, names):
        pass


def copy_notes(source: Backend, target: Backend) -> None:
    """Copies the notes that the target lacks; those of one step in their order, as it is their time that tells it."""
    there = {name for name, _, _ in _listed(target)}
    steps: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for name, time, _ in _listed(source):
        if name not in there:
            steps[name[: len(_PREFIX) + _DIGITS]].append((time, name))

    def copy(notes: list[tuple[float, str]]) -> None:
        for _, name in sorted(notes):
            target.create(name, b"")

    for _ in in_parallel(copy, steps.values()):
        pass


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

    def last(self, lineage: str, name: str = "") -> Record | None:
        """The newest result of a step; None if there is none.

        Args:
            lineage: See `Step.lineage`.
            name: The step's name: results of the same version of a model are preferred, if they are among the newest.
        """
        newest = None
        for record in islice(self.results(lineage), _NEWEST):
            if not name or record.note.get("step") == name:
                return record
            newest = newest or record
        return newest

    def time(self, key: str) -> float:
        """When the result under a key was made, by the clock of the store; for a key of `results`."""
        return self._times[key]

    def has_had(self, lineage: str, key: str) -> bool:
        """Whether the action `key` was stored as a result of this step once."""
        return key in self._keys.get(_hash(lineage), ())

    def newest(self, number: int) -> Iterator[Record]:
        """The newest results of all steps."""
        for key in [*self._times][:number]:
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
        for _, lineage, key in self._all:
            if key not in keys[lineage]:
                keys[lineage].append(key)
        return keys

    @cached_property
    def _times(self) -> dict[str, float]:
        """When each result was made, the newest first."""
        times: dict[str, float] = {}
        for time, _, key in self._all:
            times.setdefault(key, time)
        return times

    @cached_property
    def _all(self) -> list[tuple[float, str, str]]:
        """Time, lineage and key of all results, the newest first."""
        notes: list[tuple[float, str, str]] = []
        for number, backend in enumerate(_backends(self._store)):
            try:
                for name, modified, key in _listed(backend):
                    notes.append((modified, name.removeprefix(_PREFIX)[:_DIGITS], key))
            except StoreError:
                # An upstream that cannot be read is left out, as everywhere.
                if number == 0:
                    raise
        # The key decides between equal times.
        return sorted(notes, reverse=True)


def _backends(store: Store) -> Iterator[Backend]:
    yield store.backend
    for place in store.upstream:
        yield ObjectBackend(str(place)) if is_url(place) else DirectoryBackend(Path(place))


def _listed(backend: Backend) -> Iterator[tuple[str, float, str]]:
    """Name, time and key of each note."""
    for entry in backend.list(_PREFIX):
        match = _NAME.fullmatch(entry.name)
        if match is not None:
            yield entry.name, entry.modified, match[2]


def _name(lineage: str, key: str) -> str:
    return f"{_PREFIX}{_hash(lineage)}-{key}"


def _hash(lineage: str) -> str:
    return hashlib.sha256(lineage.encode()).hexdigest()[:_DIGITS]
