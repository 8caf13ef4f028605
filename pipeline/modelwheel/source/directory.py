"""Reads the files of a local directory, which a spec may name anywhere on the machine.

Nothing is hashed or copied before it is known that the directory is not larger than a model, and
errors show what is in it only if the user may be shown that; see `DirectorySource.is_own`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ..errors import SourceError
from ..spec.sources import DirectorySource
from ..util.files import FileDigest, digest_stream
from ..util.names import UnsafePathError
from ..util.text import one_line
from ..util.trees import open_tree
from .rules import Tally


def list_files(source: DirectorySource) -> list[str]:
    """The names of the files, none of which is read.

    Raises:
        SourceError: There is no such directory, it has other things than regular files with
            portable names, or it is larger than a model may be.
    """
    with _reading(source):
        return [name for name, _ in _open_files(source)]


def digest_files(source: DirectorySource) -> dict[str, FileDigest]:
    """The digest of every file by its name.

    Raises:
        SourceError: As `list_files`.
    """
    list_files(source)
    with _reading(source):
        return {name: digest_stream(file) for name, file in _open_files(source)}


def copy_files(source: DirectorySource, target: Path) -> dict[str, FileDigest]:
    """Copies and hashes in one pass, so that the hash describes the copy.

    Raises:
        SourceError: As `list_files`.
        OSError: A file below `target` cannot be written.
    """
    files: dict[str, FileDigest] = {}
    with _reading(source, target):
        for name, file in _open_files(source):
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("xb") as opened:
                files[name] = digest_stream(file, opened)
    return files


def _open_files(source: DirectorySource) -> Iterator[tuple[str, BinaryIO]]:
    tally = Tally()
    for name, file in open_tree(source.location):
        tally.count(os.fstat(file.fileno()).st_size)
        tally.add(name)
        yield name, file


@contextmanager
def _reading(source: DirectorySource, target: Path | None = None) -> Iterator[None]:
    """Turns what goes wrong in the directory, but not below `target`, into a SourceError."""
    try:
        _require_directory(source)
        yield
    except UnsafePathError as error:
        reason = one_line(error) if source.is_own else "it has other files than a model may have"
        raise SourceError(
            f"{source} is refused: {reason}; a model has regular files only, with portable names"
        ) from None
    except OSError as error:
        if target is not None and (
            error.filename is None or str(error.filename).startswith(str(target))
        ):
            raise
        place = one_line(error.filename) if source.is_own else source
        raise SourceError(
            f"cannot read {place}: {error.strerror}; correct its permissions"
        ) from error


def _require_directory(source: DirectorySource) -> None:
    path = source.location
    if path.is_dir():
        return
    if path.exists():
        raise SourceError(f"{path} is a file; name the directory of the SavedModel")
    near = _find_similar(path) if source.is_own else []
    hint = f"did you mean {str(path.parent / near[0])!r}?" if near else "correct the path"
    raise SourceError(f"there is no directory {path}; {hint}")


def _find_similar(path: Path) -> list[str]:
    there: list[str] = []
    with suppress(OSError):
        there = [other.name for other in path.parent.iterdir() if other.is_dir()]
    return difflib.get_close_matches(path.name, there, n=1)
