"""Downloads an archive, verifies it, and unpacks one directory of it without trusting a byte."""

from __future__ import annotations

import errno
import gzip
import io
import lzma
import shutil
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from ..errors import SourceError
from ..util.files import (
    CHUNK,
    MAX_MODEL_BYTES,
    MAX_MODEL_FILES,
    NameSet,
    UnsafePathError,
    copy_exactly,
    digest_file,
)
from ..util.urls import redact
from .git import suggest

SCHEMES = ("https", "http", "file")

_READ_TIMEOUT = 60.0
_MAX_HEADER_BYTES = 4 << 20

_DAMAGE = (
    EOFError,
    NotImplementedError,
    OverflowError,
    RecursionError,
    RuntimeError,
    ValueError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the standard library raises for archives that are broken, encrypted or too new."""


@dataclass(frozen=True)
class _Member:
    """One entry of an archive."""

    name: str
    kind: str
    """`file`, `directory`, or what else it is."""
    size: int
    """Bytes when unpacked."""
    open: Callable[[], IO[bytes]]


def download(url: str, sha256: str, target: Path, timeout: float) -> None:
    """Downloads `url` to the file `target` and verifies it.

    Raises:
        SourceError: The host cannot be reached or refuses, or the SHA-256 is another.
    """
    with target.open("wb") as file:
        if urlsplit(url).scheme == "file":
            _copy_local(url, file)
        else:
            _download(url, _LimitedWriter(file, url, timeout), timeout)
    found = digest_file(target).sha256
    if found != sha256:
        raise SourceError(
            f"{redact(url)}: expected SHA-256 {sha256}, got {found}: the data changed, the "
            "download was damaged, or the pin is wrong"
        )


def extract(archive: Path, path: str, directory: Path, shown: str) -> None:
    """Writes the files below `path` of an archive (.tar.gz, .tar.xz, .zip) into `directory`.

    Names are checked before anything is written, only regular files are, and nothing that the
    archive says about owners, permissions or links has an effect.

    Args:
        archive: The file; its format is told from its content.
        path: A relative POSIX path; empty for all.
        directory: An empty directory.
        shown: How errors call the archive.

    Raises:
        SourceError: Names the member that is refused, or says what is wrong with the archive.
    """
    with archive.open("rb") as file:
        members = _find_reader(file, shown)
        try:
            _extract_members(members, path, directory, shown)
        except UnsafePathError as error:
            raise SourceError(f"{shown} is refused: {error}") from None
        except _DAMAGE as error:
            raise _damage(shown, error) from error
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise _damage(shown, error) from error  # a position before the start of the file


def _damage(shown: str, error: Exception) -> SourceError:
    return SourceError(f"{shown} is a damaged or unsupported archive: {error}")


class _LimitedWriter:
    """Passes on what is downloaded until it is too much or takes too long."""

    def __init__(self, file: BinaryIO, url: str, timeout: float) -> None:
        self._file = file
        self._url = url
        self._left = MAX_MODEL_BYTES
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout

    def write(self, chunk: bytes) -> int:
        self._left -= len(chunk)
        if self._left < 0:
            raise SourceError(f"{redact(self._url)} is larger than {MAX_MODEL_BYTES} bytes")
        if time.monotonic() > self._deadline:
            raise _too_slow(self._url, self._timeout)
        return self._file.write(chunk)


def _too_slow(url: str, timeout: float) -> SourceError:
    return SourceError(
        f"downloading {redact(url)} took longer than {timeout:g} s; check the network and the "
        "host, then run again"
    )


def _copy_local(url: str, target: BinaryIO) -> None:
    path = Path(unquote(urlsplit(url).path))
    try:
        source = path.open("rb")
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}; correct the URL") from error
    with source:
        shutil.copyfileobj(source, target, CHUNK)


def _download(url: str, target: _LimitedWriter, timeout: float) -> None:
    import requests
    from requests import exceptions

    # The messages of requests repeat the URL with its credentials: none of them is passed on.
    try:
        # A server that calls a .tar.gz "encoded as gzip" would have it unpacked on the way.
        headers = {"Accept-Encoding": "identity"}
        patience = min(timeout, _READ_TIMEOUT)
        with requests.get(url, headers=headers, timeout=patience, stream=True) as response:
            if not response.ok:
                raise _refusal(url, response.status_code)
            for chunk in response.iter_content(CHUNK):
                target.write(chunk)
    except exceptions.Timeout:
        raise _too_slow(url, timeout) from None
    except (exceptions.ConnectionError, exceptions.ChunkedEncodingError):
        raise SourceError(
            f"cannot reach the host of {redact(url)}, or it hung up; check the URL and the "
            "network, then run again"
        ) from None
    except exceptions.RequestException as error:
        raise SourceError(
            f"cannot download {redact(url)} ({type(error).__name__}); correct the URL"
        ) from None


def _refusal(url: str, status: int) -> SourceError:
    remedies = {
        401: "provide credentials, for example in ~/.netrc",
        403: "provide credentials that may read it, for example in ~/.netrc",
        404: "correct the URL",
        410: "correct the URL",
    }
    remedy = remedies.get(status, "try again later")
    return SourceError(f"cannot download {redact(url)}: HTTP status {status}; {remedy}")


def _find_reader(file: BinaryIO, shown: str) -> Iterator[_Member]:
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return _tar_members(cast("BinaryIO", gzip.GzipFile(fileobj=file)))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return _tar_members(cast("BinaryIO", lzma.LZMAFile(file)))
    if magic.startswith(b"PK"):
        return _zip_members(file)
    raise SourceError(f"{shown} is no archive that can be read; use .tar.gz, .tar.xz or .zip")


class _BoundedReader(io.BufferedIOBase):
    """A decompressed stream; refuses to give a huge piece at once.

    tarfile reads long names and extended headers whole: a small archive could fill the memory.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _MAX_HEADER_BYTES:
            raise tarfile.ReadError("a header is too long")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def _tar_members(stream: BinaryIO) -> Iterator[_Member]:
    with stream, tarfile.open(fileobj=_BoundedReader(stream), mode="r:") as archive:
        for member in archive:
            yield _Member(member.name, _tar_kind(member), member.size, _tar_opener(archive, member))


def _tar_opener(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    return lambda: cast("IO[bytes]", archive.extractfile(member))


def _tar_kind(member: tarfile.TarInfo) -> str:
    if member.isfile():
        return "file"
    if member.isdir():
        return "directory"
    if member.issym():
        return "a symbolic link"
    if member.islnk():
        return "a hard link"
    return "a device or pipe" if member.isdev() else "of an unknown type"


def _zip_members(file: BinaryIO) -> Iterator[_Member]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            # `filename` ends at the first NUL; the original does not.
            name = member.orig_filename
            yield _Member(name, _zip_kind(member), member.file_size, _zip_opener(archive, member))


def _zip_opener(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(member)


def _zip_kind(member: zipfile.ZipInfo) -> str:
    mode = member.external_attr >> 16  # as Unix tools write it; 0 elsewhere
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a device or pipe"
    return "directory" if member.orig_filename.endswith("/") else "file"


def _extract_members(members: Iterator[_Member], path: str, directory: Path, shown: str) -> None:
    names, directories = NameSet(), set[str]()
    count = total = 0
    for member in members:
        count, total = count + 1, total + member.size
        if count > MAX_MODEL_FILES or total > MAX_MODEL_BYTES:
            raise UnsafePathError(
                f"it holds more than {MAX_MODEL_FILES} files or {MAX_MODEL_BYTES} bytes"
            )
        name = _plain_name(member)
        if not name:
            continue
        NameSet().add(name)
        directories.update(_directories(name, member.kind))
        relative = _below(name, path)
        if relative is None or (member.kind == "directory"):
            continue
        _require_file(member, relative)
        names.add(relative)
        _write(member, directory / relative)
    if path and path not in directories:
        raise SourceError(f"{shown} has no directory {path!r}; {suggest(path, directories)}")


def _plain_name(member: _Member) -> str:
    """The name without the `./` that tar puts before and the `/` that zip puts after."""
    name = member.name
    while name.startswith("./"):
        name = name[2:]
    if member.kind == "directory":
        name = name.removesuffix("/")
    return "" if name == "." else name


def _directories(name: str, kind: str) -> Iterator[str]:
    parts = name.split("/")
    for length in range(1, len(parts) + (kind == "directory")):
        yield "/".join(parts[:length])


def _below(name: str, path: str) -> str | None:
    """`name` relative to `path`: empty for `path` itself, None if it lies elsewhere."""
    if not path:
        return name
    if name == path:
        return ""
    return name[len(path) + 1 :] if name.startswith(f"{path}/") else None


def _require_file(member: _Member, relative: str) -> None:
    if member.kind != "file":
        raise UnsafePathError(f"{member.name!r} is {member.kind}, not a regular file")
    if not relative:
        raise UnsafePathError(f"{member.name!r} is a file; name the directory it lies in")


def _write(member: _Member, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with member.open() as source, target.open("xb") as file:
        copy_exactly(cast("BinaryIO", source), file, member.size)
        if source.read(1):
            raise tarfile.ReadError(f"{member.name!r} is longer than it says")
