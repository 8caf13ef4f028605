"""The entries of archives (.tar.gz, .tar.xz, .zip): read within limits, and nothing in them is trusted."""

from __future__ import annotations

import gzip
import lzma
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO, Protocol, cast

from ..errors import SourceError
from ..util.files import CHUNK
from ..util.names import UnsafePathError
from .rules import Tally

# Bytes of all headers of one member: tarfile reads them whole, parses them with expressions that
# take quadratic time (CVE-2024-6232), and recurses from one to the next.
_MAX_HEADER_BYTES = 64 << 10
# Bytes of a zip file's directory, which zipfile reads whole: 400 for each of 10 000 files.
_MAX_DIRECTORY_BYTES = 4 << 20
# `xz -9` needs 65 MiB; a file of 68 bytes may ask for 4 GiB.
_MAX_LZMA_BYTES = 192 << 20
_MAX_SECONDS = 900.0

_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""What every installer accepts; zip has a dozen others, and those in Python have no memory limit."""

_ENCRYPTED = 0x1
"""Bit 0 of a member's general purpose flags (APPNOTE.TXT 6.3.10, section 4.4.4)."""

DAMAGE = (
    EOFError,
    IndexError,  # zipfile before Python 3.11.4: an empty name
    MemoryError,
    NotImplementedError,  # zipfile: a newer version of the format, or patched data
    OverflowError,
    RecursionError,  # tarfile: a chain of long names, which it reads by recursion
    RuntimeError,  # zipfile: the member is encrypted
    ValueError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the standard library raises for archives that are damaged, encrypted or too new."""


def damage_reason(error: Exception) -> str:
    """The reason of an error of `DAMAGE`; continues a sentence."""
    if isinstance(error, MemoryError):
        return "it needs too much memory"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) or "it ends too early"


@dataclass(frozen=True)
class Member:
    """One entry of an archive."""

    name: str
    kind: str
    """`file`, `directory`, or what else it is."""
    size: int
    """Bytes when unpacked."""
    open: Callable[[], IO[bytes]]


def read_members(file: BinaryIO, shown: str) -> Iterator[Member]:
    """Every entry of an archive in its order; iterating may raise any of `DAMAGE`.

    A member can only be opened before the next one is asked for.

    Args:
        file: The archive, open at its beginning; its format is recognised by its content.
        shown: The archive's name in messages.

    Raises:
        SourceError: It is not an archive of a known format.
        UnsafePathError: While iterating: it has more than a model may have.
    """
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return _tar_members(file, _Gzip)
    if magic.startswith(b"\xfd7zXZ\x00"):
        return _tar_members(file, _new_lzma)
    if magic.startswith(b"PK"):
        return _zip_members(file)
    raise SourceError(
        f"{shown} is not an archive of a known format; use .tar.gz, .tar.xz or .zip", code="MW310"
    )


class _Decompressor(Protocol):
    """The interface of `lzma.LZMADecompressor`."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """One member of a gzip file; `gzip.GzipFile` reads a long name in its header byte by byte."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        made = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        self.needs_input = not self._stream.unconsumed_tail and len(made) < max_length
        return made


def _new_lzma() -> _Decompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_LZMA_BYTES)


