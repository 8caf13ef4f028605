"""Unpacks archives (.tar.gz, .tar.xz, .zip) without trusting a byte of them."""

from __future__ import annotations

import errno
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from ..errors import SourceError
from ..spec.sources import ExtraFile
from ..util.files import copy_exactly
from ..util.names import UnsafePathError, safety_problem
from ..util.text import one_line
from .members import DAMAGE, Member, damage_reason, read_members
from .placement import Placement
from .rules import MAX_MODEL_DIRECTORIES, Tally, suggest_path


def extract(
    archive: Path, path: str, directory: Path, shown: str, extras: Sequence[ExtraFile] = ()
) -> bool:
    """Writes the files at or below `path` of an archive (.tar.gz, .tar.xz, .zip) into `directory`.

    Names are checked before anything is written. Only regular files are written; owners, permissions
    and links in the archive have no effect.

    Args:
        archive: The file.
        path: A relative POSIX path; empty for all.
        directory: An empty directory.
        shown: The archive's name in messages.
        extras: Further files, which are written to the top of `directory`.

    Returns:
        Whether `path` is a file, not a directory.

    Raises:
        SourceError: A member is refused, or the archive is damaged or of an unknown format.
    """
    with archive.open("rb") as file:
        members = read_members(file, shown)
        try:
            return _extract_members(members, path, directory, Placement(path, extras, shown), shown)
        except UnsafePathError as error:
            raise SourceError(f"{shown} is refused: {one_line(error)}", code="MW309") from None
        except DAMAGE as error:
            raise _damage(shown, error) from error
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise _damage(shown, error) from error  # it seeks before the start of the file


def _damage(shown: str, error: Exception) -> SourceError:
    return SourceError(
        f"{shown} is a damaged or unsupported archive: {one_line(damage_reason(error))}",
        code="MW310",
    )


def _extract_members(
    members: Iterator[Member], path: str, directory: Path, placement: Placement, shown: str
) -> bool:
    tally, directories, names = Tally(), set[str](), set[str]()
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
        names.add(name)
        # Directories are made for the files in them: an empty one is not part of a model.
        if member.kind != "directory" and (targets := placement.place(name)):
            _require_file(member)
            for target in targets:
                tally.add(target)
            _write(member, [directory / target for target in targets])
    if path and path not in directories and not placement.is_file:
        raise SourceError(
            f"{shown} has no file or directory {path!r}; {suggest_path(path, directories | names)}",
            code="MW307",
        )
    placement.require_extras()
    return placement.is_file


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


def _require_file(member: Member) -> None:
    if member.kind != "file":
        raise UnsafePathError(f"{member.name!r} is {member.kind}, not a regular file")


def _write(member: Member, targets: list[Path]) -> None:
    first, *others = targets
    first.parent.mkdir(parents=True, exist_ok=True)
    with member.open() as source, first.open("xb") as file:
        copy_exactly(cast("BinaryIO", source), file, member.size)
        # The limits were checked against the sizes that the archive declares.
        if source.read(1):
            raise tarfile.ReadError(f"{member.name!r} is longer than the archive declares")
    for other in others:
        with first.open("rb") as source, other.open("xb") as file:
            copy_exactly(source, file, member.size)
