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
