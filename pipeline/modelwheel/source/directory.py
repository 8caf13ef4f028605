"""Reads a model's files in a local directory, which a spec may name anywhere on the machine.

Nothing is hashed or copied before it is known that the directory is not larger than a model, and
errors show what is in it only if the user may be shown that; see `DirectorySource.is_own`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ..errors import SourceError
from ..spec.sources import DirectorySource
from ..util.files import FileDigest, digest_stream
from ..util.names import UnsafePathError
from ..util.text import one_line
from ..util.trees import open_below, open_tree
from .git.lfs import parse_pointer
from .placement import Placement
from .references import has_references, references_of
from .rules import Tally


def list_files(source: DirectorySource) -> list[str]:
    """The names of the files, none of which is read.

    Raises:
        SourceError: There is no such directory, it has other things than regular files with
            portable names, or it is larger than a model may be.
    """
    with _reading(source):
        return [name for name, _ in _open_files(source)]


def with_references(source: DirectorySource, content: Path | None = None) -> DirectorySource:
    """A copy of the source, with the files to which its model refers.

    Args:
        source: The model.
        content: Where the model's file is read; by default where the source says.

    Raises:
        SourceError: As `list_files`.
    """
    if not has_references(source) or not is_file(source):
        return source
    with _reading(source), _open_model(source, content) as file:
        references = references_of(source, file)
    missing = [
        reference for reference in references if not os.path.lexists(source.root / reference.path)
    ]
    if missing and not source.is_own:
        raise SourceError(
            f"{source} has weights in a file that is not there; put it beside the model",
            code="MW312",
        )
    return source.with_extras(*references)


def _open_model(source: DirectorySource, content: Path | None) -> AbstractContextManager[BinaryIO]:
    return open_below(source.root, source.subdirectory) if content is None else content.open("rb")


def digest_files(source: DirectorySource) -> dict[str, FileDigest]:
    """The digest of every file by its name; of a pointer of Git LFS, that of the file itself.

    Raises:
        SourceError: As `list_files`.
    """
    list_files(source)
    with _reading(source):
        return {name: _digest(source, name, file) for name, file in _open_files(source)}


def _digest(source: DirectorySource, name: str, file: BinaryIO) -> FileDigest:
    # What git has of a directory of others is not fetched; see `fetch`.
    pointer = parse_pointer(file, name) if source.is_own else None
    file.seek(0)
    return pointer or digest_stream(file)


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
    """Every file of the model, open, with its name in the model's tree."""
    tally, placement = Tally(), Placement(source.subdirectory, source.extras, str(source.root))
    for name, file in _candidates(source):
        for placed in placement.place(name):
            tally.count(os.fstat(file.fileno()).st_size)
            tally.add(placed)
            file.seek(0)
            yield placed, file
    placement.require_extras()


def _candidates(source: DirectorySource) -> Iterator[tuple[str, BinaryIO]]:
    """Files, open, with their names in the directory; all those of the model are among them."""
    path = source.subdirectory
    singles = set(_names_of_extras(source))
    if is_file(source):
        singles.add(path)
    else:
        for name, file in open_tree(source.location):
            inside = f"{path}/{name}" if path else name
            singles.discard(inside)
            yield inside, file
    for name in sorted(singles):
        with open_below(source.root, name) as file:
            yield name, file


def is_file(source: DirectorySource) -> bool:
    """Whether the model is one file."""
    return bool(source.subdirectory) and source.location.is_file()


def _names_of_extras(source: DirectorySource) -> Iterator[str]:
    for extra in source.extras:
        if not extra.is_checkpoint:
            if os.path.lexists(source.root / extra.path):
                yield extra.path
            continue
        parent = PurePosixPath(extra.path).parent
        there = source.root / parent
        # What is not there is found missing later.
        if there.is_dir():
            for file in there.iterdir():
                name = (parent / file.name).as_posix()
                if extra.matches(name):
                    yield name


@contextmanager
def _reading(source: DirectorySource, target: Path | None = None) -> Iterator[None]:
    """Turns what goes wrong in the directory, but not below `target`, into a SourceError."""
    try:
        _require_directory(source)
        yield
    except UnsafePathError as error:
        reason = one_line(error) if source.is_own else "it has other files than a model may have"
        raise SourceError(
            f"{source} is refused: {reason}; a model has regular files only, with portable names",
            code="MW309",
        ) from None
    except OSError as error:
        if target is not None and (
            error.filename is None or str(error.filename).startswith(str(target))
        ):
            raise
        place = one_line(error.filename) if source.is_own else source
        raise SourceError(
            f"cannot read {place}: {error.strerror}; correct its permissions", code="MW301"
        ) from error


def _require_directory(source: DirectorySource) -> None:
    root, path = source.root, source.location
    if root.is_file():
        raise SourceError(
            f"{root} is a file; name its directory, and the file by `path` beside `directory`",
            code="MW308",
        )
    if path.is_dir() or is_file(source):
        return
    near = _find_similar(path) if source.is_own else []
    hint = f"did you mean {str(path.parent / near[0])!r}?" if near else "correct the path"
    kind = "file or directory" if source.subdirectory else "directory"
    raise SourceError(f"there is no {kind} {path}; {hint}", code="MW301")


def _find_similar(path: Path) -> list[str]:
    there: list[str] = []
    with suppress(OSError):
        there = [other.name for other in path.parent.iterdir() if other.is_dir() or path.suffix]
    return difflib.get_close_matches(path.name, there, n=1)
