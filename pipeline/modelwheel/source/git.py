"""Fetches a directory or files of one commit of a git repository, with the system's git.

Nothing in the repository is run or interpreted: there is no checkout, and so no hooks, filters,
attributes or submodules; files are read as plain objects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeVar

from ..errors import SourceError
from ..spec.sources import ExtraFile
from ..util.files import copy_exactly
from ..util.names import UnsafePathError
from ..util.process import Ceiling, Completed, ProcessError, ProcessTimeoutError, read_output, run
from ..util.text import one_line
from ..util.urls import redact
from ..util.words import size_text, time_text
from .placement import Placement, below
from .rules import MAX_MODEL_BYTES, MAX_MODEL_DIRECTORIES, Tally, suggest_path

_T = TypeVar("_T")

_CEILING = Ceiling(memory_bytes=4 << 30, file_bytes=2 * MAX_MODEL_BYTES)
"""What one git may use, where the system can say so: a small pack may unpack to any size."""

_MAX_LINE = 8 << 10
"""Bytes of one line of a listing: a mode, a kind, an id, and a name that is far longer than allowed."""

_LISTED = 1000
"""How many paths are read to suggest one."""

_OPTIONS = (
    ("protocol.version", "2"),  # lets any commit be asked for by its id
    # A fetch runs hooks of the user's configuration or template, such as reference-transaction.
    ("core.hooksPath", os.devnull),
    # They run in the background, and so in a repository that is being removed.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    # Less than 1 byte per second for 60 seconds: a host that has gone silent.
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "60"),
)

# Git sets these in hooks; they would direct our commands to the repository of the hook.
FOREIGN = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)

# The first that matches counts: git follows a precise line by more general ones.
_REASONS = (
    (
        r"not our ref|couldn't find remote ref",
        "{url} has no commit {commit}; push it, or pin a commit that it has",
    ),
    (
        r"transport '.*' not allowed",
        "{url} uses a transport that is not allowed; use https, ssh, git, file or a path",
    ),
    (
        (
            r"could not resolve host|name resolution|connection refused|failed to connect|"
            r"couldn't connect|timed out|unreachable|no route to host|unable to connect|"
            r"connection reset|transfer speed"
        ),
        "cannot reach the host of {url}; check the URL and the network, then run again",
    ),
    (
        (
            r"authentication failed|could not read (username|password)|permission denied|"
            r"returned error: 40[13]|host key verification failed"
        ),
        "access to {url} was refused; set up a credential helper or an ssh key that may read it",
    ),
    (
        r"dubious ownership",
        (
            "git distrusts {url} because another user owns it; allow it with "
            "`git config --global --add safe.directory PATH`"
        ),
    ),
    (
        r"not appear to be a git repository|repository .*not found|does not exist|not a git repo",
        "there is no git repository at {url}; correct the URL",
    ),
)


_DIRECTORY = "040000"


@dataclass(frozen=True)
class _Entry:
    """A file of the tree."""

    object_id: str
    name: str
    """In the model's tree."""


@dataclass(frozen=True)
class _Wanted:
    """What is fetched of a commit."""

    path: str
    extras: tuple[ExtraFile, ...]

    def directories(self, *, is_file: bool) -> list[str]:
        """Where the files are; `path` first, if it is a directory, with all that is below it."""
        beside = {_parent(extra.path) for extra in self.extras}
        if is_file:
            return sorted({_parent(self.path), *beside})
        return [self.path, *sorted(other for other in beside if below(other, self.path) is None)]


class _Unsuitable(Exception):  # noqa: N818 - not an error: asks for the other way to fetch
    """The server does not serve single commits."""


