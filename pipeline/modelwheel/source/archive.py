"""Reads and unpacks archives (.tar.gz, .tar.xz, .zip) without trusting a byte of them."""

from __future__ import annotations

import errno
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from ..errors import SourceError
from ..util.files import NameSet, UnsafePathError, copy_exactly
from ..util.text import one_line
from .rules import MAX_MODEL_BYTES, MAX_MODEL_FILES, suggest_directory

# Bytes. Content goes through the same reader, so this must not be less than `files.CHUNK`.
_MAX_HEADER_BYTES = 4 << 20

DAMAGE = (
    EOFError,
    NotImplementedError,  # zipfile: a method of compression that it does not have
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

    Args:
        file: The archive, open at its beginning; its format is recognised by its content.
        shown: The archive's name in messages.

    Raises:
        SourceError: It is not an archive of a known format.
    """
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return _tar_members(cast("BinaryIO", gzip.GzipFile(fileobj=file)))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return _tar_members(cast("BinaryIO", lzma.LZMAFile(file)))
    if magic.startswith(b"PK"):
        return _zip_members(file)
    raise SourceError(f"{shown} is not an archive of a known format; use .tar.gz, .tar.xz or .zip")


def extract(archive: Path, path: str, directory: Path, shown: str) -> None:
    """Writes the files below `path` of an archive (.tar.gz, .tar.xz, .zip) into `directory`.

    Names are checked before anything is written. Only regular files are written; owners, permissions
    and links in the archive have no effect.

    Args:
        archive: The file.
        path: A relative POSIX path; empty for all.
        directory: An empty directory.
        shown: The archive's name in messages.

    Raises:
        SourceError: A member is refused, or the archive is damaged or of an unknown format.
    """
    with archive.open("rb") as file:
        members = read_members(file, shown)
        try:
            _extract_members(members, path, directory, shown)
        except UnsafePathError as error:
            raise SourceError(f"{shown} is refused: {one_line(error)}") from None
        except DAMAGE as error:
            raise _damage(shown, error) from error
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise _damage(shown, error) from error  # it seeks before the start of the file


def _damage(shown: str, error: Exception) -> SourceError:
    return SourceError(f"{shown} is a damaged or unsupported archive: {one_line(error)}")


class _BoundedReader(io.BufferedIOBase):
    """A decompressed stream that refuses large reads.

    tarfile reads long names and extended headers at once: a small archive could fill the memory.
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


def _tar_members(stream: BinaryIO) -> Iterator[Member]:
    # `r:`: tarfile would unpack a compressed archive in this one past the bounded reader.
    with stream, tarfile.open(fileobj=_BoundedReader(stream), mode="r:") as archive:
        for member in archive:
            yield Member(member.name, _tar_kind(member), member.size, _tar_opener(archive, member))


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


def _zip_members(file: BinaryIO) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
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


def _extract_members(members: Iterator[Member], path: str, directory: Path, shown: str) -> None:
    names, directories = NameSet(), set[str]()
    count = total = 0
    for member in members:
        # Also those outside `path`, because a tar archive is decompressed to get past them.
        count, total = count + 1, total + member.size
        if count > MAX_MODEL_FILES or total > MAX_MODEL_BYTES:
            raise UnsafePathError(
                f"it has more than {MAX_MODEL_FILES} files or {MAX_MODEL_BYTES} bytes"
            )
        name = _plain_name(member)
        if not name:
            continue
        # On its own: what is not written may clash, but no archive with an unsafe name is trusted.
        NameSet().add(name)
        directories.update(_directories(name, member.kind))
        relative = _below(name, path)
        # Directories are made for the files in them: an empty one is not part of a model.
        if relative is None or (member.kind == "directory"):
            continue
        _require_file(member, relative)
        names.add(relative)
        _write(member, directory / relative)
    if path and path not in directories:
        raise SourceError(
            f"{shown} has no directory {path!r}; {suggest_directory(path, directories)}"
        )


def _plain_name(member: Member) -> str:
    """The name without the `./` that tar adds in front and the `/` that zip adds at the end."""
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
    """`name` relative to `path`: empty for `path` itself, None if it is elsewhere."""
    if not path:
        return name
    if name == path:
        return ""
    return name[len(path) + 1 :] if name.startswith(f"{path}/") else None


def _require_file(member: Member, relative: str) -> None:
    if member.kind != "file":
        raise UnsafePathError(f"{member.name!r} is {member.kind}, not a regular file")
    if not relative:
        raise UnsafePathError(f"{member.name!r} is a file; name the directory that contains it")


def _write(member: Member, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with member.open() as source, target.open("xb") as file:
        copy_exactly(cast("BinaryIO", source), file, member.size)
        # The limits were checked against the sizes that the archive declares.
        if source.read(1):
            raise tarfile.ReadError(f"{member.name!r} is longer than the archive declares")
