"""Git checkouts of this machine: where their files are for others, and where Git LFS has what is not here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import PydanticCustomError

from ...spec.sources.addresses import check_git_address
from ...util.files import find_checkout
from ...util.processes.process import ProcessError, run
from .lfs import Origin
from .lfs_server import origin_of, without_credentials
from .repository import FOREIGN


@dataclass(frozen=True)
class Pin:
    """Where everybody finds a file or directory of a checkout."""

    git: str
    commit: str
    path: str


@dataclass(frozen=True)
class Worktree:
    """A checkout."""

    root: Path
    """Its top directory, resolved."""

    @classmethod
    def around(cls, path: Path) -> Worktree | None:
        """The checkout that has a file or directory; None if it is in none."""
        path = path.resolve()
        root = find_checkout(path if path.is_dir() else path.parent)
        return None if root is None else cls(root)

    def ask(self, *args: str, content: bytes | None = None) -> str | None:
        """The output of git, without the end of its line; None if it fails."""
        environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            done = run(
                ["git", "-C", self.root, "-c", "core.fsmonitor=false", *args],
                env=environment,
                input=content,
            )
        except ProcessError:
            return None
        return done.text.strip()

    @property
    def remote(self) -> str:
        """The address of the remote `origin`, or of the only other one; empty if there is none."""
        names = (self.ask("remote") or "").split()
        if "origin" not in names and len(names) != 1:
            return ""
        name = "origin" if "origin" in names else names[0]
        return without_credentials(self.ask("remote", "get-url", name) or "")

    def lfs_origin(self) -> Origin:
        """Where Git LFS has the objects of the checkout."""
        common = self.ask("rev-parse", "--path-format=absolute", "--git-common-dir")
        stores = (Path(common),) if common else ()
        config = ("--file", str(self.root / ".lfsconfig"))
        return origin_of(self.ask, self.remote or str(self.root), config, stores)

    def pin(self, paths: Sequence[Path]) -> Pin | str:
        """Where everybody finds what is at a path; if they cannot, why, as the end of a sentence.

        Args:
            paths: The model, and other files that have to be in the same commit.
        """
        names = [path.resolve().relative_to(self.root).as_posix() for path in paths]
        remote = self.remote
        if not remote:
            return "the repository has no remote: add one, and push"
        try:
            check_git_address(remote)
        except PydanticCustomError:
            return "the address of the remote is not one that a spec may have"
        commit = self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if not commit or self.ask("ls-files", "--error-unmatch", "--", *names) is None:
            return "it is in no commit: git add, commit and push it"
        if self.ask("status", "--porcelain", "--ignored", "--", *names) != "":
            return "it has changes that are not committed: commit and push them"
        if not self.ask("branch", "--remotes", "--contains", commit):
            return f"the commit {commit} is on no branch of the remote: push it"
        return Pin(remote, commit, names[0])