@dataclass(frozen=True)
class _Repository:
    """An empty bare repository to fetch into."""

    directory: Path
    url: str
    commit: str
    timeout: float

    def git(
        self, *args: str, content: bytes | None = None, stdout: BinaryIO | None = None
    ) -> Completed:
        """Runs git on this repository, in the caller's directory: a relative URL means that."""
        return run(
            self._command(args),
            env=self._environment(),
            input=content,
            timeout=self.timeout,
            stdout=stdout,
            ceiling=_CEILING,
        )

    def read(self, use: Callable[[Iterator[bytes]], _T], *args: str) -> _T:
        """Runs git and passes the entries of its listing, which end with NUL, to `use`.

        Git is stopped when `use` returns or raises: a small tree may have any number of entries.
        """
        return read_output(
            self._command(args),
            lambda output: use(_split(output)),
            env=self._environment(),
            timeout=self.timeout,
            ceiling=_CEILING,
        )

    def _command(self, args: Sequence[str]) -> list[str]:
        options = [part for name, value in _OPTIONS for part in ("-c", f"{name}={value}")]
        return ["git", *options, f"--git-dir={self.directory}", *args]

    def create(self, *, partial: bool) -> None:
        # The URL goes through the configuration: no spelling of it can look like an option.
        # Without the user's templates, which may contain hooks.
        self.git("init", "--quiet", "--bare", "--template=")
        self.git("config", "remote.origin.url", self.url)
        if partial:
            self.git("config", "remote.origin.promisor", "true")

    def fetch(self, *args: str) -> None:
        """Fetches from the remote.

        Raises:
            SourceError: For reasons that would stop another way of fetching, too.
            _Unsuitable: For any other reason.
        """
        try:
            self.git("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", *args)
        except ProcessTimeoutError:
            raise SourceError(
                f"fetching {redact(self.url)} took longer than {time_text(self.timeout)}; "
                "check the network and the host, then run again"
            ) from None
        except ProcessError as error:
            if reason := self._reason(error):
                raise SourceError(reason) from None
            raise _Unsuitable(_last_line(error)) from None

    def has_commit(self) -> bool:
        try:
            found = self.git("rev-parse", "--verify", "--quiet", f"{self.commit}^{{commit}}")
        except ProcessError:
            return False
        # The id of a tag object leads to a commit, too, but to one with another id.
        return found.text.strip() == self.commit

    def _reason(self, error: ProcessError) -> str | None:
        for pattern, sentence in _REASONS:
            if re.search(pattern, error.output, re.IGNORECASE):
                reason = sentence.format(url=redact(self.url), commit=self.commit)
                return f"{reason} (git: {_last_line(error)})"
        return None

    def _environment(self) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        return environment | {
            # Overrides the user's configuration: `ext::`, which runs any command, stays forbidden.
            "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
            # A repository can fetch only from one with ids of the same kind.
            "GIT_DEFAULT_HASH": "sha256" if len(self.commit) == 64 else "sha1",
            # Without credentials it fails at once instead of asking.
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",  # the reasons above are recognised in English
        }


def fetch_tree(
    url: str,
    commit: str,
    path: str,
    directory: Path,
    scratch: Path,
    timeout: float,
    extras: Sequence[ExtraFile] = (),
) -> bool:
    """Writes the files at or below `path` of one commit into `directory`.

    Only that commit, without history, and only these files are transferred, unless the server does
    not serve single commits: then all its branches and tags are.

    Args:
        url: As `git fetch` takes it; the user's git configuration (credentials, `insteadOf`)
            applies.
        commit: The full commit id.
        path: A relative POSIX path; empty for the whole tree.
        directory: An empty directory.
        scratch: Another, for the repository.
        timeout: Seconds that each git command may take.
        extras: Further files, which are written to the top of `directory`.

    Returns:
        Whether `path` is a file, not a directory.

    Raises:
        SourceError: The commit or the path does not exist, the host cannot be reached, or the tree
            contains anything but regular files.
    """
    wanted = _Wanted(path, tuple(extras))
    try:
        repository, entries, is_file = _fetch(url, commit, wanted, scratch, timeout)
        _write_files(repository, entries, directory, scratch)
        return is_file
    except ProcessError as error:
        raise SourceError(f"cannot read {redact(url)}: {one_line(error)}") from error


