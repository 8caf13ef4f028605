"""Everything that a store holds, read from its backend: for statistics, collections, checks and copies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..backends.base import Backend, Entry
from ..backends.parallel import in_parallel
from ..names import ACTIONS, BLOBS, record_key
from ..objects.copies import Packs
from ..records import MAX_RECORD_BYTES, OtherVersionError, Record, RecordError, parse

_BLOB = re.compile(rf"{BLOBS}([0-9a-f]{{2}})/(\1[0-9a-f]{{62}})")

_HASH = re.compile(r"[0-9a-f]{64}")

_KINDS = frozenset(
    {
        *("fetch", "inspect", "reference", "freeze", "compile", "project", "objects", "kernels"),
        *("wheel", "runtime", "verify", "sdist", "bundle", "profile", "supported", "unpacked"),
    }
)
"""Kinds of steps that are parts of their names."""

_COMPILE_PARTS = 4
"""Parts of the name of another step, such as `digits/linux-x86_64/x86-64-v3/b1`."""


@dataclass(frozen=True)
class StoredRecord:
    """A record with what the backend says about its file."""

    record: Record
    entry: Entry

    @property
    def used(self) -> float:
        """When it was written or last looked up, in seconds since the epoch, by the server's clock."""
        return self.entry.modified

    @property
    def blobs(self) -> Iterator[str]:
        """The hashes of its files."""
        return (file.sha256 for file in self.record.files.values())


@dataclass(frozen=True)
class RecordFiles:
    """The files of records, read."""

    records: tuple[StoredRecord, ...]
    """The least recently used first."""
    damaged: Mapping[str, str]
    """Why others cannot be read, by name."""
    foreign: Mapping[str, frozenset[str]]
    """All that could be a hash in the records of other versions of modelwheel, by name."""


@dataclass(frozen=True)
class Inventory(RecordFiles):
    """The content of a store at one time; processes may have changed it since."""

    blobs: Mapping[str, Entry]
    """Contents by their hashes; they are not read."""

    @cached_property
    def bytes(self) -> int:
        """Of all contents, each counted once."""
        return sum(entry.size for entry in self.blobs.values())


def take_inventory(backend: Backend, packs: Packs | None = None) -> Inventory:
    """Reads every record, and lists the contents; see `read_records`."""
    read = read_records(backend, list_records(backend), packs)
    return Inventory(read.records, read.damaged, read.foreign, list_blobs(backend))


def list_records(backend: Backend) -> dict[str, Entry]:
    """The files of all records by their names; whatever else is there is left out."""
    return {
        entry.name: entry for entry in backend.list(ACTIONS) if record_key(entry.name) is not None
    }


def list_blobs(backend: Backend) -> dict[str, Entry]:
    """The contents by their hashes, unread; whatever else is there is left out."""
    matched = ((_BLOB.fullmatch(entry.name), entry) for entry in backend.list(BLOBS))
    return {name[2]: entry for name, entry in matched if name is not None}


def read_records(
    backend: Backend, entries: Mapping[str, Entry], packs: Packs | None = None
) -> RecordFiles:
    """Reads listed records. Those that were removed since then are left out; signatures are not looked at.

    Args:
        backend: The store's files.
        entries: The records by their names.
        packs: Read in place of records that they have as they were listed; gets the others.
    """
    packs = packs or Packs(None)
    records: list[StoredRecord] = []
    damaged: dict[str, str] = {}
    foreign: dict[str, frozenset[str]] = {}

    def read(entry: Entry) -> Record | RecordError | frozenset[str] | None:
        key = record_key(entry.name) or ""
        if entry.size > MAX_RECORD_BYTES:
            return RecordError(f"it is damaged (more than {MAX_RECORD_BYTES} bytes)")
        try:
            content = packs.get(key, entry.tag) or backend.read(entry.name)
            packs.add(key, entry.tag, content)
            return parse(key, content)
        except OtherVersionError:
            return frozenset(_HASH.findall(content.decode()))
        except RecordError as error:
            return error
        except FileNotFoundError:
            return None

    for entry, outcome in zip(entries.values(), in_parallel(read, entries.values()), strict=True):
        if isinstance(outcome, Record):
            records.append(StoredRecord(outcome, entry))
        elif isinstance(outcome, RecordError):
            damaged[entry.name] = str(outcome)
        elif outcome is not None:
            foreign[entry.name] = outcome
    records.sort(key=lambda stored: (stored.used, stored.record.key))
    return RecordFiles(tuple(records), damaged, foreign)


def kind_of(record: Record) -> str:
    """The kind of the step that made a record, such as `compile`."""
    kind = record.note.get("kind")
    if isinstance(kind, str) and "step" in record.note:
        return kind
    # Records of older versions have the name of the step alone, such as `digits/freeze/b1`.
    parts = label_of(record).split("/")
    kind = parts[min(1, len(parts) - 1)]
    if kind in _KINDS:
        return kind
    return "compile" if len(parts) == _COMPILE_PARTS else "other"


def label_of(record: Record) -> str:
    """The name of the step that made a record; that of a model's files has none, and is `fetch`."""
    return str(record.note.get("step", "fetch"))
