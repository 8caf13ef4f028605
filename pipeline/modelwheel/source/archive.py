"""Unpacks archives (.tar.gz, .tar.xz, .zip) without trusting a byte of them."""

from __future__ import annotations

import errno
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from ..errors import SourceError
from ..util.files import copy_exactly
from ..util.names import UnsafePathError, safety_problem
from ..util.text import one_line
from .members import DAMAGE, Member, damage_reason, read_members
from .rules import MAX_MODEL_DIRECTORIES, Tally, suggest_directory


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
    return SourceError(
        f"{shown} is a damaged or unsupported archive: {one_line(damage_reason(error))}"
    )


def _extract_members(members: Iterator[Member], path: str, directory: Path, shown: str) -> None:
    tally, directories = Tally(), set[str]()
    for member in members:
        name = _plain_name(member)
        if not name:
            continue
        # What is not written may clash, but no archive with an unsafe name is trusted.
        if problem := safety_problem(name):
            raise UnsafePathError(f"the file name {name!r} {problem}")
        directories.update(_directories(name, member.kind))
        if len(directories) > MAX_MODEL_DIRECTORIES:
            raise UnsafePathError(f"it has more than {MAX_MODEL_DIRECTORIES} directories")
        relative = _below(name, path)
        # Directories are made for the files in them: an empty one is not part of a model.
        if relative is None or (member.kind == "directory"):
            continue
        _require_file(member, relative)
        tally.add(relative)
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
