"""Fetches a directory or files of one commit of a git repository, with the system's git.

Nothing in the repository is run or interpreted: there is no checkout, and so no hooks, filters,
attributes or submodules; files are read as plain objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath

from ...errors import SourceError
from ...spec.sources import ExtraFile
from ...util.files import copy_exactly
from ...util.names import UnsafePathError
from ...util.processes.process import ProcessError
from ...util.text import one_line
from ...util.urls import redact
from ...util.words import size_text
from ..download import Transfer
from ..placement import Placement, below
from ..rules import MAX_MODEL_BYTES, MAX_MODEL_DIRECTORIES, Tally, suggest_path
from . import lfs
from .lfs_server import origin_of
from .repository import Remote, Repository, UnsuitableError

_LISTED = 1000
"""How many paths are read to suggest one."""

_DIRECTORY = "040000"


Judge = Callable[[Collection[str]], None]
"""Raises for names of files that are not those of a model."""


@dataclass(frozen=True)
class _Entry:
    """A file of the tree."""

    object_id: str
    name: str
    """In the model's tree."""


@dataclass(frozen=True)
class _Wanted:
    """The files that are fetched of a commit."""

    path: str
    extras: tuple[ExtraFile, ...]
    judge: Judge

    def directories(self, *, is_file: bool) -> list[str]:
        """Where the files are; `path` first, if it is a directory, with all that is below it."""
        beside = {_parent(extra.path) for extra in self.extras}
        if is_file:
            return sorted({_parent(self.path), *beside})
        return [self.path, *sorted(other for other in beside if below(other, self.path) is None)]


def fetch_tree(
    remote: Remote,
    commit: str,
    path: str,
    directory: Path,
    scratch: Path,
    transfer: Transfer,
    extras: Sequence[ExtraFile] = (),
    judge: Judge = lambda _: None,
) -> bool:
    """Writes the files at or below `path` of one commit into `directory`, with what Git LFS keeps of them.

    Only that commit, without history, and only these files are transferred, unless the server does
    not serve single commits: then all its branches and tags are.

    Args:
        remote: The user's git configuration (credentials, `insteadOf`) applies to it.
        commit: The full commit id.
        path: A relative POSIX path; empty for the whole tree.
        directory: An empty directory.
        scratch: Another, for the repository.
        transfer: How; each command of git may take its time.
        extras: Further files, which are written to the top of `directory`.
        judge: Refuses a directory by the names of its files, before any of them is transferred.

    Returns:
        Whether `path` is a file, not a directory.

    Raises:
        SourceError: The commit or the path does not exist, the host cannot be reached, or the tree
            contains anything but regular files.
    """
    wanted = _Wanted(path, tuple(extras), judge)
    try:
        repository, entries, is_file = _fetch(remote, commit, wanted, scratch, transfer.timeout)
        _write_files(repository, entries, directory, scratch)
        origin = origin_of(repository.ask, remote.url, ("--blob", f"{commit}:.lfsconfig"))
        names = [entry.name for entry in entries]
        lfs.fill(directory, names, origin, scratch / "lfs", transfer)
        return is_file
    except ProcessError as error:
        raise SourceError(
            f"cannot read {redact(remote.url)}: {one_line(error)}", code="MW305"
        ) from error


def _fetch(
    remote: Remote, commit: str, wanted: _Wanted, scratch: Path, timeout: float
) -> tuple[Repository, list[_Entry], bool]:
    repository = Repository(scratch / "commit.git", remote, commit, timeout)
    try:
        repository.create(partial=True)
        repository.fetch("--depth=1", "--filter=blob:none", "origin", commit)
        entries, is_file = _list_files(repository, wanted)
        _fetch_missing(repository, entries, wanted)
    except UnsuitableError:
        repository = Repository(scratch / "branches.git", remote, commit, timeout)
        _fetch_branches(repository)
        entries, is_file = _list_files(repository, wanted)
    return repository, entries, is_file


