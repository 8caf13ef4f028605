"""Safe file names, hashes, and writing aside and renaming: what all modules need that touch files."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

CHUNK = 1 << 20
"""Bytes read at a time."""

MAX_NAME_BYTES = 1024
MAX_COMPONENT_BYTES = 255

MAX_MODEL_FILES = 10_000
MAX_MODEL_BYTES = 4 << 30
"""No model has more files or bytes: what claims to is a mistake or a decompression bomb."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")


class UnsafePathError(ValueError):
    """A file name, or what lies under it, is not fit to be stored; the message names it."""


@dataclass(frozen=True)
class FileDigest:
    """The content of one file."""

    sha256: str
    """Lower-case hexadecimal SHA-256."""
    size: int
    """Bytes."""


def name_problem(name: str) -> str | None:
    """What makes `name` unfit as a relative, portable POSIX path; None if nothing does.

    A name without a problem stays below whatever directory it is joined to.
    """
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if not name:
        return "is empty"
    if length > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    if _CONTROL.search(name):
        return "contains a control character"
    if "\\" in name:
        return "contains a backslash"
    if name.startswith("/") or _DRIVE.match(name):
        return "is an absolute path"
    return _component_problem(name.split("/"))


def _component_problem(components: list[str]) -> str | None:
    if ".." in components:
        return "climbs out of its directory with '..'"
    if "" in components or "." in components:
        return "has an empty or '.' component"
    if any(len(component.encode()) > MAX_COMPONENT_BYTES for component in components):
        return f"has a component longer than {MAX_COMPONENT_BYTES} bytes"
    return None


def check_names(names: Iterable[str]) -> None:
    """Refuses file names that are unsafe, or that cannot lie side by side on every file system.

    Two names clash if they, or directories on their way, differ in letter case or Unicode form
    only, if one occurs twice, or if one is a directory of the other.

    Raises:
        UnsafePathError: Names the offender.
    """
    seen = NameSet()
    for name in names:
        seen.add(name)


class NameSet:
    """File names that can lie side by side on every file system; see `check_names`."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._directories: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Adds one name.

        Raises:
            UnsafePathError: It is unsafe, or clashes with one that was added before.
        """
        if problem := name_problem(name):
            raise UnsafePathError(f"the file name {name!r} {problem}")
        for parent in _parents(name):
            folded = _fold(parent)
            self._refuse(self._files.get(folded), name)
            if self._directories.setdefault(folded, parent) != parent:
                self._refuse(self._directories[folded], name)
        folded = _fold(name)
        self._refuse(self._files.get(folded) or self._directories.get(folded), name)
        self._files[folded] = name

    def _refuse(self, other: str | None, name: str) -> None:
        if other is not None:
            raise UnsafePathError(f"the file names {other!r} and {name!r} clash")


def _parents(name: str) -> Iterator[str]:
    cut = name.find("/")
    while cut != -1:
        yield name[:cut]
        cut = name.find("/", cut + 1)


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def open_tree(directory: Path) -> Iterator[tuple[str, BinaryIO]]:
    """Opens every file below `directory` in turn, in a fixed order; the next step closes it.

    Yields the POSIX name relative to `directory` and the open file. Nothing is followed: a symbolic
    link put in place of a file or directory while this runs is refused or passed over, never read.

    Raises:
        UnsafePathError: There is something that is neither a regular file nor a directory, or a
            name that `check_names` refuses.
        OSError: Something cannot be read.
    """
    root = Path(os.path.realpath(directory))
    names = NameSet()
    for folder, subdirectories, files, descriptor in os.fwalk(
        root, onerror=_reraise, follow_symlinks=False
    ):
        prefix = "" if Path(folder) == root else f"{Path(folder).relative_to(root).as_posix()}/"
        subdirectories.sort()
        for name in subdirectories:
            _require_kind(prefix + name, os.lstat(name, dir_fd=descriptor), directory=True)
        for name in sorted(files):
            _require_kind(prefix + name, os.lstat(name, dir_fd=descriptor), directory=False)
            names.add(prefix + name)
            with _open_regular(name, descriptor, root / prefix / name) as file:
                yield prefix + name, file


def _reraise(error: OSError) -> None:
    raise error


def _open_regular(name: str, descriptor: int, path: Path) -> BinaryIO:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.fdopen(os.open(name, flags, dir_fd=descriptor), "rb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        # Once more on what was opened: the entry may have been exchanged since it was listed.
        _require_kind(name, os.fstat(file.fileno()), directory=False)
    except BaseException:
        file.close()
        raise
    return file


def _require_kind(name: str, status: os.stat_result, *, directory: bool) -> None:
    fits = stat.S_ISDIR(status.st_mode) if directory else stat.S_ISREG(status.st_mode)
    if not fits:
        raise UnsafePathError(f"{name!r} is {_kind(status.st_mode)}, not a regular file")


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device" if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) else "a directory"


def digest_file(path: Path) -> FileDigest:
    """The SHA-256 and size of one file."""
    with path.open("rb") as file:
        return digest_stream(file)


def digest_stream(source: IO[bytes], copy_to: IO[bytes] | None = None) -> FileDigest:
    """Reads `source` to its end, copying it on the way if asked to."""
    sha256, size = hashlib.sha256(), 0
    while chunk := source.read(CHUNK):
        sha256.update(chunk)
        size += len(chunk)
        if copy_to is not None:
            copy_to.write(chunk)
    return FileDigest(sha256.hexdigest(), size)


def copy_exactly(source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Copies the next `size` bytes.

    Raises:
        EOFError: `source` ends before.
    """
    while size:
        chunk = source.read(min(size, CHUNK))
        if not chunk:
            raise EOFError(f"{size} bytes are missing")
        target.write(chunk)
        size -= len(chunk)


def digest_tree(directory: Path) -> dict[str, FileDigest]:
    """The digest of every file below `directory` by name; see `open_tree` for what it refuses."""
    return {name: digest_stream(file) for name, file in open_tree(directory)}


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a file so that readers, and a crash at any moment, see it whole or not at all."""
    aside = path.with_name(f".{path.name[:64]}.{uuid.uuid4().hex}")
    try:
        with aside.open("wb") as file:
            file.write(content)
            sync(file)
        aside.chmod(mode)
        aside.replace(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise
    sync_directory(path.parent)


def sync(file: BinaryIO) -> None:
    """Brings what was written to `file` to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Brings renames in `directory` to the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
