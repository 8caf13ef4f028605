"""Reads whole stores: checks every byte of one, and copies one to another place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ...errors import StoreError
from ...util.files import FileDigest, digest_file, digest_stream
from ...util.names import UnsafePathError
from ...util.trees import open_regular
from ...util.words import count, size_text
from ..backends.base import Backend, Entry
from ..backends.directory import DirectoryBackend
from ..backends.parallel import in_parallel
from ..disk import is_damage
from ..history import copy_notes
from ..names import blob_name, record_key
from ..objects.copies import Packs, md5
from ..records import Record
from ..store import Store
from .inventory import (
    StoredRecord,
    label_of,
    list_blobs,
    list_records,
    read_records,
    take_inventory,
)

_MISSING, _CHANGED = "it is missing", "its content does not match its name"

_AT_ONCE = 64
"""Records whose contents are copied before the records themselves."""

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Damaged:
    """A file of a store that cannot be used."""

    file: str
    """Its name in the store."""
    why: str
    results: tuple[str, ...] = ()
    """The results that need it, by the names of their steps."""


@dataclass(frozen=True)
class Verified:
    """The outcome of a check of a whole store."""

    results: int
    contents: int
    bytes: int
    damaged: tuple[Damaged, ...]


def verify_store(store: Store, tell: Tell = lambda _: None, *, remove: bool = False) -> Verified:
    """Reads every record and every content, and compares them with their hashes.

    Args:
        store: Its own backend alone is read.
        tell: Receives how far this is, in a few words.
        remove: Remove what is damaged, with the records that need it: their work is done again.
    """
    store.lease.hold()
    stock = take_inventory(store.backend)
    wrong = dict(_wrong_contents(store, stock.blobs, tell))
    needing: dict[str, list[StoredRecord]] = {}
    for stored in stock.records:
        for file in stored.record.files.values():
            entry = stock.blobs.get(file.sha256)
            if entry is None:
                wrong[file.sha256] = _MISSING
            elif entry.size != file.size:
                wrong.setdefault(file.sha256, _CHANGED)
            if file.sha256 in wrong:
                needing.setdefault(file.sha256, []).append(stored)
    if remove:
        records = {stored.entry.name for group in needing.values() for stored in group}
        contents = (blob_name(sha256) for sha256, why in wrong.items() if why != _MISSING)
        for name in (*records, *stock.damaged, *contents):
            store.backend.remove(name)
    damaged = [Damaged(name, why) for name, why in stock.damaged.items()]
    for sha256, why in sorted(wrong.items()):
        labels = sorted({label_of(stored.record) for stored in needing.get(sha256, ())})
        damaged.append(Damaged(blob_name(sha256), why, tuple(labels)))
    return Verified(
        len(stock.records) + len(stock.foreign) + len(stock.damaged),
        len(stock.blobs),
        stock.bytes,
        tuple(damaged),
    )


def _wrong_contents(
    store: Store, blobs: Mapping[str, Entry], tell: Tell
) -> Iterator[tuple[str, str]]:
    """Hashes whose contents are others, and why."""
    done, read, whole = 0, 0, size_text(sum(entry.size for entry in blobs.values()))
    with store.scratch() as scratch:

        def check(sha256: str) -> str | None:
            try:
                with _sound(store.backend, FileDigest(sha256, blobs[sha256].size), scratch):
                    return None
            except _DamageError as error:
                return str(error)

        for sha256, why in zip(blobs, in_parallel(check, blobs), strict=True):
            done, read = done + 1, read + blobs[sha256].size
            tell(f"{done} of {count(len(blobs), 'file')}, {size_text(read)} of {whole}")
            if why is not None:
                yield sha256, why


@dataclass
class Copied:
    """The outcome of a copy."""

    results: int = 0
    """Results that were copied."""
    bytes: int = 0
    """Bytes of contents that were copied."""
    there: int = 0
    """Results that were at the target before."""
    damaged: Sequence[Damaged] = ()
    """What the source has, but cannot be used; it was not copied."""


def copy_store(source: Store, target: Store, tell: Tell = lambda _: None) -> Copied:
    """Copies every result that the target lacks; each content is compared with its hash on the way.

    A result is copied after its contents, so this may be stopped at any time: the next call goes on. Records stay as
    they are, with their signatures. What else is at the target stays.

    Args:
        source: Its own backend alone is read.
        target: Its own backend alone is written.
        tell: Receives how far this is, in a few words.
    """
    source.lease.hold()
    target.lease.hold()
    there = list_records(target.backend)
    entries = list_records(source.backend)
    missing = {name: entry for name, entry in entries.items() if name not in there}
    read = read_records(source.backend, missing)
    records = [*_foreign(source.backend, read.foreign, entries), *read.records]
    copied = Copied(there=len(entries) - len(missing))
    packs = Packs.of(target.backend, writable=True)
    damaged = [Damaged(name, why) for name, why in read.damaged.items()]
    # The most recently used first: whoever stops this has the more useful half.
    waiting = reversed(records)
    known = {sha256: entry.size for sha256, entry in list_blobs(target.backend).items()}
    with target.scratch() as scratch:
        while some := list(islice(waiting, _AT_ONCE)):
            wrong = _copy_contents(source.backend, target.backend, some, known, copied, scratch)
            damaged += [Damaged(blob_name(sha256), why) for sha256, why in wrong.items()]
            sound = [stored for stored in some if wrong.keys().isdisjoint(stored.blobs)]
            for _ in in_parallel(lambda stored: _copy_record(source, target, stored, packs), sound):
                copied.results += 1
            whole = count(len(records), "result")
            tell(f"{copied.results} of {whole}, {size_text(copied.bytes)}")
    packs.flush()
    copy_notes(source.backend, target.backend)
    copied.damaged = tuple(damaged)
    return copied


def _foreign(
    backend: Backend, foreign: Mapping[str, Collection[str]], entries: Mapping[str, Entry]
) -> Iterator[StoredRecord]:
    """Stand-ins for the records of other versions, with all contents that they could need."""
    blobs = list_blobs(backend) if foreign else {}
    for name, hashes in foreign.items():
        files = {
            sha256: FileDigest(sha256, blobs[sha256].size) for sha256 in hashes if sha256 in blobs
        }
        yield StoredRecord(Record(record_key(name) or "", files), entries[name])


def _copy_contents(
    source: Backend,
    target: Backend,
    records: Sequence[StoredRecord],
    known: dict[str, int],
    copied: Copied,
    scratch: Path,
) -> dict[str, str]:
    """Copies the contents of some records unless they are known at the target; why some could not be, by hash."""
    needed = {
        file.sha256: file
        for stored in records
        for file in stored.record.files.values()
        if known.get(file.sha256) != file.size
    }

    def copy(file: FileDigest) -> str | None:
        name = blob_name(file.sha256)
        try:
            with _sound(source, file, scratch) as path:
                if file.sha256 in known:  # cut short there
                    target.remove(name)
                target.create(name, path)
        except _DamageError as error:
            return str(error)
        return None

    wrong = {}
    for file, why in zip(needed.values(), in_parallel(copy, needed.values()), strict=True):
        if why is not None:
            wrong[file.sha256] = why
            continue
        known[file.sha256] = file.size
        copied.bytes += file.size
    return wrong


def _copy_record(source: Store, target: Store, stored: StoredRecord, packs: Packs) -> None:
    with suppress(FileNotFoundError):  # removed meanwhile
        content = source.backend.read(stored.entry.name)
        if target.backend.create(stored.entry.name, content):
            packs.add(stored.record.key, md5(content), content)


class _DamageError(Exception):
    """A content is missing or another one."""


@contextmanager
def _sound(backend: Backend, file: FileDigest, scratch: Path) -> Iterator[Path]:
    """A file with this content, compared with its hash, for reading.

    Raises:
        _DamageError: There is none; the message says why.
    """
    name = blob_name(file.sha256)
    if isinstance(backend, DirectoryBackend):
        path = backend.root / name
        if _digest_in_place(path) != file:
            raise _DamageError(_CHANGED)
        yield path
        return
    path = scratch / file.sha256
    try:
        backend.fetch(name, path, file.size)
        if digest_file(path) != file:
            raise _DamageError(_CHANGED)
        yield path
    except FileNotFoundError:
        raise _DamageError(_MISSING) from None
    finally:
        path.unlink(missing_ok=True)


def _digest_in_place(path: Path) -> FileDigest | None:
    """The digest of a file of a directory; None if the disk does not return its content."""
    try:
        with open_regular(path) as file:
            return digest_stream(file)
    except UnsafePathError:
        return None
    except OSError as error:
        if is_damage(error):
            raise _DamageError(
                _MISSING if isinstance(error, FileNotFoundError) else str(error)
            ) from None
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