def _decompress(file: BinaryIO, make: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """The content of a compressed file, which may be several streams and zeros after each."""
    deadline = time.monotonic() + _MAX_SECONDS
    stream, data = make(), b""
    fresh = True
    while True:
        if time.monotonic() > deadline:
            raise UnsafePathError(f"unpacking it takes longer than {_MAX_SECONDS:g} s")
        if stream.needs_input and not data:
            data = file.read(CHUNK)
            if not data:
                if fresh:
                    return
                raise EOFError("it ends too early")
        made = stream.decompress(data, CHUNK)
        fresh, data = False, b""
        if made:
            yield made
        if stream.eof:
            data = stream.unused_data.lstrip(b"\0")
            while not data and (more := file.read(CHUNK)):
                data = more.lstrip(b"\0")
            stream, fresh = make(), True


class _Forward:
    """The stream that tarfile reads: forwards only, and headers within a limit.

    A header that points backwards would be read again and again (CVE-2025-8194).
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk, self._begin = b"", 0
        self._position = 0
        self.allowed = _MAX_HEADER_BYTES
        """Bytes that may still be read."""
        self.last = b""
        """What was read last."""

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= self.allowed:
            raise tarfile.ReadError("a header is too long")
        self.allowed -= size
        self.last = self._take(size)
        return self.last

    def seek(self, offset: int, whence: int = 0, /) -> int:
        distance = offset - self._position
        if whence or distance < 0:
            raise tarfile.ReadError("a header points backwards")
        while distance and (passed := len(self._take(min(distance, CHUNK)))):
            distance -= passed
        return self._position

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return True

    def _take(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            if self._begin == len(self._chunk):
                self._chunk, self._begin = next(self._chunks, b""), 0
                if not self._chunk:
                    break
            part = self._chunk[self._begin : self._begin + size]
            parts.append(part)
            size -= len(part)
            self._begin += len(part)
            self._position += len(part)
        return b"".join(parts)


def _tar_members(file: BinaryIO, make: Callable[[], _Decompressor]) -> Iterator[Member]:
    reader, tally = _Forward(_decompress(file, make)), Tally()
    # `r:`: tarfile would unpack a compressed archive in this one past the reader's limits.
    with tarfile.open(fileobj=cast("IO[bytes]", reader), mode="r:") as archive:
        for member in archive:
            # Also those outside the path of a model: they are decompressed to get past them.
            if member.size < 0:  # older versions of tarfile go backwards then (CVE-2025-8194)
                raise tarfile.ReadError("a member has a negative size")
            tally.count(member.size)
            reader.allowed = member.size
            yield Member(member.name, _tar_kind(member), member.size, _tar_opener(archive, member))
            reader.allowed = _MAX_HEADER_BYTES
    # tarfile takes a header that it cannot read for the end, which is nothing or zeros.
    if reader.last.strip(b"\0"):
        raise tarfile.ReadError("a header is damaged")


def _tar_opener(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    return lambda: cast("IO[bytes]", archive.extractfile(member))


def _tar_kind(member: tarfile.TarInfo) -> str:
    # A header of 512 bytes would unpack to any number of zeros.
    if member.issparse():
        return "a sparse file"
    if member.isfile():
        return "file"
    if member.isdir():
        return "directory"
    if member.issym():
        return "a symbolic link"
    if member.islnk():
        return "a hard link"
    return "a device or pipe" if member.isdev() else "of an unknown type"


@contextmanager
def open_zip(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Opens a zip file whose directory is not too long; whatever is done may raise any of `DAMAGE`."""
    bounded = _ShortReads(file)
    with zipfile.ZipFile(cast("IO[bytes]", bounded)) as archive:
        bounded.limit = None
        yield archive


def zip_problem(member: zipfile.ZipInfo) -> str | None:
    """Why a member of a zip file is not read; None if it is."""
    if member.flag_bits & _ENCRYPTED:
        return f"{member.orig_filename} is encrypted"
    if member.compress_type not in _METHODS:
        return f"{member.orig_filename} uses zip compression method {member.compress_type}"
    return None


class _ShortReads:
    """A file that refuses to be read in large pieces until `limit` is removed."""

    def __init__(self, file: BinaryIO) -> None:
        self.limit: int | None = _MAX_DIRECTORY_BYTES
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        if self.limit is not None and not 0 <= size <= self.limit:
            # zipfile reads the last 64 KiB, where the directory's end is, by a size of -1.
            size = self.limit + 1
        content = self._file.read(size)
        if self.limit is not None and len(content) > self.limit:
            raise zipfile.BadZipFile("its directory is too long")
        return content

    def close(self) -> None:
        """Does nothing: the file is closed by whoever opened it."""


def _zip_members(file: BinaryIO) -> Iterator[Member]:
    with open_zip(file) as archive:
        tally = Tally()
        for member in archive.infolist():
            tally.count(member.file_size)
            if problem := zip_problem(member):
                raise zipfile.BadZipFile(problem)
            # `filename` ends at the first NUL; the original does not.
            name = member.orig_filename
            yield Member(name, _zip_kind(member), member.file_size, _zip_opener(archive, member))


def _zip_opener(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(member)


def _zip_kind(member: zipfile.ZipInfo) -> str:
    mode = member.external_attr >> 16  # as Unix tools write it; 0 elsewhere
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a device or pipe"
    return "directory" if member.orig_filename.endswith("/") else "file"
