"""A store's files as objects of S3, Google Cloud Storage or Azure, by fsspec, with the credentials of their own tools."""

from __future__ import annotations

import base64
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from ... import extras
from ...errors import StoreError, UsageError
from ...util.places import url_problem
from ..names import PROBES
from . import failures
from .base import Entry, WrongSizeError, check_name

_Result = TypeVar("_Result")

PART = 8 << 20
"""Bytes of one request of a download."""
_UPLOAD_PART = 8 << 20
"""Bytes of one request of an upload that has several; S3 takes 10,000 of them."""
_TRIES = 4
"""Of what the libraries do not repeat themselves: answers that end too early, and writers at the same moment."""
_CLOCK_SECONDS = 60.0
"""How long the difference between two clocks is taken for the same."""


class ObjectBackend:
    """The objects below one URL; any number of processes and threads may use it at once.

    Requests are repeated as the libraries do (botocore's `AWS_MAX_ATTEMPTS` and `AWS_RETRY_MODE` count).

    Args:
        url: Such as `s3://bucket/prefix`, `gs://bucket/prefix` or `abfs://container/prefix`.

    Raises:
        UsageError: The address is not one of an object store.
        EnvironmentProblemError: The packages for this object store are not installed.
    """

    def __init__(self, url: str) -> None:
        if problem := url_problem(url):
            raise UsageError(f"the address of a store {problem}")
        scheme = urlsplit(url).scheme
        extras.require(scheme, f"a store at {scheme}://")
        self._url, self._scheme = url.rstrip("/"), scheme
        self._guard = threading.Lock()
        self._opened: tuple[int, Any, str] | None = None
        self._anonymous = False
        self._found = False
        self._clock: tuple[float, float] | None = None

    def __reduce__(self) -> tuple[type[ObjectBackend], tuple[str]]:
        return ObjectBackend, (self._url,)

    @property
    def address(self) -> str:
        return self._url

    def read(self, name: str) -> bytes:
        # Without it, s3fs asks for the size first.
        options = {"max_concurrency": 1} if self._scheme == "s3" else {}
        return cast(
            "bytes", self._call(f"read {name}", name, lambda f, p: f.cat_file(p, **options))
        )

    def fetch(self, name: str, to: Path, size: int) -> None:
        with to.open("ab") as target:
            if target.tell() > size:
                target.truncate(0)
            while target.tell() < size:
                start = target.tell()
                target.write(self._part(name, start, min(start + PART, size), size))

    def create(self, name: str, content: bytes | Path) -> bool:
        pause = 0.2
        for attempt in range(_TRIES):
            try:
                self._create(name, content)
            except Exception as error:
                if failures.is_there(error):
                    return False
                if failures.is_ended(error) and self.stat(name) is not None:
                    return False
                if not failures.is_busy(error) or attempt + 1 == _TRIES:
                    raise self._explained(error, f"write {name}") from error
                time.sleep(pause)
                pause *= 2
            else:
                return True
        return False

    def write(self, name: str, content: bytes) -> None:
        self._call(
            f"write {name}", name, lambda files, path: files.pipe_file(path, content), missing=False
        )

    def touch(self, name: str) -> None:
        self._call(f"write {name}", name, _TOUCH[self._scheme])

    def list(self, prefix: str) -> Iterator[Entry]:
        def find(files: Any, root: str) -> dict[str, dict[str, Any]]:
            # With a prefix, so that an empty listing is one request.
            entries: dict[str, dict[str, Any]] = files.find(root, prefix=prefix, detail=True)
            return entries

        try:
            listed = self._call(f"list {prefix}", "", find)
        except FileNotFoundError:
            return
        for info in listed.values():
            entry = self._entry(info)
            if entry.name.startswith(prefix):
                yield entry

    def remove(self, name: str) -> None:
        try:
            self._call(f"remove {name}", name, lambda files, path: files.rm_file(path))
        except FileNotFoundError:
            return

    def stat(self, name: str) -> Entry | None:
        try:
            info = self._call(f"read {name}", name, _STAT.get(self._scheme, _stat_others))
        except FileNotFoundError:
            if not self._found:  # a listing tells whether the bucket is missing, too
                list(self.list(name))
                self._found = True
            return None
        return self._entry(info) if info.get("type") == "file" else None

    def now(self) -> float:
        if self._clock is None or time.monotonic() - self._clock[0] > _CLOCK_SECONDS:
            self._clock = time.monotonic(), self._ask_time()
        read_at, server = self._clock
        return server + time.monotonic() - read_at

    def _ask_time(self) -> float:
        if self._scheme == "s3":
            bucket = urlsplit(self._url).netloc

            def head(files: Any, _: str) -> str:
                answer = files.call_s3("head_bucket", Bucket=bucket)
                return str(answer["ResponseMetadata"]["HTTPHeaders"]["date"])

            try:
                return parsedate_to_datetime(self._call("read the clock", "", head)).timestamp()
            except FileNotFoundError as error:
                raise self._explained(error, "read the clock") from error
        # The others show no header of an answer: the time of a new object is the server's, too.
        name = f"{PROBES}{uuid.uuid4().hex}"
        self.write(name, b"")
        entry = self.stat(name)
        self.remove(name)
        return time.time() if entry is None else entry.modified

    def _part(self, name: str, start: int, end: int, size: int) -> bytes:
        """Some bytes of an object of that size."""

        def read(files: Any, path: str) -> bytes:
            return cast("bytes", files.cat_file(path, start=start, end=end))

        got = 0
        for _ in range(_TRIES):
            try:
                part = self._call(f"read {name}", name, read)
            except StoreError:
                self._require_size(name, size)
                raise
            if len(part) == end - start:
                return part
            self._require_size(name, size)
            got = len(part)
        raise StoreError(
            f"cannot read {name} in the store {self._url}: answers have {got} bytes instead of {end - start}; "
            "run the command again later",
            code="MW703",
        )

    def _require_size(self, name: str, size: int) -> None:
        entry = self.stat(name)
        if entry is not None and entry.size != size:
            raise WrongSizeError(
                f"{self._url}/{name} is damaged: it has {entry.size} bytes, not {size}"
            )

    def _create(self, name: str, content: bytes | Path) -> None:
        """Writes an object that is not there; raises what the library raises."""
        check_name(name)
        # Azure's library has sizes of its own.
        parts = {} if self._scheme == "abfs" else {"chunksize": _UPLOAD_PART}
        whole = content if isinstance(content, bytes) else None
        if isinstance(content, Path) and content.stat().st_size < 2 * _UPLOAD_PART:
            whole = content.read_bytes()

        def put(files: Any, path: str) -> None:
            if whole is not None:
                files.pipe_file(path, whole, mode="create")
            else:
                files.put_file(str(content), path, mode="create", **parts)

        self._renewing(name, put)

    def _call(
        self, doing: str, name: str, action: Callable[[Any, str], _Result], *, missing: bool = True
    ) -> _Result:
        """Does something with the file system and the path of a name.

        Args:
            doing: For the error.
            name: The object; empty for the whole store.
            action: What is done.
            missing: Whether a missing object is a FileNotFoundError.
        """
        if name:
            check_name(name)
        try:
            return self._renewing(name, action)
        except Exception as error:
            if missing and failures.is_missing(error):
                raise FileNotFoundError(f"{self._url}/{name}") from None
            raise self._explained(error, doing) from error

    def _renewing(self, name: str, action: Callable[[Any, str], _Result]) -> _Result:
        """Does something, once more with new credentials, or without any, if those that there were do not count."""
        files, root = self._files()
        path = f"{root}/{name}" if name else root
        try:
            return action(files, path)
        except Exception as error:
            if failures.is_expired(error):
                self._opened = None
            elif type(error).__name__ == "NoCredentialsError" and not self._anonymous:
                self._opened, self._anonymous = None, True
            else:
                raise
        return action(self._files()[0], path)

    def _files(self) -> tuple[Any, str]:
        """The file system, and the path of the store in it. A forked process needs its own."""
        with self._guard:
            if self._opened is None or self._opened[0] != os.getpid():
                self._opened = os.getpid(), *self._open()
            return self._opened[1:]

    def _open(self) -> tuple[Any, str]:
        import fsspec

        options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
        if self._anonymous:
            options["anon"] = True
        try:
            files, root = fsspec.core.url_to_fs(self._url, **options)
        except Exception as error:
            raise self._explained(error, "find credentials") from error
        return files, str(root).rstrip("/")

    def _explained(self, error: BaseException, doing: str) -> Exception:
        if isinstance(error, (StoreError, UsageError)):
            return error
        return failures.explain(error, self._url, doing)

    def _entry(self, info: dict[str, Any]) -> Entry:
        root = self._files()[1]
        name = str(info["name"]).removeprefix(root).lstrip("/")
        return Entry(name, int(info["size"] or 0), _time(info), _tag(info))


