"""Records and contents in an object store, read through copies on this disk.

A lookup says what the record says; its contents are downloaded, and verified, when something reads them.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from ...errors import StoreError
from ...util.files import FileDigest, make_directory
from ...util.removal import remove
from ...util.text import one_line
from ..backends.base import Backend, Entry, WrongSizeError
from ..backends.parallel import in_parallel
from ..layers import Layer
from ..names import blob_name, record_name
from ..records import MAX_RECORD_BYTES, OtherVersionError, Record, RecordError, parse
from .copies import Copies, Listing, Packs, md5
from .eviction import CacheLimit

_log = logging.getLogger(__name__)

_LARGE = 8 << 20
"""Bytes of a content whose download is worth going on with after it stopped, and which is uploaded alone."""

_ASKED_BYTES = 1 << 20
"""Bytes of a content before whose upload the server is asked whether it has it."""

_OLD_SECONDS = 12 * 3600.0
"""A content older than this is made young before a new record needs it: if no other record does, a collection may be
about to remove it."""

_KNOWN_SECONDS = 3600.0
"""How long a content that was just uploaded is taken to be there still."""

TOUCHED_SECONDS = 7 * 24 * 3600.0
"""By how much the time of the last use of a record is wrong at most."""

_AT_ONCE = 8
"""Uploads of one record, and other requests that nobody waits for."""

_TRIES = 3


class RemoteLayer(Layer):
    """An object store, to be read.

    Args:
        backend: The object store.
        parent: The directory for copies of all object stores.
        trusted: Public keys, one of which must have signed a record; None if none needs to.
        limit: Keeps the copies small.
        writable: Whether it is this store's own.
    """

    def __init__(
        self,
        backend: Backend,
        parent: Path,
        trusted: Collection[str] | None,
        limit: CacheLimit,
        *,
        writable: bool = False,
    ) -> None:
        identity = hashlib.sha256(backend.address.encode()).hexdigest()[:16]
        super().__init__(parent / identity, trusted)
        self.backend = backend
        self._limit = limit
        self._copies = Copies(self.root / "records")
        self._entries: dict[str, Entry] = {}
        self._listing = Listing(backend)
        self._packs = Packs(backend, writable=writable)

    def lookup(self, key: str) -> Record | None:
        return self.read(key)

    def peek(self, key: str) -> Record | None:
        return self.read(key, asked=False)

    def read(self, key: str, *, asked: bool = True) -> Record | None:
        """The record under `key`, if it counts.

        Args:
            key: The key.
            asked: Ask the server about a record that was not there when it listed all.
        """
        content = self._content(key, asked=asked)
        if content is None:
            return None
        try:
            if len(content) > MAX_RECORD_BYTES:
                raise RecordError(f"it is damaged (more than {MAX_RECORD_BYTES} bytes)")
            return parse(key, content, self._trusted)
        except OtherVersionError as error:
            _log.info("passing over the record %s: %s", record_name(key), error)
        except RecordError as error:
            self.drop(key, str(error))
        return None

    def find(self, sha256: str, size: int | None = None) -> Path | None:
        path = super().find(sha256, size)
        if path is None:
            path = self._download(sha256, size)
        if path is not None:
            self._limit.use(path)
        return path

    def content(self, file: FileDigest) -> bytes | None:
        return None if self.find(file.sha256, file.size) is None else super().content(file)

    def drop(self, key: str, why: str) -> None:
        self._copies.drop(key)
        place = f"{self.backend.address}/{record_name(key)}"
        _log.warning("ignoring the record %s: %s", place, one_line(why))

    def _content(self, key: str, *, asked: bool) -> bytes | None:
        listed = self._listing.is_there()
        entry = self._listing.get(key) if listed else None
        if entry is None and (asked or not listed):
            entry, listed = self.backend.stat(record_name(key)), False
        if entry is None:
            return None
        self._entries[key] = entry
        content = self._copies.get(key, entry.tag)
        if content is None:
            content = self._packs.get(key, entry.tag) if listed else None
            if content is None:
                content = self._ask(key)
                if content is not None and listed:
                    self._packs.add(key, entry.tag, content)
            if content is not None:
                self._copies.put(key, entry.tag, content)
        return content

    def _ask(self, key: str) -> bytes | None:
        try:
            return self.backend.read(record_name(key))
        except FileNotFoundError:
            return None

    def _download(self, sha256: str, size: int | None) -> Path | None:
        name = blob_name(sha256)
        if size is None:
            entry = self.backend.stat(name)
            if entry is None:
                return None
            size = entry.size
        wanted = FileDigest(sha256, size)
        partial = self.root / "partial" / (sha256 if size > _LARGE else uuid.uuid4().hex)
        make_directory(partial.parent)
        # One process at a time goes on with the beginning of a large content.
        with FileLock(partial.with_name(f"{sha256[:2]}.lock")) if size > _LARGE else nullcontext():
            if super().find(sha256, size) is not None:
                return self.blobs.path(sha256)
            try:
                for _ in range(2):  # again without a beginning, which may be what is damaged
                    resumed = partial.exists()
                    self.backend.fetch(name, partial, size)
                    if self.blobs.adopt(partial, wanted):
                        self._limit.grew(size)
                        return self.blobs.path(sha256)
                    remove(partial)
                    if not resumed:
                        break
            except FileNotFoundError:
                return None
            except WrongSizeError:
                remove(partial)
            finally:
                if size <= _LARGE:
                    remove(partial)
        self._report_damage(name)
        return None

    def _report_damage(self, name: str) -> None:
        _log.warning("%s/%s is damaged", self.backend.address, name)


class OwnRemote(RemoteLayer):
    """The object store that a store writes to: what is damaged there is removed."""

    def __init__(
        self, backend: Backend, parent: Path, trusted: Collection[str] | None, limit: CacheLimit
    ) -> None:
        super().__init__(backend, parent, trusted, limit, writable=True)
        self._uploaded: dict[str, float] = {}
        self._guard = threading.Lock()
        self._background: ThreadPoolExecutor | None = None

    def drop(self, key: str, why: str) -> None:
        self._copies.drop(key)
        self._listing.note(key, None)
        place = f"{self.backend.address}/{record_name(key)}"
        why = one_line(why)
        _log.warning("dropping the record %s: %s; its work will be done again", place, why)
        self._remove(record_name(key))

    def touch(self, key: str) -> None:
        """Notes that the record under `key` was used, which takes a request: not each time."""
        entry = self._entries.get(key)
        # By the clock of this machine: nothing depends on some hours, and the server's takes a request.
        if entry is not None and time.time() - entry.modified > TOUCHED_SECONDS:
            self._entries[key] = replace(entry, modified=time.time())
            with self._guard:
                self._background = self._background or ThreadPoolExecutor(_AT_ONCE, "touch")
            self._background.submit(self._touch, record_name(key))

    def publish(self, key: str, files: Iterable[FileDigest], content: bytes, aside: Path) -> bytes:
        """Uploads contents that are on this disk and then the record, if nobody was quicker.

        Returns:
            The record that counts.
        """
        del aside
        contents = set(files)
        large = {file for file in contents if file.size > _LARGE}
        for _ in in_parallel(self._upload, contents - large, _AT_ONCE):
            pass
        # One at a time: parts of it are in memory, several at once.
        for file in large:
            self._upload(file)
        name = record_name(key)
        for _ in range(_TRIES):
            if self.backend.create(name, content):
                break
            # One that is damaged, or does not count, is removed. That of another version is replaced.
            if self.read(key) is not None:
                with suppress(FileNotFoundError):
                    content = self.backend.read(name)
                    break
            elif self._is_of_another_version(key):
                self.backend.remove(name)
        else:
            raise StoreError(
                f"cannot write {name} in the store {self.backend.address}: what is there does not count, and comes back",
                code="MW702",
            )
        tag = md5(content)
        self._copies.put(key, tag, content)
        self._listing.note(key, Entry(name, len(content), time.time(), tag))
        self._packs.add(key, tag, content)
        return content

    def close(self) -> None:
        self._packs.flush()

    def _is_of_another_version(self, key: str) -> bool:
        with suppress(FileNotFoundError, RecordError):
            try:
                parse(key, self.backend.read(record_name(key)))
            except OtherVersionError:
                return True
        return False

    def _upload(self, file: FileDigest) -> None:
        """Uploads a content that the object store does not have."""
        if time.monotonic() < self._uploaded.get(file.sha256, 0.0):
            return
        name, path = blob_name(file.sha256), self.blobs.path(file.sha256)
        entry = self.backend.stat(name) if file.size > _ASKED_BYTES else None
        for _ in range(_TRIES):
            if entry is None and self.backend.create(name, path):
                break
            entry = entry or self.backend.stat(name)
            if entry is not None and entry.size == file.size:
                if self.backend.now() - entry.modified > _OLD_SECONDS:
                    self.backend.touch(name)
                break
            # Other programs may have left a part of it.
            self.backend.remove(name)
            entry = None
        self._uploaded[file.sha256] = time.monotonic() + _KNOWN_SECONDS

    def _touch(self, name: str) -> None:
        with suppress(StoreError, FileNotFoundError):
            self.backend.touch(name)

    def _remove(self, name: str) -> None:
        with suppress(StoreError):  # a store that is only read still works
            self.backend.remove(name)

    def _report_damage(self, name: str) -> None:
        super()._report_damage(name)
        # Else nobody could upload it again.
        self._uploaded.pop(name.rpartition("/")[2], None)
        self._remove(name)


class UpstreamRemote(RemoteLayer):
    """The object store of others: whatever is wrong there is a miss, and stays there."""

    _failed = False

    def peek(self, key: str) -> Record | None:
        return self.read(key)

    def read(self, key: str, *, asked: bool = False) -> Record | None:
        # Nobody writes to it for this build: what was not there is not there.
        with self._errors():
            return None if self._failed else super().read(key, asked=asked)
        return None

    def find(self, sha256: str, size: int | None = None) -> Path | None:
        with self._errors():
            return None if self._failed else super().find(sha256, size)
        return None

    def content(self, file: FileDigest) -> bytes | None:
        with self._errors():
            return super().content(file)
        return None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (StoreError, OSError) as error:
            # Once: a build looks for dozens of records, and each would wait for the same server.
            if not self._failed:
                place = self.backend.address
                _log.warning("cannot read the store %s (%s); going on without it", place, error)
            self._failed = True
