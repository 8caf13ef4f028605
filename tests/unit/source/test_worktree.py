"""Checkouts: where everybody finds what is in one, or why they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.source.git.worktree import Pin, Worktree
from tests.support.repositories import Repository, isolate_git
from tests.support.sources import write

MODEL = {"models/a.onnx": b"model", "models/a.onnx.data": b"weights"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    return Repository(tmp_path / "repository")


def push(repository: Repository, url: str = "https://jo:canary@example.org/a.git") -> None:
    """Pushes, and then names the remote by another address."""
    target = repository.directory.with_name("remote.git")
    repository.git("init", "--quiet", "--bare", str(target))
    repository.git("remote", "add", "origin", str(target))
    repository.git("push", "--quiet", "origin", "main")
    repository.git("remote", "set-url", "origin", url)


def pin(repository: Repository, *names: str) -> Pin | str:
    checkout = Worktree.around(repository.directory / names[0])
    assert checkout is not None
    return checkout.pin([repository.directory / name for name in names])


@pytest.mark.parametrize("path", ["models", "models/a.onnx"])
def test_a_commit_that_was_pushed(repository: Repository, path: str) -> None:
    commit = repository.commit(MODEL)
    push(repository)
    write(repository.directory, {"notes": b"not of the model"})
    assert pin(repository, path) == Pin("https://example.org/a.git", commit, path)


def test_why_there_is_none(repository: Repository) -> None:
    path = "models/a.onnx"
    write(repository.directory, MODEL)
    assert "has no remote" in str(pin(repository, path))
    repository.git("remote", "add", "upstream", "git@example.org:a.git")
    assert "it is in no commit" in str(pin(repository, path))
    commit = repository.commit(MODEL)
    assert f"{commit} is on no branch of the remote: push it" in str(pin(repository, path))
    repository.git("update-ref", "refs/remotes/upstream/main", commit)
    assert pin(repository, path) == Pin("git@example.org:a.git", commit, path)
    write(repository.directory, {"models/a.onnx.data": b"other"})
    assert pin(repository, path) == Pin("git@example.org:a.git", commit, path)
    assert "changes that are not committed" in str(pin(repository, path, f"{path}.data"))
    assert "changes that are not committed" in str(pin(repository, "models"))
    write(repository.directory, {"models/b.onnx": b"new"})
    assert "it is in no commit" in str(pin(repository, "models/b.onnx"))


def test_an_address_that_no_spec_may_have(repository: Repository) -> None:
    repository.commit(MODEL)
    push(repository, "http://example.org/a.git")
    assert "is not one that a spec may have" in str(pin(repository, "models"))


def test_outside_of_a_checkout(tmp_path: Path) -> None:
    assert Worktree.around(tmp_path) is None
