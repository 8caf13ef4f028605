"""What is not finished goes with its process, at the latest when the next one writes in the same place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelwheel.util import unfinished
from modelwheel.util.files import replace_directory, write_atomically
from modelwheel.util.unfinished import temporary_directory, unfinished_file
from tests.support.portability import IS_WINDOWS
from tests.support.stores import make

LEAVE = """
import os, pathlib, sys
from modelwheel.util.unfinished import temporary_directory, unfinished_file
place = pathlib.Path(sys.argv[1])
with unfinished_file(place / "file") as file, temporary_directory("test", place) as directory:
    file.write_text("half")
    (directory / "inner").write_text("half")
    print("here", flush=True)
    sys.stdin.read()
    os._exit(9)
"""


@pytest.fixture(autouse=True)
def _as_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished, "_cleared", set())


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.skipif(IS_WINDOWS, reason="it has no such locks")
def test_what_a_killed_process_leaves_goes_and_what_others_work_on_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", LEAVE, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"here\n"
    write_atomically(tmp_path / "file", b"whole")
    assert len(names(tmp_path)) == 3  # it is alive
    other.communicate(timeout=60)
    assert other.returncode == 9
    assert len(names(tmp_path)) == 3
    monkeypatch.setattr(unfinished, "_cleared", set())
    write_atomically(tmp_path / "other", b"whole")
    assert names(tmp_path) == ["file", "other"]


@pytest.mark.skipif(IS_WINDOWS, reason="links and pipes")
def test_only_what_is_ours_and_is_left_is_removed(tmp_path: Path) -> None:
    kept = make(tmp_path / "kept", {"file": b"content"})
    place = make(tmp_path / "place", {"modelwheel-notes": b"", ".modelwheel-one.tmp": b""})
    (place / ".modelwheel-link.tmp").symlink_to(kept)
    os.mkfifo(place / ".modelwheel-pipe.tmp")
    with unfinished_file(place / "file") as mine:
        unfinished._cleared.clear()
        with temporary_directory("test", place) as also_mine:
            expected = {mine.name, also_mine.name, "modelwheel-notes"}
            expected |= {".modelwheel-link.tmp", ".modelwheel-pipe.tmp"}
            assert set(names(place)) == expected
    assert names(place) == [".modelwheel-link.tmp", ".modelwheel-pipe.tmp", "modelwheel-notes"]
    assert names(kept) == ["file"]


@pytest.mark.skipif(IS_WINDOWS, reason="it has no such locks")
def test_what_is_taken_for_something_left_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the moments in which it is made and locked, another process removes it."""
    opened = unfinished._open
    stolen = list[Path]()

    def steal(path: Path) -> int:
        descriptor = opened(path)
        if len(stolen) < 2:
            stolen.append(path)
            path.rmdir() if path.is_dir() else path.unlink()
        return descriptor

    monkeypatch.setattr(unfinished, "_open", steal)
    with temporary_directory("test", tmp_path) as made:
        assert made.is_dir()
    assert len(stolen) == 2
    stolen.clear()
    write_atomically(tmp_path / "file", b"whole")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_directory_is_replaced_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchanges: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr("modelwheel.util.files._exchange", lambda *_: False)
    new, target = make(tmp_path / "new", {"a": b"new"}), tmp_path / "target"
    replace_directory(new, target)
    assert names(tmp_path) == ["target"]
    make(new, {"b": b"newer"})
    replace_directory(new, target)
    assert (names(target), names(new), names(tmp_path)) == (["b"], ["a"], ["new", "target"])


def test_a_directory_that_cannot_be_replaced_stays(tmp_path: Path) -> None:
    target = make(tmp_path / "target", {"a": b"old"})
    with pytest.raises(FileNotFoundError):
        replace_directory(tmp_path / "missing", target)
    assert (names(target), names(tmp_path)) == (["a"], ["target"])
