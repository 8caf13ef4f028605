"""Reads directories that others wrote: regular files with safe names, and no link is followed."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .files import FileDigest, digest_stream
from .names import MAX_DEPTH, NameSet, UnsafePathError, name_problem
from .words import size_text

_NEVER_WAIT: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Opening a pipe would wait for its writer; Windows has no such pipes, and changes line ends."""

# O_NONBLOCK: opening a pipe would wait for its writer.
_AT_FLAGS: int = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)

PATIENCE = 90.0
"""Seconds until a file must be readable that another program holds. A lease ends 45 seconds after the first try to
open the file (/proc/sys/fs/lease-break-time), whatever its holder does."""
_PAUSE = 0.05

_JUNCTION = 0xA0000003
"""IO_REPARSE_TAG_MOUNT_POINT: Windows reports a junction as a directory, not as a symbolic link."""


def open_tree(directory: Path) -> Iterator[tuple[str, BinaryIO]]:
    """Opens every file below `directory` in turn, in a fixed order; advancing the iterator closes it.

    Yields the POSIX name relative to `directory` and the open file. No link is followed. Where the
    system can open files relative to an open directory, this holds even if somebody exchanges files
    or directories for links meanwhile; elsewhere (Windows) an exchanged file is refused.

    Raises:
        UnsafePathError: There is something that is neither a regular file nor a directory, or a
            name that `check_names` refuses.
        OSError: Something cannot be read.
    """
    # The caller may name a link; below it, links are what somebody else put there.
    root = Path(os.path.realpath(directory))
    return _open_by_descriptors(root) if hasattr(os, "fwalk") else _open_by_paths(root)


def open_regular(path: Path | str) -> BinaryIO:
    """Opens one file that somebody else may have written: never a link, and never waits for a pipe.

    Raises:
        UnsafePathError: It is not a regular file.
        OSError: It cannot be opened, or is a symbolic link (ELOOP).
    """
    if hasattr(os, "fwalk"):
        return _open_at(None, str(path), path)
    path = Path(path)
    return _open_path(path.name, path)


