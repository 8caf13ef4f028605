"""Repositories that were made to escape from a directory, or to be without end: each is refused by one sentence."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from modelwheel.store.store import Store
from tests.support.repositories import OddRepository, isolate_git
from tests.support.sources import git_source, refusal

_SECONDS = 120
"""After this long, what should end at once does not end at all."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OddRepository:
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    return OddRepository(tmp_path / "data")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([b".."], "'..'"),
        ([b"../escaped"], "'..'"),
        ([b"/absolute"], "absolute"),
        ([b"a\\b"], "backslash"),
        ([b"a\nb"], "control character"),
        ([b"\xff"], "UTF-8"),
        ([b"x" * 256], "longer than 255"),
        ([b"Saved", b"saved"], "clash"),
        ([b"twice", b"twice"], "clash"),
    ],
)
def test_names_made_to_escape_or_clash(
    repository: OddRepository, store: Store, names: list[bytes], reason: str
) -> None:
    commit = repository.commit_tree(repository.raw_tree(*(("100644", name) for name in names)))
    message = refusal(git_source(str(repository.directory), commit, "model"), store)
    assert "'model' in commit" in message
    assert reason in message


@pytest.mark.parametrize(
    ("mode", "kind"), [("120000", "a symbolic link"), ("160000", "a submodule")]
)
def test_only_regular_files(repository: OddRepository, store: Store, mode: str, kind: str) -> None:
    tree = repository.raw_tree(("100644", b"a"), (mode, b"odd"))
    commit = repository.commit_tree(tree)
    message = refusal(git_source(str(repository.directory), commit, "model"), store)
    assert f"'odd' is {kind}, not a regular file" in message


def nest(repository: OddRepository, tree: str, levels: int, width: int) -> str:
    """A tree of `levels` levels with `width` entries each, all the same: width ** levels paths."""
    for _ in range(levels):
        lines = "".join(f"040000 tree {tree}\td{number}\n" for number in range(width))
        tree = repository.git("mktree", content=lines.encode())
    return tree


@pytest.mark.parametrize(("with_file", "reason"), [(True, "10000 "), (False, "10000 directories")])
def test_a_small_repository_with_billions_of_files(
    repository: OddRepository, store: Store, with_file: bool, reason: str
) -> None:
    blob = repository.git("hash-object", "-w", "--stdin", content=b"x")
    leaf = f"100644 blob {blob}\tsaved_model.pb\n" if with_file else ""
    tree = nest(repository, repository.git("mktree", content=leaf.encode()), 10, 10)
    commit = repository.commit_tree(tree)
    started = time.monotonic()
    message = refusal(git_source(str(repository.directory), commit, "model"), store)
    assert f"is refused: it has more than {reason}" in message
    assert time.monotonic() - started < _SECONDS
    # The suggestion of another directory reads as little.
    message = refusal(git_source(str(repository.directory), commit, "other"), store)
    assert "has no file or directory 'other'" in message
    assert time.monotonic() - started < _SECONDS


def test_a_chain_of_directories(repository: OddRepository, store: Store) -> None:
    blob = repository.git("hash-object", "-w", "--stdin", content=b"x")
    leaf = repository.git("mktree", content=f"100644 blob {blob}\tx\n".encode())
    commit = repository.commit_tree(nest(repository, leaf, 40, 1))
    message = refusal(git_source(str(repository.directory), commit, "model"), store)
    assert "is more than 32 directories deep" in message


def test_a_file_name_without_end(repository: OddRepository, store: Store) -> None:
    tree = repository.raw_tree(("100644", b"x" * 100_000))
    commit = repository.commit_tree(tree)
    message = refusal(git_source(str(repository.directory), commit, "model"), store)
    assert "a file name is too long" in message
