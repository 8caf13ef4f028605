"""Runs the system's git on a repository of its own, which fetches from a remote.

Nothing of a remote is run or interpreted: there is no checkout, and so no hooks, filters, attributes or submodules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from ...errors import SourceError
from ...util.names import UnsafePathError
from ...util.processes.process import (
    Ceiling,
    Completed,
    ProcessError,
    ProcessTimeoutError,
    read_output,
    run,
)
from ...util.urls import redact
from ...util.words import time_text
from ..rules import MAX_MODEL_BYTES

_T = TypeVar("_T")

_CEILING = Ceiling(memory_bytes=4 << 30, file_bytes=2 * MAX_MODEL_BYTES)
"""What one git may use, where the system can say so: a small pack may unpack to any size."""

_MAX_LINE = 8 << 10
"""Bytes of one line of a listing: a mode, a kind, an id, and a name that is far longer than allowed."""

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
        "access to {url} was refused; {fix}",
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


class UnsuitableError(Exception):
    """The server does not serve single commits."""


@dataclass(frozen=True)
class Remote:
    """A repository, and how it is reached."""

    url: str
    """As `git fetch` takes it."""
    options: tuple[tuple[str, str], ...] = ()
    """Settings of git for it."""
    fix: str = "set up a credential helper or an ssh key that may read it"
    """What to do if it refuses access."""


@dataclass(frozen=True)
class Repository:
    """An empty bare repository to fetch into."""

    directory: Path
    remote: Remote
    commit: str
    timeout: float

    @property
    def url(self) -> str:
        return self.remote.url

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
            lambda output: use(split_listing(output)),
            env=self._environment(),
            timeout=self.timeout,
            ceiling=_CEILING,
        )

    def _command(self, args: Sequence[str]) -> list[str]:
        options = [
            part
            for name, value in (*_OPTIONS, *self.remote.options)
            for part in ("-c", f"{name}={value}")
        ]
        return ["git", *options, f"--git-dir={self.directory}", *args]

    def ask(self, *args: str, content: bytes | None = None) -> str | None:
        """The output of git, without the end of its line; None if it fails."""
        try:
            return self.git(*args, content=content).text.strip()
        except ProcessError:
            return None

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
            UnsuitableError: For any other reason.
        """
        try:
            self.git("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", *args)
        except ProcessTimeoutError:
            raise SourceError(
                f"fetching {redact(self.url)} took longer than {time_text(self.timeout)}; "
                "check the network and the host, then run again"
            ) from None
        except ProcessError as error:
            if reason := self.reason(error):
                raise SourceError(reason) from None
            raise UnsuitableError(last_line(error)) from None

    def has_commit(self) -> bool:
        try:
            output = self.git("rev-parse", "--verify", "--quiet", f"{self.commit}^{{commit}}")
        except ProcessError:
            return False
        # The id of a tag object leads to a commit, too, but to one with another id.
        return output.text.strip() == self.commit

    def reason(self, error: ProcessError) -> str | None:
        """The reason of a failure, if it is one of those that are known."""
        for pattern, sentence in _REASONS:
            if re.search(pattern, error.output, re.IGNORECASE):
                reason = sentence.format(
                    url=redact(self.url), commit=self.commit, fix=self.remote.fix
                )
                return f"{reason} (git: {last_line(error)})"
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


def list_remote(remote: Remote, revision: str, timeout: float) -> str:
    """The commit that a branch, a tag or HEAD of a repository is now; a full commit id is itself.

    Raises:
        SourceError: There is no such revision, or the repository cannot be reached.
    """
    if re.fullmatch(r"[0-9a-f]{40}", revision):
        return revision
    repository = Repository(Path(os.devnull), remote, revision, timeout)
    try:
        # The pattern `x^{}` finds the commit of a tag that is an object of its own.
        names = (revision, f"{revision}^{{}}")
        listing = repository.git("ls-remote", "--end-of-options", remote.url, *names).text
    except ProcessError as error:
        reason = repository.reason(error) or last_line(error)
        raise SourceError(f"cannot read {redact(remote.url)}: {reason}", code="MW301") from None
    lines = (line.partition("\t") for line in listing.splitlines())
    commits = {name: commit for commit, _, name in lines}
    forms = (f"refs/tags/{revision}^{{}}", f"refs/tags/{revision}", f"refs/heads/{revision}")
    for name in (*forms, revision):
        if name in commits:
            return commits[name]
    raise SourceError(f"{redact(remote.url)} has no branch or tag {revision!r}")


def split_listing(output: BinaryIO) -> Iterator[bytes]:
    """The parts of a listing that end with NUL; the rest, if git was stopped, is left out."""
    rest = b""
    while chunk := output.read(_MAX_LINE):
        *lines, rest = (rest + chunk).split(b"\0")
        yield from lines
        if len(rest) > _MAX_LINE:
            raise UnsafePathError("a file name is too long")


def last_line(error: ProcessError) -> str:
    lines = [line.strip() for line in error.output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"fatal|error|ssh|remote", line, re.IGNORECASE)]
    return (errors or lines or [str(error)])[0]