def _fetch(
    url: str, commit: str, wanted: _Wanted, scratch: Path, timeout: float
) -> tuple[_Repository, list[_Entry], bool]:
    repository = _Repository(scratch / "commit.git", url, commit, timeout)
    try:
        repository.create(partial=True)
        repository.fetch("--depth=1", "--filter=blob:none", "origin", commit)
        entries, is_file = _list_files(repository, wanted)
        _fetch_missing(repository, entries, wanted)
    except _Unsuitable:
        repository = _Repository(scratch / "branches.git", url, commit, timeout)
        _fetch_branches(repository)
        entries, is_file = _list_files(repository, wanted)
    return repository, entries, is_file


def _fetch_branches(repository: _Repository) -> None:
    repository.create(partial=False)
    try:
        repository.fetch("origin", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    except _Unsuitable as error:
        raise SourceError(
            f"cannot fetch {redact(repository.url)}: git says: {one_line(error)}"
        ) from None


def _list_files(repository: _Repository, wanted: _Wanted) -> tuple[list[_Entry], bool]:
    """The files, after a check that they are regular and have safe names; and whether `path` is one."""
    if not repository.has_commit():
        raise SourceError(
            f"{redact(repository.url)} has no commit {repository.commit} (is it a tag object, or on "
            "no branch?); push it, or pin a commit that it has"
        )
    path = wanted.path
    kind = _kind_of(repository, path)
    if kind is None:
        there = _paths(repository)
        raise SourceError(
            f"{redact(repository.url)} has no file or directory {path!r} in commit {repository.commit}; "
            f"{suggest_path(path, there)}"
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
        raise SourceError(f"{_place(repository, path)} is refused: {one_line(error)}") from None
    placement.require_extras()
    return entries, kind != "tree"


def _object(repository: _Repository, path: str) -> str:
    return f"{repository.commit}:{path}"


def _parent(path: str) -> str:
    parent = PurePosixPath(path).parent.as_posix()
    return "" if parent == "." else parent


def _kind_of(repository: _Repository, path: str) -> str | None:
    """`tree`, `blob` (also of a link), or None if there is nothing."""
    try:
        return repository.git("cat-file", "-t", _object(repository, path)).text.strip()
    except ProcessError:
        return None


def _paths(repository: _Repository) -> list[str]:
    def read(lines: Iterator[bytes]) -> list[str]:
        return [os.fsdecode(name) for name in islice(lines, _LISTED)]

    try:
        return repository.read(read, "ls-tree", "-r", "-t", "-z", "--name-only", repository.commit)
    except UnsafePathError:  # only a suggestion
        return []


def _split(output: BinaryIO) -> Iterator[bytes]:
    """The parts of a listing that end with NUL; the rest, if git was stopped, is left out."""
    rest = b""
    while chunk := output.read(_MAX_LINE):
        *lines, rest = (rest + chunk).split(b"\0")
        yield from lines
        if len(rest) > _MAX_LINE:
            raise UnsafePathError("a file name is too long")


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


def _fetch_missing(repository: _Repository, entries: Sequence[_Entry], wanted: _Wanted) -> None:
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
    repository: _Repository, entries: Sequence[_Entry], directory: Path, scratch: Path
) -> None:
    ids = "".join(f"{entry.object_id}\n" for entry in entries).encode()
    sizes = repository.git("cat-file", "--batch-check=%(objectsize)", content=ids).text.split()
    # Before a byte is written: a small pack may unpack to any size.
    if sum(map(int, sizes)) > MAX_MODEL_BYTES:
        raise SourceError(
            f"{redact(repository.url)} has more than {size_text(MAX_MODEL_BYTES)} there"
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


def _place(repository: _Repository, path: str) -> str:
    return f"{path or '.'!r} in commit {repository.commit} of {redact(repository.url)}"


def _kind(mode: str) -> str:
    return {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, f"of mode {mode}")


def _last_line(error: ProcessError) -> str:
    lines = [line.strip() for line in error.output.splitlines() if line.strip()]
    said = [line for line in lines if re.match(r"fatal|error|ssh|remote", line, re.IGNORECASE)]
    return (said or lines or [str(error)])[0]
