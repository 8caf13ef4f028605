"""Writes that are complete or absent."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from modelwheel.util.files import write_atomically
from modelwheel.util.removal import remove, remove_tree
from tests.support.portability import IS_WINDOWS, behave_like_windows, both_systems


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    with pytest.raises(TypeError):
        write_atomically(tmp_path / "file", 5)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def _read_only(path: Path) -> Path:
    path.write_bytes(b"old")
    path.chmod(0o444)
    return path


@pytest.mark.usefixtures(both_systems.__name__)
def test_read_only_files_are_replaced_and_removed(tmp_path: Path) -> None:
    path = _read_only(tmp_path / "file")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    remove(_read_only(tmp_path / "other"))
    remove(tmp_path / "missing")
    assert [left.name for left in tmp_path.iterdir()] == ["file"]


@pytest.mark.usefixtures(both_systems.__name__)
def test_a_tree_with_read_only_files_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    _read_only(tmp_path / "tree" / "sub" / "file")
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []
    remove_tree(tmp_path / "missing")


def _refuse(monkeypatch: pytest.MonkeyPatch, times: int) -> list[Path]:
    """Lets the next renames fail, as when another process reads the file; returns the attempts."""
    rename, attempts = Path.replace, list[Path]()

    def refusing(source: Path, target: Path) -> Path:
        attempts.append(target)
        if len(attempts) <= times:
            raise PermissionError(errno.EACCES, "it is open elsewhere", str(target))
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", refusing)
    return attempts


def test_windows_waits_for_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behave_like_windows(monkeypatch)
    attempts = _refuse(monkeypatch, times=3)
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert len(attempts) == 4


def test_windows_gives_up_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behave_like_windows(monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    (tmp_path / "file").write_bytes(b"old")
    _refuse(monkeypatch, times=99)
    with pytest.raises(PermissionError, match="open elsewhere"):
        write_atomically(tmp_path / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.skipif(IS_WINDOWS, reason="there it is tried again")
def test_elsewhere_a_refused_rename_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = _refuse(monkeypatch, times=1)
    with pytest.raises(PermissionError):
        write_atomically(tmp_path / "file", b"new")
    assert len(attempts) == 1


@pytest.mark.skipif(IS_WINDOWS, reason="no such permissions and paths there")
def test_a_tree_that_a_hostile_program_left_is_removed(tmp_path: Path) -> None:
    """Deeper than Python's functions may call each other, longer than a path may be, unreadable."""
    top, deep = tmp_path / "top", tmp_path / "top"
    top.mkdir()
    for _ in range(1100):  # from the inside out, because no path to the innermost one can be used
        outer = tmp_path / "outer"
        outer.mkdir()
        deep.rename(outer / "d")
        outer.rename(deep)
    (top / "file").write_text("")
    (top / "closed" / "inner").mkdir(parents=True)
    (top / "closed" / "inner").chmod(0)
    (top / "closed").chmod(0)
    (top / "link").symlink_to(tmp_path)
    remove_tree(top)
    assert list(tmp_path.iterdir()) == []
