"""The content-addressed store of finished work, so that nothing unchanged is done twice.

Two levels, as in Bazel's remote cache: `blobs/ab/<sha256>` holds contents under their own hash,
`actions/ab/<key>.json` says for each finished action, under the hash of all its inputs, which named
files it gave. Everything is written aside and renamed, a record after its blobs, so that writers
may be killed at any moment and may race. Every byte is verified when it is read: what is damaged is
a miss, never a wrong answer.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import platformdirs
from filelock import FileLock, Timeout

from ..errors import StoreError
from ..util.files import (
    FileDigest,
    UnsafePathError,
    check_names,
    digest_file,
    digest_stream,
    open_tree,
    sync,
    sync_directory,
    write_atomically,
)
from .scratch import ScratchSpace

CACHE_VARIABLE = "MODELWHEEL_CACHE_DIR"
RECORD_VERSION = 1

_SHA256 = re.compile(r"[0-9a-f]{64}")

_log = logging.getLogger(__name__)

_YOUNG_SECONDS = 24 * 3600
"""Unreferenced blobs younger than this may belong to a record that is about to be written."""

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "your disk quota is used up: free some space",
    errno.EFBIG: "the file would exceed the size limit of this process (`ulimit -f`): raise it",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied: mend the permissions",
    errno.EPERM: "permission denied: mend the permissions",
}


@dataclass(frozen=True)
class Record:
    """What one finished action gave."""

    key: str
    files: Mapping[str, FileDigest]
    """Contents by relative POSIX name."""
    note: Mapping[str, Any] = field(default_factory=dict)
    """Anything JSON can hold that the action wants to say about its result."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


@dataclass(frozen=True)
class Entry:
    """One record in a listing of the store."""

    key: str
    size: int
    """Bytes of its files; blobs that several records share count in each."""
    used: float
    """When it was written or last looked up, in seconds since the epoch."""
    note: Mapping[str, Any]