def read_regular(path: str, limit: int) -> bytes:
    """The first `limit` bytes of a file that `open_regular` opens; quicker for thousands of small files.

    Raises:
        UnsafePathError: It is not a regular file.
        OSError: It cannot be read, or is a symbolic link (ELOOP).
    """
    if not hasattr(os, "fwalk"):
        with open_regular(path) as file:
            return file.read(limit)
    descriptor = _open_held(path, _AT_FLAGS)
    try:
        status = os.fstat(descriptor)
        _require_kind(path, status, directory=False)
        parts: list[bytes] = []
        while limit > 0 and (part := os.read(descriptor, min(limit, status.st_size + 1))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def open_plain(path: Path) -> BinaryIO:
    """Opens a regular file, or one that a link leads to; never waits for the writer of a pipe.

    Raises:
        UnsafePathError: It is something else.
        OSError: It does not exist or cannot be read.
    """
    # By the file itself too: Windows cannot open a directory, and has no O_NONBLOCK.
    _require_kind(path.name, path.stat(), directory=False)
    file = os.fdopen(_open_held(str(path), os.O_RDONLY | _NEVER_WAIT), "rb")
    try:
        _require_kind(path.name, os.fstat(file.fileno()), directory=False)
    except BaseException:
        file.close()
        raise
    return file


def open_below(directory: Path, name: str) -> BinaryIO:
    """Opens the file `name` below `directory` as `open_tree` opens it: no link is followed.

    The caller may name a link as `directory`, but nothing in `name` may be one.

    Args:
        directory: An existing directory.
        name: A relative POSIX path.

    Raises:
        UnsafePathError: It is not a regular file, a directory on the way is not one, or
            `name_problem` refuses the name.
        OSError: It does not exist or cannot be read.
    """
    if problem := name_problem(name):
        raise UnsafePathError(f"the file name {name!r} {problem}")
    *parents, last = name.split("/")
    if not hasattr(os, "fwalk"):
        for length in range(1, len(parents) + 1):
            inner = "/".join(parents[:length])
            _require_kind(inner, (directory / inner).lstat(), directory=True)
        return _open_path(name, directory / name)
    descriptor = os.open(directory, _directory_flags())
    try:
        for parent in parents:
            _require_kind(parent, os.lstat(parent, dir_fd=descriptor), directory=True)
            flags = _directory_flags() | os.O_NOFOLLOW
            inside = os.open(parent, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inside
        _require_kind(name, os.lstat(last, dir_fd=descriptor), directory=False)
        return _open_at(descriptor, last, directory / name)
    finally:
        os.close(descriptor)


def read_below(directory: Path, name: str, limit: int) -> bytes:
    """The content of a file that `open_below` opens.

    Raises:
        UnsafePathError: As `open_below`, or it has more than `limit` bytes.
        OSError: It does not exist or cannot be read.
    """
    with open_below(directory, name) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise UnsafePathError(f"{name!r} has more than {size_text(limit)}")
    return content


def _directory_flags() -> int:
    return os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_file(directory: Path, name: str) -> BinaryIO:
    """Opens one file in a directory that somebody else wrote; neither of them may be a link.

    Raises:
        FileNotFoundError: There is no such file.
        UnsafePathError: It is not a regular file, or it has other names (hard links), under which it
            may be a file of somebody else, and may change.
        OSError: It cannot be read.
    """
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            # Before opening it, which has effects on some devices.
            _require_kind(name, os.lstat(name, dir_fd=descriptor), directory=False)
            file = _open_at(descriptor, name, directory / name)
        finally:
            os.close(descriptor)
    else:
        _require_kind(str(directory), directory.lstat(), directory=True)
        file = _open_path(name, directory / name)
    if os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise UnsafePathError(f"{name!r} has other names, too")
    return file


def _open_by_descriptors(root: Path) -> Iterator[tuple[str, BinaryIO]]:
    names = NameSet()
    # fwalk compares what it opened with what it listed (`samestat`), and does not enter a directory
    # that was exchanged for a link.
    for folder, subdirectories, files, descriptor in os.fwalk(
        root, onerror=_reraise, follow_symlinks=False
    ):
        prefix = _prefix(Path(folder), root)
        # In place: the walk enters them in this order, which has to be the same everywhere.
        subdirectories.sort()
        _require_shallow(prefix, subdirectories)
        for name in subdirectories:
            _require_kind(prefix + name, os.lstat(name, dir_fd=descriptor), directory=True)
        for name in sorted(files):
            _require_kind(prefix + name, os.lstat(name, dir_fd=descriptor), directory=False)
            names.add(prefix + name)
            with _open_at(descriptor, name, root / prefix / name) as file:
                yield prefix + name, file


def _open_by_paths(root: Path) -> Iterator[tuple[str, BinaryIO]]:
    names = NameSet()
    for folder, subdirectories, files in os.walk(root, onerror=_reraise, followlinks=False):
        prefix = _prefix(Path(folder), root)
        subdirectories.sort()
        _require_shallow(prefix, subdirectories)
        for name in subdirectories:
            _require_kind(prefix + name, Path(folder, name).lstat(), directory=True)
        for name in sorted(files):
            names.add(prefix + name)
            with _open_path(prefix + name, Path(folder, name)) as file:
                yield prefix + name, file


def _require_shallow(prefix: str, subdirectories: list[str]) -> None:
    """Before the walk enters them: it is recursive and keeps a descriptor open for each level."""
    if subdirectories and prefix.count("/") >= MAX_DEPTH - 1:
        raise UnsafePathError(
            f"{prefix + subdirectories[0]!r} is more than {MAX_DEPTH - 1} directories deep"
        )


def _prefix(folder: Path, root: Path) -> str:
    return "" if folder == root else f"{folder.relative_to(root).as_posix()}/"


def _reraise(error: OSError) -> None:
    raise error


def _open_at(descriptor: int | None, name: str, path: Path | str) -> BinaryIO:
    try:
        file = os.fdopen(_open_held(name, _AT_FLAGS, descriptor), "rb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        # Again, on the open file: the entry may have been exchanged since it was listed.
        _require_kind(name, os.fstat(file.fileno()), directory=False)
    except BaseException:
        file.close()
        raise
    return file


def _open_held(name: str, flags: int, directory: int | None = None) -> int:
    """Opens a file as soon as no other program has a lease on it; the flags say not to wait for that.

    Raises:
        OSError: It cannot be opened; EBUSY if that program keeps it.
    """
    end: float | None = None
    while True:
        try:
            return os.open(name, flags, dir_fd=directory)
        except BlockingIOError:
            end = end or time.monotonic() + PATIENCE
            # Asked again, not without O_NONBLOCK: what has the name may be a pipe by then.
            if time.monotonic() > end:
                sentence = f"another program has held it for {PATIENCE:g} s; end that program"
                raise OSError(errno.EBUSY, sentence, name) from None
            time.sleep(_PAUSE)


def _open_path(name: str, path: Path) -> BinaryIO:
    before = path.lstat()
    _require_kind(name, before, directory=False)
    file = path.open("rb")
    try:
        after = path.lstat()
        _require_kind(name, after, directory=False)
        # Two values of lstat: not every Python on Windows has fstat values that compare with them.
        if not os.path.samestat(before, after):
            raise UnsafePathError(f"{name!r} was exchanged while it was opened")
        _require_kind(name, os.fstat(file.fileno()), directory=False)
    except BaseException:
        file.close()
        raise
    return file


def _require_kind(name: str, status: os.stat_result, *, directory: bool) -> None:
    fits = stat.S_ISDIR(status.st_mode) if directory else stat.S_ISREG(status.st_mode)
    if getattr(status, "st_reparse_tag", 0) == _JUNCTION:
        raise UnsafePathError(f"{name!r} is a junction, not a regular file")
    if not fits:
        wanted = "a directory" if directory else "a regular file"
        kind = "a regular file" if stat.S_ISREG(status.st_mode) else _kind(status.st_mode)
        raise UnsafePathError(f"{name!r} is {kind}, not {wanted}")


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device" if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) else "a directory"


def digest_tree(directory: Path) -> dict[str, FileDigest]:
    """The digest of every file below `directory` by name; see `open_tree` for what it refuses."""
    return {name: digest_stream(file) for name, file in open_tree(directory)}
