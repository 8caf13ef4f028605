"""Copies of the records of an object store on this machine: on its disk, in a listing, and in packs of many records.

A build looks thousands of records up. One listing says which of them are still there, and as they were: each with the
tag of its content. What is not on this disk comes from packs, which hold many records in one object.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import StoreError
from ...util.files import replace
from ...util.removal import remove
from ..backends.base import Backend, Entry
from ..backends.directory import DirectoryBackend
from ..names import ACTIONS, PACKS, pack_name, record_key
from ..records import MAX_RECORD_BYTES

_log = logging.getLogger(__name__)

_LISTED_AFTER = 32
"""Records that are asked for one by one. A page of a listing has a thousand, and takes as long as a few of them."""

_PACKED_AFTER = 256
"""Records that a process has written, or asked for one by one although it has a listing, until it writes a pack of them
for the next one; at its end, `_LISTED_AFTER` are enough."""

_MAX_PACKS = 16
"""With more of them, the next is written in place of all."""

_MAX_PACKED_BYTES = 96 << 20
"""What packs are read to; others are left out."""


class Copies:
    """Records on this disk, each with the tag that it had in the object store; nothing in them is trusted.

    Args:
        directory: Created when needed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, key: str, tag: str) -> bytes | None:
        """The record under `key`, if it is the one with that tag."""
        with suppress(OSError):
            with self._path(key).open("rb") as file:
                content = file.read(MAX_RECORD_BYTES)
            known, _, record = content.partition(b"\n")
            if tag and tag in (known.decode("ascii", "replace"), md5(record)):
                return record
        return None

    def put(self, key: str, tag: str, record: bytes) -> None:
        """Keeps a record; a full disk is no reason to stop."""
        path = self._path(key)
        aside = path.with_name(f".{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(tag.encode() + b"\n" + record)
            replace(aside, path)
        except OSError:
            with suppress(OSError):
                remove(aside)

    def drop(self, key: str) -> None:
        """Forgets a record."""
        with suppress(OSError):
            remove(self._path(key))

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / key


class Listing:
    """An object store's listing of all its records at one time; asked for by the first who needs many of them.

    Any number of threads may use it at once.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._guard = threading.Lock()
        self._asked = 0
        self._entries: dict[str, Entry] | None = None

    def is_there(self) -> bool:
        """Whether to use it; counts as one question."""
        with self._guard:
            self._asked += 1
            if self._entries is None and self._asked > _LISTED_AFTER:
                listed = ((record_key(entry.name), entry) for entry in self._backend.list(ACTIONS))
                self._entries = {key: entry for key, entry in listed if key is not None}
            return self._entries is not None

    def get(self, key: str) -> Entry | None:
        """The entry of a record; None if there was none."""
        return None if self._entries is None else self._entries.get(key)

    def note(self, key: str, entry: Entry | None) -> None:
        """Notes a record that this process has written or removed."""
        with self._guard:
            if self._entries is not None:
                if entry is None:
                    self._entries.pop(key, None)
                else:
                    self._entries[key] = entry


class Packs:
    """Copies of many records in one object each. A record of a pack counts if the listing has its tag.

    Args:
        backend: The object store; without one, there are no packs.
        writable: Whether to write packs for the next process.
    """

    def __init__(self, backend: Backend | None, *, writable: bool = False) -> None:
        self._backend, self._writable = backend, writable and backend is not None
        self._guard = threading.Lock()
        self._loaded: dict[str, tuple[str, bytes]] | None = None
        self._names: list[str] = []
        self._new: dict[str, tuple[str, bytes]] = {}

    @classmethod
    def of(cls, backend: Backend, *, writable: bool = False) -> Packs:
        """The packs of a store's own backend: a directory has none."""
        return cls(None if isinstance(backend, DirectoryBackend) else backend, writable=writable)

    def get(self, key: str, tag: str) -> bytes | None:
        """The record under `key` with that tag, if a pack has it."""
        with self._guard:
            known, record = self._load().get(key, ("", b""))
        return record if tag and known == tag else None

    def add(self, key: str, tag: str, record: bytes) -> None:
        """A record for the next pack, unless one has it."""
        if not (self._writable and tag):
            return
        with self._guard:
            if (self._loaded or {}).get(key) == (tag, record):
                return
            self._new[key] = tag, record
            if len(self._new) >= _PACKED_AFTER:
                self._write()

    def flush(self) -> None:
        """Writes a pack of what was added, if that saves the next process requests."""
        with self._guard:
            if len(self._new) >= _LISTED_AFTER:
                self._write()

    def settle(self, listed: Mapping[str, str]) -> None:
        """Writes one pack in place of all, without records that are not there any more, unless it would be alike.

        Args:
            listed: The tags of all records by their keys.
        """
        with self._guard:
            if not self._writable:
                return
            known = {**self._load(), **self._new}
            kept = {key: pair for key, pair in known.items() if listed.get(key) == pair[0]}
            few = len(self._new) < _LISTED_AFTER and len(known) - len(kept) < _LISTED_AFTER
            if few and len(self._names) <= 1:
                return
            self._new, self._loaded = {}, kept
            self._create(kept, self._names)

    def _write(self) -> None:
        """Writes a pack of the new records; where there are many packs, one in place of all."""
        known = self._load()
        new, self._new = self._new, {}
        known.update(new)
        replaced = self._names if len(self._names) >= _MAX_PACKS else []
        self._create(known if replaced else new, replaced)

    def _create(self, records: Mapping[str, tuple[str, bytes]], replaced: Sequence[str]) -> None:
        """Writes a pack in place of others."""
        assert self._backend is not None
        content = _pack(records)
        name = pack_name(hashlib.sha256(content).hexdigest())
        try:
            if records:
                self._backend.create(name, content)
            for old in replaced:
                if old != name:
                    self._backend.remove(old)
            kept = [old for old in self._names if old not in replaced]
            self._names = [*kept, name] if records else kept
        except StoreError as error:  # a store that is only read still works
            self._writable = False
            _log.info("no pack of records: %s", error)

    def _load(self) -> dict[str, tuple[str, bytes]]:
        """The records of the packs, which are read once."""
        if self._loaded is None:
            self._loaded = {} if self._backend is None else self._read(self._backend)
        return self._loaded

    def _read(self, backend: Backend) -> dict[str, tuple[str, bytes]]:
        records: dict[str, tuple[str, bytes]] = {}
        room = _MAX_PACKED_BYTES
        # The latest first: there may be more than fit.
        for entry in sorted(backend.list(PACKS), key=lambda one: -one.modified):
            if entry.size > room:
                break
            with suppress(
                FileNotFoundError,
                ValueError,
                OSError,
                KeyError,
                TypeError,
                AttributeError,
                EOFError,
            ):
                content = backend.read(entry.name)
                if pack_name(hashlib.sha256(content).hexdigest()) != entry.name:
                    continue
                self._names.append(entry.name)
                lines = _unpack(content, room)
                room -= len(lines)
                for line in lines.splitlines():
                    fields = json.loads(line)
                    records.setdefault(
                        str(fields["key"]), (str(fields["tag"]), fields["record"].encode())
                    )
        return records


def md5(content: bytes) -> str:
    """The tag that servers give an object; it says which content is meant, not that somebody made it."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _pack(records: Mapping[str, tuple[str, bytes]]) -> bytes:
    lines = (
        json.dumps({"key": key, "tag": tag, "record": record.decode("ascii", "replace")})
        for key, (tag, record) in sorted(records.items())
    )
    return gzip.compress("\n".join(lines).encode(), mtime=0)


def _unpack(content: bytes, limit: int) -> bytes:
    """The lines of a pack.

    Raises:
        ValueError: There are more bytes than the limit.
        OSError, EOFError: It is damaged.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        lines = file.read(limit + 1)
    if len(lines) > limit:
        raise ValueError("it is too large")
    return lines
