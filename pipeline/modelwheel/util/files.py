"""Digests of files, and writes that are complete or absent."""

from __future__ import annotations

import ctypes
import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from .removal import folders_of, is_windows, make_writable, remove
from .unfinished import unfinished_file

CHUNK = 1 << 20
"""Bytes read at a time."""

_WAITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between attempts to rename on Windows: readers and virus scanners hold files open."""


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""From fcntl.h and stdio.h of Linux."""


@dataclass(frozen=True)
class FileDigest:
    """The content of one file."""

    sha256: str
    """Lower-case hexadecimal SHA-256."""
    size: int
    """Bytes."""


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
        EOFError: `source` ends too early.
    """
    while size:
        chunk = source.read(min(size, CHUNK))
        if not chunk:
            raise EOFError(f"{size} bytes are missing")
        target.write(chunk)
        size -= len(chunk)


def write_atomically(
    path: Path, content: bytes, mode: int = 0o644, *, aside: Path | None = None
) -> None:
    """Writes a file so that readers, and a crash at any moment, see all of it or nothing.

    Args:
        path: The file; an existing one is replaced.
        content: All of it.
        mode: Its permissions.
        aside: An unused path on the same file system, where a crash may leave the unfinished file; by default a hidden
            one in the same directory, which the next process that writes there removes.
    """
    if aside is None:
        with unfinished_file(path) as made:
            _write_by_rename(path, content, mode, made)
        return
    try:
        _write_by_rename(path, content, mode, aside)
    except BaseException:
        with suppress(OSError):
            remove(aside)
        raise


def _write_by_rename(path: Path, content: bytes, mode: int, aside: Path) -> None:
    with aside.open("wb") as file:
        file.write(content)
        # Before the rename: after a power cut, the file must not be there without content.
        sync(file)
    # Also before the rename, so that nobody opens the file with other permissions.
    aside.chmod(mode)
    replace(aside, path)
    sync_directory(path.parent)


def sync(file: BinaryIO) -> None:
    """Writes what the system has buffered of `file` to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Writes renames in `directory` to the disk.

    Windows cannot open a directory for that; its file systems keep a journal of renames.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find_checkout(directory: Path) -> Path | None:
    """The git checkout that a directory is in: the nearest with `.git`, which is a file in a worktree or submodule."""
    above = (directory, *directory.parents)
    return next((parent for parent in above if (parent / ".git").exists()), None)


def make_directory(directory: Path) -> None:
    """Creates a directory with its parents so that a power cut does not take them away again."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    with suppress(FileExistsError):  # somebody else was quicker; a file there fails the next use
        directory.mkdir()
    # Also if somebody else made it: they may not have come to this yet.
    with suppress(PermissionError):  # one may create files in a directory that one cannot list
        sync_directory(directory.parent)


def replace(source: Path, target: Path) -> None:
    """Renames a file, over `target` if that exists.

    Windows refuses this while another process reads `target` (then it is tried again for about two
    seconds) and if `target` is read-only (then it is made writable first).

    Raises:
        OSError: It cannot be renamed; `target` is unchanged.
    """
    for wait in _WAITS if is_windows() else ():
        try:
            source.replace(target)
        except PermissionError:
            make_writable(target)
            time.sleep(wait)
        else:
            return
    source.replace(target)


def replace_directory(new: Path, target: Path) -> None:
    """Renames a directory to `target`; what was there is at `new` then, for the caller to remove.

    On Linux both are exchanged, so that `target` is always there as a whole. Elsewhere it is missing for a moment.

    Raises:
        OSError: It cannot be renamed; `target` is unchanged.
    """
    if not target.exists():
        new.rename(target)
    elif not _exchange(new, target):
        old = new.with_name(f"{new.name}.old")
        target.rename(old)
        try:
            new.rename(target)
        # Also if interrupted: the directory must not be missing.
        except BaseException:
            old.rename(target)
            raise
        old.rename(new)
    sync_directory(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two directories of one file system; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):  # macOS, older systems; Windows
        return False
    first, second = (os.fsencode(path.absolute()) for path in (one, other))
    return bool(rename(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE) == 0)


def sync_file(path: Path) -> None:
    """Writes what the system has buffered of a file to the disk."""
    with path.open("r+b" if is_windows() else "rb") as file:  # it syncs only what it may write
        os.fsync(file.fileno())


def sync_tree(directory: Path) -> None:
    """Writes a directory with everything in it to the disk."""
    for folder, files in folders_of(directory):
        for path in files:
            sync_file(path)
        sync_directory(folder)