def _stat_s3(files: Any, path: str) -> dict[str, Any]:
    # `info` would look for a directory of that name, too.
    bucket, _, key = path.partition("/")
    answer: dict[str, Any] = files.call_s3("head_object", Bucket=bucket, Key=key)
    return {**answer, "name": path, "size": answer["ContentLength"], "type": "file"}


def _stat_others(files: Any, path: str) -> dict[str, Any]:
    info: dict[str, Any] = files.info(path)
    return info


_STAT: dict[str, Callable[[Any, str], dict[str, Any]]] = {"s3": _stat_s3}


def _touch_s3(files: Any, path: str) -> None:
    # An object is copied onto itself if something about it changes.
    bucket, _, key = path.partition("/")
    source, about = {"Bucket": bucket, "Key": key}, {"touched": str(time.time())}
    files.call_s3(
        "copy_object", CopySource=source, Metadata=about, MetadataDirective="REPLACE", **source
    )


def _touch_others(files: Any, path: str) -> None:
    files.setxattrs(path, touched=str(int(time.time())))


_TOUCH: dict[str, Callable[[Any, str], None]] = {
    "s3": _touch_s3,
    "gs": _touch_others,
    "abfs": _touch_others,
}


def _time(info: dict[str, Any]) -> float:
    """When an object was written, as the libraries call it."""
    for field in ("LastModified", "last_modified", "updated", "mtime"):
        value = info.get(field)
        if isinstance(value, str):
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if isinstance(value, datetime):
            return value.replace(tzinfo=value.tzinfo or timezone.utc).timestamp()
    return 0.0


def _tag(info: dict[str, Any]) -> str:
    """The MD5 of an object in hexadecimal where the server tells it, else what it has in its place."""
    settings = info.get("content_settings") or {}
    md5 = settings.get("content_md5") or info.get("md5Hash")
    if isinstance(md5, str):
        md5 = base64.b64decode(md5)
    if md5:
        return bytes(md5).hex()
    return str(info.get("ETag") or info.get("etag") or "").strip('"')
