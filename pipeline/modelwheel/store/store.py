"""The content-addressed store of finished work, so that nothing unchanged is done twice.

It has two levels, as Bazel's remote cache: `blobs/ab/<sha256>` has contents under their own hash;
`actions/ab/<key>.json` lists the files of each finished action, under the hash of all its inputs.
Everything is written aside and renamed, and a record after its blobs, so that writers may race and
may be killed at any moment. Every byte is verified when it is read: damage is a miss, never a wrong
answer.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..util.files import digest_stream, replace
from ..util.names import UnsafePathError
from ..util.places import is_url
from ..util.removal import remove, remove_tree
from ..util.trees import open_regular, open_tree
from .backends.base import Backend
from .backends.directory import DirectoryBackend
from .backends.objects import ObjectBackend
from .disk import default_root, disk_errors, is_read_only, work_errors
from .layers import Layer, OwnLayer, Policy, Upstream
from .leases import Lease
from .locks import acquire
from .objects.claims import Claims
from .objects.eviction import DEFAULT_BYTES, CacheLimit
from .objects.remote import OwnRemote, UpstreamRemote
from .records import Record, parse
from .scratch import ScratchSpace


class Store:
    """A store in one directory, or in an object store; any number of processes and threads may use it at once.

    It may be read-only: then it serves what it has. Stores of others, its upstreams, are read only. A store is pickled
    by its address and its rules; where it is read, an object store has copies in the directory of that machine.

    Args:
        root: The directory, created on first use; `default_root()` by default.
        policy: The upstreams, and whose records count.
        backend: The object store that holds it; by default it is in the directory, which else is for what belongs to
            this machine: locks, scratch directories, and copies of what is in object stores.
        cache_bytes: The most bytes of these copies.

    Every method raises StoreError, with the path and a fix, if the disk is full or permissions are
    missing.

    Attributes:
        root: The directory.
        blobs: The contents of all files in it.
        policy: The upstreams, and whose records count.
        backend: The place that holds its files, for what looks after all of them.
        lease: Keeps `collect_garbage` from removing what this process may read; taken by the first lookup.
        upstream: The directories of the upstreams other than the store itself.
    """

    def __init__(
        self,
        root: Path | None = None,
        policy: Policy = Policy(),  # noqa: B008
        backend: Backend | None = None,
        cache_bytes: int = DEFAULT_BYTES,
    ) -> None:
        # Another machine has its copies in a directory of its own, but the directory of a store is the same.
        chosen = root if backend is not None else (root or default_root()).absolute()
        self._arguments = chosen, policy, backend, cache_bytes
        self.root = (chosen or default_root()).absolute()
        self.policy = policy
        self._scratch = ScratchSpace(self.root / "tmp")
        self.backend: Backend = backend or DirectoryBackend(self.root, self._scratch)
        self.lease = Lease(self.backend)
        # Also if nobody closes this store.
        weakref.finalize(self, self.lease.abandon)
        # A release names its own store as everybody's upstream.
        self.upstream = [place for place in policy.upstream if not self._is_own(place)]
        copies = self.root / "remote"
        limit = CacheLimit(copies, cache_bytes)
        # Who signs a wheel's record vouches for everything that the wheel was made from.
        trusted = None if policy.signer is None else policy.trusted_keys
        self._own: OwnLayer | OwnRemote = (
            OwnLayer(self.root, trusted)
            if backend is None
            else OwnRemote(backend, copies, trusted, limit)
        )
        required = policy.trusted_keys or None
        self._layers: Sequence[Layer] = (
            self._own,
            *(
                UpstreamRemote(ObjectBackend(str(place)), copies, required, limit)
                if is_url(place)
                else Upstream(Path(place), required)
                for place in self.upstream
            ),
        )
        self._origins: dict[str, Layer] = {}
        self._claims = None if backend is None else Claims(backend, self.root / "machine")
        self._elsewhere = ScratchSpace()
        self.blobs = self._own.blobs

    def __reduce__(self) -> tuple[type[Store], tuple[object, ...]]:
        return Store, self._arguments

    @property
    def address(self) -> str:
        """The path of the directory, or the URL."""
        return self.backend.address

    def _is_own(self, place: Path | str) -> bool:
        if is_url(place):
            return str(place).rstrip("/") == self.address
        return Path(place).resolve() == self.root.resolve() == Path(self.address).resolve()

    def lookup(self, key: str) -> Record | None:
        """The record under `key` with all its files verified, or None.

        A damaged record in the store's own directory is removed, with a warning in the log.
        """
        self.lease.hold()
        with self.disk_errors(self.record_path(key)):
            record = self._own.lookup(key)
            if record is not None:
                # The time of the last use decides what `collect_garbage` removes.
                self._own.touch(key)
                return record
            return self._first(key, ((layer, layer.lookup(key)) for layer in self._layers[1:]))

    def peek(self, key: str) -> Record | None:
        """The record under `key` if its files exist with the right sizes; quick."""
        with self.disk_errors(self.root):
            return self._first(key, ((layer, layer.peek(key)) for layer in self._layers))

    def _first(self, key: str, records: Iterable[tuple[Layer, Record | None]]) -> Record | None:
        """The first record of several layers, whose contents are then looked for in the same one first."""
        for layer, record in records:
            if record is not None:
                self._origins[key] = layer
                return record
        return None

    def touch(self, key: str) -> None:
        """Notes that the record under `key` was used, as `lookup` does: `collect_garbage` removes what was not."""
        with self.disk_errors(self.record_path(key)):
            self._own.touch(key)

    def contains(self, key: str) -> bool:
        """Whether `peek` finds something."""
        return self.peek(key) is not None

    def publish(self, key: str, directory: Path, note: Mapping[str, Any] | None = None) -> Record:
        """Stores every file below a finished directory as the result of the action `key`.

        Publishing the same again, also from several processes at once, is harmless. In an object store, the first result
        stays, and is returned.

        Raises:
            StoreError: Also if the directory contains anything but regular files and directories.
        """
        self.lease.hold()
        # Not `scratch`: files are renamed into place, which needs one file system.
        with self.disk_errors(self.root), _removed(self._scratch.make_directory()) as scratch:
            try:
                files = {
                    name: self.blobs.add(file, scratch / "blob")
                    for name, file in open_tree(directory)
                }
            except UnsafePathError as error:
                raise StoreError(f"cannot store the files of {directory}: {error}") from error
            content = Record(key, files, dict(note or {})).serialise(self.policy.signer)
            content = self._own.publish(key, files.values(), content, scratch / "record")
        # Read back, so that a fresh result equals one from the store, also in its JSON types.
        return parse(key, content)

    def materialize(
        self,
        record: Record,
        directory: Path,
        names: Iterable[str] | None = None,
        *,
        link: bool = False,
    ) -> None:
        """Writes the files of a record, or some of them, below `directory`, and verifies them.

        Args:
            record: From `lookup` or `publish`.
            directory: Created if needed; existing files are replaced.
            names: Which files; all by default.
            link: Make hard links to the read-only blobs instead of copies, where the file system can:
                for readers that never write.

        Raises:
            StoreError: Also if a blob was damaged since it was looked up.
        """
        for name in record.files if names is None else names:
            target = directory / name
            with self.disk_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                # In the target's directory, which is on the same file system for sure.
                aside = target.with_name(f".{os.getpid()}-{threading.get_ident()}")
                try:
                    self._copy_out(record, name, aside, link=link)
                    replace(aside, target)
                finally:
                    # Not only after a failure: rename does nothing, and keeps both names, if they
                    # are hard links to one file (POSIX).
                    remove(aside)

    def path(self, record: Record, name: str) -> Path:
        """The read-only file in the store with the content of `name`, verified.

        Raises:
            StoreError: Also if the blob was damaged since it was looked up.
        """
        path, _ = self._find(record, name)
        return path

    def blob(self, sha256: str) -> Path | None:
        """The read-only file with this content, verified; None if the store does not have it."""
        with self.disk_errors(self.blobs.path(sha256)):
            return next(filter(None, (layer.find(sha256) for layer in self._layers)), None)

    def read_bytes(self, record: Record, name: str) -> bytes:
        """The content of one file, verified.

        Raises:
            StoreError: Also if the blob was damaged since it was looked up.
        """
        file = record.files[name]
        with self.disk_errors(self.blobs.path(file.sha256)):
            for layer in self._layers_of(record):
                content = layer.content(file)
                if content is not None:
                    return content
        raise self._damage(record, name)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new, empty directory, on the store's file system if it is writable; removed at exit."""
        with _removed(self.keep_directory()) as directory:
            yield directory

    def keep_directory(self) -> Path:
        """As `scratch`, but the directory stays until this process ends or the store is closed."""
        with self.disk_errors(self.root):
            try:
                return self._scratch.make_directory()
            except OSError as error:
                if not is_read_only(error):
                    raise
            return self._elsewhere.make_directory()

    def close(self) -> None:
        """Removes the directories of `keep_directory`, and ends the lease."""
        self._own.close()
        self.lease.release()
        self._scratch.close()
        self._elsewhere.close()

    @contextmanager
    def lock(self, key: str, given_up: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Holds the lock of `key` until exit; waits while another process holds it, for an object store on any machine.

        The system releases a lock when its process ends; for other machines, it expires. Look the key up again under
        the lock.

        Args:
            key: The key.
            given_up: Called repeatedly while this waits; if it returns True, a StoreError is raised.
        """
        path = self.root / "locks" / f"{key}.lock"
        with self.disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = acquire(path, key[:12], given_up)
        try:
            with nullcontext() if self._claims is None else self._claims.claim(key, given_up):
                yield
        finally:
            lock.release()

    def disk_errors(self, path: Path) -> AbstractContextManager[None]:
        """Turns errors of the operating system into a StoreError with the path and a fix.

        Args:
            path: Named by the error if the operating system does not name one.
        """
        return disk_errors(self.root, path)

    def work_errors(self, path: Path) -> AbstractContextManager[None]:
        """As `disk_errors`, for work in a scratch directory: what it does not know passes unchanged."""
        return work_errors(self.root, path)

    @property
    def stopped_downloads(self) -> Path:
        """The directory of beginnings of files, of which downloads are stopped; it may not exist."""
        return self.root / "downloads"

    def record_path(self, key: str) -> Path:
        """Where the record under `key` is in the store's own directory, if there is one."""
        return self._own.record_path(key)

    def _find(self, record: Record, name: str) -> tuple[Path, Layer]:
        """The blob of one file, verified, and where it was found."""
        file = record.files[name]
        with self.disk_errors(self.blobs.path(file.sha256)):
            for layer in self._layers_of(record):
                path = layer.find(file.sha256, file.size)
                if path is not None:
                    return path, layer
        raise self._damage(record, name)

    def _layers_of(self, record: Record) -> tuple[Layer, ...]:
        """Where contents of a record are looked for, in this order."""
        origin = self._origins.get(record.key, self._own)
        return origin, *(other for other in self._layers if other is not origin)

    def _damage(self, record: Record, name: str) -> StoreError:
        """Removes a damaged blob and its record; returns the error to raise."""
        sha256 = record.files[name].sha256
        self.blobs.discard(sha256)
        self._own.drop(record.key, f"its file {name!r} is damaged or missing")
        return StoreError(
            f"{self.blobs.path(sha256)} was damaged or removed while it was in use; run the command "
            "again, which makes the file again, and check the disk if this repeats"
        )

    def _copy_out(self, record: Record, name: str, target: Path, *, link: bool) -> None:
        blob, layer = self._find(record, name)
        if link and not isinstance(layer, Upstream):
            with suppress(OSError, NotImplementedError):  # not on this file system
                target.hardlink_to(blob)
                return
        with open_regular(blob) as source, target.open("wb") as copy:
            copied = digest_stream(source, copy)
        if copied != record.files[name]:
            raise self._damage(record, name)


@contextmanager
def _removed(directory: Path) -> Iterator[Path]:
    """The directory, which is removed at exit."""
    try:
        yield directory
    finally:
        remove_tree(directory)