def _fetch_branches(repository: Repository) -> None:
    repository.create(partial=False)
    try:
        repository.fetch("origin", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    except UnsuitableError as error:
        raise SourceError(
            f"cannot fetch {redact(repository.url)}: git says: {one_line(error)}", code="MW305"
        ) from None


def _list_files(repository: Repository, wanted: _Wanted) -> tuple[list[_Entry], bool]:
    """The files, after a check that they are regular and have safe names; and whether `path` is one."""
    if not repository.has_commit():
        raise SourceError(
            f"{redact(repository.url)} has no commit {repository.commit} (is it a tag object, or on "
            "no branch?); push it, or pin a commit that it has",
            code="MW306",
        )
    path = wanted.path
    kind = _kind_of(repository, path)
    if kind is None:
        there = _paths(repository)
        raise SourceError(
            f"{redact(repository.url)} has no file or directory {path!r} in commit {repository.commit}; "
            f"{suggest_path(path, there)}",
            code="MW307",
        )
    shown = f"{redact(repository.url)} at {repository.commit}"
    placement, tally = Placement(path, wanted.extras, shown), Tally()
    entries: list[_Entry] = []
    try:
        for directory in wanted.directories(is_file=kind != "tree"):
            if directory != path and _kind_of(repository, directory) != "tree":
                continue  # of a file that will be missed
            read = partial(_read_entries, directory, placement, tally)
            # `-z`: otherwise git quotes unusual names (core.quotePath). `-t`: directories, too, of
            # which a small repository may have any number without a file in them.
            options = ("-r", "-t", "-z") if directory == path and kind == "tree" else ("-z",)
            entries += repository.read(read, "ls-tree", *options, _object(repository, directory))
    except UnsafePathError as error:
        raise SourceError(
            f"{_place(repository, path)} is refused: {one_line(error)}", code="MW309"
        ) from None
    placement.require_extras()
    if kind == "tree":
        wanted.judge([entry.name for entry in entries])
    return entries, kind != "tree"


def _object(repository: Repository, path: str) -> str:
    return f"{repository.commit}:{path}"


def _parent(path: str) -> str:
    parent = PurePosixPath(path).parent.as_posix()
    return "" if parent == "." else parent


def _kind_of(repository: Repository, path: str) -> str | None:
    """`tree`, `blob` (also of a link), or None if there is nothing."""
    try:
        return repository.git("cat-file", "-t", _object(repository, path)).text.strip()
    except ProcessError:
        return None


def _paths(repository: Repository) -> list[str]:
    def read(lines: Iterator[bytes]) -> list[str]:
        return [os.fsdecode(name) for name in islice(lines, _LISTED)]

    try:
        return repository.read(read, "ls-tree", "-r", "-t", "-z", "--name-only", repository.commit)
    except UnsafePathError:  # only a suggestion
        return []


def _read_entries(
    directory: str, placement: Placement, tally: Tally, lines: Iterator[bytes]
) -> list[_Entry]:
    """The files of the model in a listing of `git ls-tree -z` of a directory.

    Raises:
        UnsafePathError: There are too many, or one is not a regular file with a portable name.
    """
    entries, directories = [], 0
    for line in lines:
        # <mode> SP <type> SP <object id> TAB <name>, the name as bytes
        description, _, encoded = line.partition(b"\t")
        mode, _, rest = description.decode(errors="replace").partition(" ")
        if mode == _DIRECTORY:
            directories += 1
            if directories > MAX_MODEL_DIRECTORIES:
                raise UnsafePathError(f"it has more than {MAX_MODEL_DIRECTORIES} directories")
            continue
        # What is not UTF-8 is refused by the tally.
        name = encoded.decode(errors="surrogateescape")
        for placed in placement.place(f"{directory}/{name}" if directory else name):
            tally.count()
            tally.add(placed)
            # Regular files have mode 100644 or 100755; of both only the content counts.
            if not mode.startswith("100"):
                raise UnsafePathError(f"{name!r} is {_kind(mode)}, not a regular file")
            entries.append(_Entry(rest.partition(" ")[2], placed))
    return entries


def _fetch_missing(repository: Repository, entries: Sequence[_Entry], wanted: _Wanted) -> None:
    """Fetches the files that the partial fetch left out, all at once."""
    # Otherwise `cat-file` fetches each one when it is read, by a connection of its own.
    is_file = _kind_of(repository, wanted.path) != "tree"
    trees = [
        _object(repository, directory)
        for directory in wanted.directories(is_file=is_file)
        if _kind_of(repository, directory) == "tree"
    ]
    listing = repository.git("rev-list", "--objects", "--missing=print", *trees)
    needed = {entry.object_id for entry in entries}
    missing = sorted(needed & {line[1:] for line in listing.text.split() if line[:1] == "?"})
    if missing:
        # As git itself fetches missing objects; the filter spares what is named by id.
        repository.fetch("--filter=blob:none", "origin", *missing)


def _write_files(
    repository: Repository, entries: Sequence[_Entry], directory: Path, scratch: Path
) -> None:
    ids = "".join(f"{entry.object_id}\n" for entry in entries).encode()
    sizes = repository.git("cat-file", "--batch-check=%(objectsize)", content=ids).text.split()
    # Before a byte is written: a small pack may unpack to any size.
    if sum(map(int, sizes)) > MAX_MODEL_BYTES:
        raise SourceError(
            f"{redact(repository.url)} has more than {size_text(MAX_MODEL_BYTES)} there",
            code="MW311",
        )
    # One git for all files, and a file between: models do not always fit into memory.
    contents = scratch / "contents"
    with contents.open("w+b") as file:
        repository.git("cat-file", "--batch", content=ids, stdout=file)
        file.seek(0)
        for entry in entries:
            size = int(file.readline().split()[2])  # <object id> SP blob SP <size> LF
            target = directory / entry.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as copy:
                copy_exactly(file, copy, size)
            file.read(1)  # LF
    contents.unlink()


def _place(repository: Repository, path: str) -> str:
    return f"{path or '.'!r} in commit {repository.commit} of {redact(repository.url)}"


def _kind(mode: str) -> str:
    return {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, f"of mode {mode}")