def default_root() -> Path:
    """Where the store lies: `$MODELWHEEL_CACHE_DIR`, else the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return (
        Path(chosen).expanduser().absolute()
        if chosen
        else platformdirs.user_cache_path("modelwheel")
    )


def digest(value: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON value: sorted keys, no spaces, ASCII; NaN and infinity are refused."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def action_key(kind: str, **inputs: Any) -> str:
    """The key of an action: the hash of its kind and of everything its result depends on."""
    return digest({"kind": kind, "inputs": inputs})


class Store:
    """A store in one directory; any number of processes and threads may use it at once.

    Args:
        root: The directory, created on first use; `default_root()` by default.

    Every method raises StoreError, with the path and the remedy, if the disk or its permissions
    stand in the way.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or default_root()).absolute()
        self._scratch = ScratchSpace(self.root / "tmp")
        self._verified: dict[str, tuple[int, int, int]] = {}

    def lookup(self, key: str) -> Record | None:
        """The record under `key` with all its files verified, or None.

        Whatever is damaged or missing is removed with a warning in the log.
        """
        path = self._record_path(key)
        with self.disk_errors(path):
            record = self._read_record(key)
            if record is None:
                return None
            for name, file in record.files.items():
                if not self._is_sound(file):
                    self._drop(path, f"its file {name!r} is damaged or missing")
                    return None
            with suppress(OSError):  # a store that may only be read still serves
                os.utime(path)
        return record

    def peek(self, key: str) -> Record | None:
        """The record under `key` if its files are there, judged by their sizes alone; quick."""
        with self.disk_errors(self._record_path(key)):
            record = self._read_record(key)
            if record is not None and all(
                _size(self._blob_path(file.sha256)) == file.size for file in record.files.values()
            ):
                return record
        return None

    def contains(self, key: str) -> bool:
        """Whether `peek` finds something."""
        return self.peek(key) is not None

    def publish(self, key: str, directory: Path, note: Mapping[str, Any] | None = None) -> Record:
        """Stores every file below a finished directory as the result of the action `key`.

        Publishing the same again, also from several processes at once, is harmless.

        Raises:
            StoreError: Also if the directory holds anything but regular files and directories.
        """
        try:
            with self.disk_errors(self.root), self.scratch() as scratch:
                files = {
                    name: self._add_blob(file, scratch / "blob")
                    for name, file in open_tree(directory)
                }
        except UnsafePathError as error:
            raise StoreError(f"cannot store the files of {directory}: {error}") from error
        content = _serialise(Record(key, files, dict(note or {})))
        path = self._record_path(key)
        with self.disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        return _parse(key, content)

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
            directory: Created if need be; files that are there already are replaced.
            names: Which files; all by default.
            link: Hard-link the read-only blobs where the file system can, instead of copying: for
                readers that never write.

        Raises:
            StoreError: Also if a blob was damaged since it was looked up.
        """
        for name in record.files if names is None else names:
            target = directory / name
            with self.disk_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                aside = target.with_name(f".{os.getpid()}-{threading.get_ident()}")
                try:
                    self._copy_out(record, name, aside, link=link)
                    aside.replace(target)
                finally:
                    aside.unlink(missing_ok=True)

    def path(self, record: Record, name: str) -> Path:
        """The read-only file in the store that holds the content of `name`, verified.

        Raises:
            StoreError: Also if the blob was damaged since it was looked up.
        """
        file = record.files[name]
        path = self._blob_path(file.sha256)
        with self.disk_errors(path):
            if not self._is_sound(file):
                raise self._damage(record, name)
        return path

    def blob(self, sha256: str) -> Path | None:
        """The read-only file with this content, verified; None if the store does not have it."""
        path = self._blob_path(sha256)
        with self.disk_errors(path):
            size = _size(path)
            return path if size is not None and self._is_sound(FileDigest(sha256, size)) else None

    def read_bytes(self, record: Record, name: str) -> bytes:
        """The content of one file, verified.

        Raises:
            StoreError: Also if the blob was damaged since it was looked up.
        """
        path = self._blob_path(record.files[name].sha256)
        content = b""
        with self.disk_errors(path), suppress(FileNotFoundError):
            content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != record.files[name].sha256:
            raise self._damage(record, name)
        return content

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new, empty directory on the store's file system; removed at exit."""
        directory = self.keep_directory()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def keep_directory(self) -> Path:
        """As `scratch`, but the directory stays until this process ends or the store is closed."""
        with self.disk_errors(self.root):
            return self._scratch.make_directory()

    def close(self) -> None:
        """Removes the directories of `keep_directory`."""
        self._scratch.close()

    @contextmanager
    def lock(self, key: str, given_up: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Holds the right to do the work of `key`; waits while another process holds it.

        A lock ends with its holder, however that ends. Look the key up again under the lock.

        Args:
            key: The key.
            given_up: Asked now and then while this waits: True ends the waiting with a StoreError.
        """
        path = self.root / "locks" / f"{key}.lock"
        with self.disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                _log.info("waiting for another build that does the same work (%s)", key[:12])
                _wait_for(lock, given_up)
        try:
            yield
        finally:
            lock.release()

    def entries(self) -> list[Entry]:
        """Every readable record, the least recently used first."""
        with self.disk_errors(self.root):
            found = [
                Entry(record.key, record.size, used, record.note)
                for record, used in self._records()
            ]
        return sorted(found, key=lambda entry: (entry.used, entry.key))

    def disk_usage(self) -> int:
        """Bytes of all blobs, each counted once."""
        with self.disk_errors(self.root):
            return sum(_size(blob) or 0 for blob in self._blobs())

    def collect_garbage(self, unused_seconds: float) -> int:
        """Removes records unused for that long, and blobs that no record needs.

        Gives the number of bytes freed. Builds may go on meanwhile: at worst they do work anew.
        """
        freed, now = 0, time.time()
        needed: set[str] = set()
        with self.disk_errors(self.root):
            for record, used in self._records():
                if now - used > unused_seconds:
                    self._record_path(record.key).unlink(missing_ok=True)
                else:
                    needed.update(file.sha256 for file in record.files.values())
            for blob in self._blobs():
                with suppress(FileNotFoundError):
                    status = blob.stat()
                    if blob.name not in needed and now - status.st_mtime > _YOUNG_SECONDS:
                        blob.unlink()
                        freed += status.st_size
        return freed

    def _blobs(self) -> Iterator[Path]:
        return (self.root / "blobs").glob("??/*")

    def _records(self) -> Iterator[tuple[Record, float]]:
        """Every readable record with the time of its last use."""
        for path in (self.root / "actions").glob("??/*.json"):
            record = self._read_record(path.stem)
            if record is not None:
                with suppress(FileNotFoundError):
                    yield record, path.stat().st_mtime

    @contextmanager
    def disk_errors(self, path: Path) -> Iterator[None]:
        """Turns what the operating system refuses into a StoreError with its path and remedy.

        Args:
            path: Named by the error if the operating system does not say where it happened.
        """
        try:
            yield
        except OSError as error:
            place = Path(error.filename) if isinstance(error.filename, str) else path
            message = f"cannot read or write {place}: "
            message += _REMEDIES.get(error.errno or 0, error.strerror or str(error))
            if place.is_relative_to(self.root):
                message += f", or set {CACHE_VARIABLE} to a directory elsewhere"
            raise StoreError(message) from error

    def _record_path(self, key: str) -> Path:
        return self.root / "actions" / key[:2] / f"{key}.json"

    def _blob_path(self, sha256: str) -> Path:
        return self.root / "blobs" / sha256[:2] / sha256

    def _read_record(self, key: str) -> Record | None:
        path = self._record_path(key)
        try:
            return _parse(key, path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._drop(path, f"it is damaged ({error})")
            return None

    def _drop(self, path: Path, why: str) -> None:
        _log.warning("dropping the record %s: %s; its work will be done anew", path, why)
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def _damage(self, record: Record, name: str) -> StoreError:
        """Removes a damaged blob and its record; gives the error to raise."""
        path = self._blob_path(record.files[name].sha256)
        with suppress(OSError):
            path.unlink(missing_ok=True)
        self._drop(self._record_path(record.key), f"its file {name!r} is damaged or missing")
        return StoreError(
            f"{path} was damaged or removed while it was in use; run the command again (the file "
            "will be made anew), and check the disk if this repeats"
        )

    def _is_sound(self, file: FileDigest) -> bool:
        """Whether a blob holds what its name says; hashed anew only if the file changed."""
        path = self._blob_path(file.sha256)
        try:
            mark = _mark(path)
            if self._verified.get(file.sha256) == mark:
                return True
            sound = digest_file(path) == file
        except FileNotFoundError:
            return False
        if sound:
            self._verified[file.sha256] = mark
        return sound

    def _add_blob(self, source: BinaryIO, aside: Path) -> FileDigest:
        with aside.open("wb") as target:
            file = digest_stream(source, target)
            path = self._blob_path(file.sha256)
            if self._is_sound(file):
                with suppress(PermissionError):  # another user's, in a store that several share
                    os.utime(path)  # young again: not collected before the record is written
                self._verified[file.sha256] = _mark(path)
                return file
            sync(target)
        aside.chmod(0o444)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Also over a blob that is there: it may be damaged, and this one is known to be sound.
        aside.replace(path)
        sync_directory(path.parent)
        return file

    def _copy_out(self, record: Record, name: str, target: Path, *, link: bool) -> None:
        blob = self.path(record, name)
        if link:
            with suppress(OSError):
                os.link(blob, target)
                return
        with blob.open("rb") as source, target.open("wb") as copy:
            copied = digest_stream(source, copy)
        if copied != record.files[name]:
            raise self._damage(record, name)


def _wait_for(lock: FileLock, given_up: Callable[[], bool]) -> None:
    while not given_up():
        with suppress(Timeout):
            lock.acquire(timeout=0.5)
            return
    raise StoreError("gave up waiting for another build that does the same work; run it again")


def _serialise(record: Record) -> bytes:
    body = {
        "version": RECORD_VERSION,
        "key": record.key,
        "files": {name: asdict(file) for name, file in sorted(record.files.items())},
        "note": record.note,
    }
    return json.dumps({**body, "digest": digest(body)}, indent=1).encode()


def _parse(key: str, content: bytes) -> Record:
    body = json.loads(content)
    if body.pop("digest") != digest(body):
        raise ValueError("its content does not match its digest")
    if body["version"] != RECORD_VERSION or body["key"] != key:
        raise ValueError("it is of another version or key")
    check_names(body["files"])
    if not all(_SHA256.fullmatch(file["sha256"]) for file in body["files"].values()):
        raise ValueError("it names something that is no SHA-256")
    files = {name: FileDigest(**file) for name, file in body["files"].items()}
    return Record(key, files, body["note"])


def _mark(path: Path) -> tuple[int, int, int]:
    """What changes when a file is written to or replaced."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
