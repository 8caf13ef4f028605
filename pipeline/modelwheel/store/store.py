"""The content-addressed store of finished work, so that nothing unchanged is done twice.

It has two levels, as Bazel's remote cache: `blobs/ab/<sha256>` has contents under their own hash;
`actions/ab/<key>.json` lists the files of each finished action, under the hash of all its inputs.
Everything is written aside and renamed, and a record after its blobs, so that writers may race and
may be killed at any moment. Every byte is verified when it is read: damage is a miss, never a wrong
answer.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..util.files import (
    digest_stream,
    make_directory,
    remove,
    remove_tree,
    replace,
    write_atomically,
)
from ..util.names import UnsafePathError
from ..util.trees import open_regular, open_tree
from .backends.base import Backend
from .backends.directory import DirectoryBackend
from .disk import default_root, disk_errors, is_read_only, work_errors
from .layers import Layer, OwnLayer, Policy, Upstream
from .locks import acquire
from .records import Record, parse
from .scratch import ScratchSpace


class Store:
    """A store in one directory; any number of processes and threads may use it at once.

    It may be read-only: then it serves what it has. Stores of others, its upstreams, are read only.

    Args:
        root: The directory, created on first use; `default_root()` by default.
        policy: The upstreams, and whose records count.

    Every method raises StoreError, with the path and a fix, if the disk is full or permissions are
    missing.

    Attributes:
        root: The directory.
        blobs: The contents of all files in it.
        policy: The upstreams, and whose records count.
        backend: The place that holds its files, for what looks after all of them.
        upstream: The directories of the upstreams other than the store itself.
    """

    def __init__(self, root: Path | None = None, policy: Policy = Policy()) -> None:  # noqa: B008
        self.root = (root or default_root()).absolute()
        # A release names its own store as everybody's upstream.
        self.upstream = [path for path in policy.upstream if path.resolve() != self.root.resolve()]
        self.policy = policy
        self.backend: Backend = DirectoryBackend(self.root)
        # Who signs a wheel's record vouches for everything that the wheel was made from.
        self._own = OwnLayer(self.root, None if policy.signer is None else policy.trusted_keys)
        self._layers: Sequence[Layer] = (
            self._own,
            *(Upstream(path, policy.trusted_keys or None) for path in self.upstream),
        )
        self._scratch = ScratchSpace(self.root / "tmp")
        self._elsewhere = ScratchSpace()
        self.blobs = self._own.blobs

    def lookup(self, key: str) -> Record | None:
        """The record under `key` with all its files verified, or None.

        A damaged record in the store's own directory is removed, with a warning in the log.
        """
        with self.disk_errors(self.record_path(key)):
            record = self._own.lookup(key)
            if record is not None:
                # The time of the last use decides what `collect_garbage` removes.
                self._own.touch(key)
                return record
            return next(filter(None, (layer.lookup(key) for layer in self._layers[1:])), None)

    def peek(self, key: str) -> Record | None:
        """The record under `key` if its files exist with the right sizes; quick."""
        with self.disk_errors(self.record_path(key)):
            return next(filter(None, (layer.peek(key) for layer in self._layers)), None)

    def contains(self, key: str) -> bool:
        """Whether `peek` finds something."""
        return self.peek(key) is not None

    def publish(self, key: str, directory: Path, note: Mapping[str, Any] | None = None) -> Record:
        """Stores every file below a finished directory as the result of the action `key`.

        Publishing the same again, also from several processes at once, is harmless.

        Raises:
            StoreError: Also if the directory contains anything but regular files and directories.
        """
        path = self.record_path(key)
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
            make_directory(path.parent)
            write_atomically(path, content, aside=scratch / "record")
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
        path, _ = self._find(record, name)
        with self.disk_errors(path), open_regular(path) as file:
            content = file.read()
        # The returned bytes themselves: a file can change after a check of its mark.
        if hashlib.sha256(content).hexdigest() != record.files[name].sha256:
            raise self._damage(record, name)
        return content

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
        """Removes the directories of `keep_directory`."""
        self._scratch.close()
        self._elsewhere.close()

    @contextmanager
    def lock(self, key: str, given_up: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Holds the lock of `key` until exit; waits while another process holds it.

        The system releases a lock when its process ends. Look the key up again under the lock.

        Args:
            key: The key.
            given_up: Called repeatedly while this waits; if it returns True, a StoreError is raised.
        """
        path = self.root / "locks" / f"{key}.lock"
        with self.disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = acquire(path, key[:12], given_up)
        try:
            yield
        finally:
            lock.release()

    def records(self) -> Iterator[tuple[Record, float]]:
        """Every readable record in the store's own directory with the time of its last use."""
        return self._own.all()

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
            for layer in self._layers:
                path = layer.find(file.sha256, file.size)
                if path is not None:
                    return path, layer
        raise self._damage(record, name)

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
        if link and layer is self._own:
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
