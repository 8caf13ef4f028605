"""Lists the changes in a git working tree since a commit: committed, uncommitted, renamed and new files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from ..source.git.repository import FOREIGN
from ..util.processes.process import Completed, ProcessError, run


@dataclass(frozen=True)
class Changes:
    """The files of a working tree that differ from a commit, including deleted ones."""

    tree: WorkingTree
    commit: str
    files: Mapping[PurePosixPath, PurePosixPath | None]
    """The path in the tree and the path in the commit; None if the commit has no such file."""

    def find(self, path: Path) -> list[PurePosixPath]:
        """The changed files at or below a path."""
        wanted = self.tree.relative(path)
        return sorted(file for file in self.files if wanted in (file, *file.parents))

    def read_old(self, file: PurePosixPath) -> bytes | None:
        """A changed file's content in the commit; None if the commit has no such file."""
        old = self.files[file]
        return None if old is None else self.tree.git("show", f"{self.commit}:{old}").stdout


@dataclass(frozen=True)
class WorkingTree:
    """A git checkout."""

    root: Path
    """Its top directory, resolved."""

    @classmethod
    def of(cls, directory: Path) -> WorkingTree:
        """The checkout that contains a directory.

        Raises:
            UsageError: It is not in a checkout.
        """
        try:
            top = cls(directory.resolve()).git("rev-parse", "--show-toplevel")
        except ProcessError as error:
            reason = error.output.strip().partition("\n")[0] or str(error)
            raise UsageError(
                f"{directory} is not in a git checkout: {reason}", code="MW207"
            ) from None
        return cls(Path(top.text.rstrip("\n")).resolve())

    def git(self, *arguments: str) -> Completed:
        """Runs git in the top directory."""
        # In a hook git sets GIT_DIR and others, which would lead to the repository of the hook.
        environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        # Without optional locks: reading must not get in the way of the user's own git.
        options = ("-c", "core.quotePath=false", "--literal-pathspecs", "--no-optional-locks")
        return run(["git", *options, *arguments], cwd=self.root, env=environment)

    def relative(self, path: Path) -> PurePosixPath:
        """A path as git names it."""
        return PurePosixPath(os.path.relpath(path.resolve(), self.root).replace(os.sep, "/"))

    def find_commit(self, revision: str) -> str | None:
        """The commit of a revision; None if there is none."""
        wanted = f"{revision}^{{commit}}"
        options = ("--verify", "--quiet", "--end-of-options")
        try:
            return self.git("rev-parse", *options, wanted).text.split()[-1]
        except ProcessError:
            return None

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether a commit is another one, or came before it."""
        try:
            self.git("merge-base", "--is-ancestor", commit, of)
        except ProcessError:
            return False
        return True

    def is_shallow(self) -> bool:
        """Whether commits and tags may be missing."""
        return self.git("rev-parse", "--is-shallow-repository").text.strip() == "true"

    def changes_since(self, commit: str) -> Changes:
        """The differences between a commit and the working tree, without files that git ignores."""
        # Renames are found so that a moved spec can be compared with its old content.
        options = ("--name-status", "-z", "--find-renames", "--no-ext-diff")
        listed = self.git("diff", *options, commit).stdout
        files = dict(_read_status(listed))
        new = self.git("ls-files", "-z", "--others", "--exclude-standard").stdout
        files.update((path, None) for path in _read_names(new))
        return Changes(self, commit, files)

    def changes_since_fork(self, revision: str) -> Changes:
        """The changes since the last commit that this branch shares with another one.

        Raises:
            UsageError: The revision does not exist, or shares no commit.
        """
        commit = self.find_commit(revision)
        if commit is None:
            raise UsageError(
                f"{self.root} has no commit {revision!r}; fetch it, or pass another one",
                code="MW207",
            )
        try:
            # From the fork, because what others changed on the revision since then is not ours.
            return self.changes_since(self.git("merge-base", commit, "HEAD").text.strip())
        except ProcessError:
            raise UsageError(
                f"HEAD and {revision!r} share no commit; fetch the whole history with `git fetch --unshallow`",
                code="MW207",
            ) from None


def _read_status(listed: bytes) -> Iterator[tuple[PurePosixPath, PurePosixPath | None]]:
    """Parses `git diff --name-status -z`: status NUL path NUL, with two paths for R and C."""
    fields = iter(_read_names(listed))
    for status in fields:
        old = next(fields)
        new = next(fields) if str(status)[0] in "RC" else old
        yield new, None if str(status) == "A" else old


def _read_names(listed: bytes) -> list[PurePosixPath]:
    return [PurePosixPath(os.fsdecode(name)) for name in listed.split(b"\0") if name]
