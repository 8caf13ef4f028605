"""Removes files and directories, also where they are read-only, hostile, or thousands of levels deep."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def remove(path: Path) -> None:
    """Removes a file, even a read-only one; does nothing if there is none."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        if not is_windows():
            raise
        make_writable(path)
        path.unlink(missing_ok=True)


def remove_tree(directory: Path) -> None:
    """Removes a directory with everything in it, as far as that is possible; never what a link names."""
    if directory.is_symlink():  # rmtree refuses it, what follows here would not
        return
    if not is_windows():
        with suppress(RecursionError):  # before Python 3.13
            shutil.rmtree(directory, ignore_errors=True)
        if directory.is_dir():
            with suppress(OSError):
                _remove_level_by_level(directory)
        return
    # rmtree fails on read-only files there, and blobs and git's objects are read-only.
    for _, files in folders_of(directory):
        for path in files:
            with suppress(OSError):
                remove(path)
    shutil.rmtree(directory, ignore_errors=True)


def folders_of(directory: Path) -> Iterator[tuple[Path, list[Path]]]:
    """A directory and those below it, each with its files. No link is followed; what cannot be listed is left out."""
    for folder, _, files in os.walk(directory):
        yield Path(folder), [Path(folder, name) for name in files]


def _remove_level_by_level(directory: Path) -> None:
    """Removes what `shutil.rmtree` cannot: directories without permissions, or thousands of levels deep.

    Subdirectories of subdirectories are moved up, so that no path grows and nothing recurses.
    """
    while entries := list(os.scandir(directory)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                Path(entry).unlink()
                continue
            Path(entry).chmod(0o700)
            for inner in list(os.scandir(entry)):
                if inner.is_dir(follow_symlinks=False):
                    Path(inner).chmod(0o700)
                    Path(inner).rename(directory / uuid.uuid4().hex)
                else:
                    Path(inner).unlink()
            Path(entry).rmdir()
    directory.rmdir()


def is_windows() -> bool:
    """Whether readers keep files there, and nobody removes a read-only one."""
    return os.name == "nt"


def make_writable(path: Path) -> None:
    """Makes a read-only file writable, if that is possible."""
    with suppress(OSError):
        path.chmod(stat.S_IREAD | stat.S_IWRITE)
