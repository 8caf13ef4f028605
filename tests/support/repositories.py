"""Git repositories made for tests, out of reach of the user's own configuration."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.sources import write


def isolate_git(monkeypatch: pytest.MonkeyPatch, configuration: Path) -> None:
    """Makes `configuration` all that git is told; tests may add to it."""
    configuration.write_text("[user]\n name = Somebody\n email = somebody@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


class Repository:
    """A git repository made for a test."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        directory.mkdir()
        self.git("init", "--quiet", "--initial-branch=main", *options)

    def git(self, *args: str, content: bytes = b"") -> str:
        """What git says."""
        done = subprocess.run(
            ["git", *args], cwd=self.directory, input=content, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def commit(self, files: Mapping[str, bytes], *options: str) -> str:
        """Writes files and commits all that there is; the commit's name."""
        write(self.directory, files)
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--message=x", *options)
        return self.git("rev-parse", "HEAD")


class OddRepository(Repository):
    """One that may hold what `git add` would refuse."""

    def commit_tree(self, tree: str) -> str:
        """A commit of a tree that no `git add` would make, below the directory `model`."""
        root = self.git("mktree", content=f"040000 tree {tree}\tmodel\n".encode())
        commit = self.git("commit-tree", root, "-m", "x")
        self.git("update-ref", "refs/heads/odd", commit)
        return commit

    def raw_tree(self, *entries: tuple[str, bytes]) -> str:
        """A tree object written byte by byte: (mode, name) of entries with the content `data`."""
        blob = bytes.fromhex(self.git("hash-object", "-w", "--stdin", content=b"data"))
        tree = b"".join(mode.encode() + b" " + name + b"\0" + blob for mode, name in entries)
        return self.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", content=tree)
