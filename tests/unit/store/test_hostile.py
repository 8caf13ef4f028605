"""A store into which somebody else has written: whatever that is, it is a miss, and leads nowhere else."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import StoreError
from modelwheel.store.keys import digest
from modelwheel.store.records import MAX_RECORD_BYTES
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage, list_entries
from modelwheel.store.upkeep.inventory import take_inventory
from tests.support.portability import both_systems
from tests.support.stores import CONTENT, KEY, blob_file, make, open_store, record_file

pytestmark = pytest.mark.usefixtures(both_systems.__name__)

Put = Callable[[Path], object]
"""Puts something in place of a file."""


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """Ends a test that waits for a pipe or reads without end."""
    if sys.platform == "win32":
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket has at most 108 bytes
        opened.bind(path.name[:80])
        os.chdir(here)
        (path.parent / path.name[:80]).rename(path)


def _link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def _link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


KINDS: dict[str, Put] = {
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": _link_to_itself,
    "a link to a directory": lambda path: path.symlink_to(path.parent, target_is_directory=True),
}
if sys.platform != "win32":
    KINDS |= {
        "a pipe": os.mkfifo,
        "a socket": _socket,
        "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
        "a link to a pipe": _link_to_a_pipe,
    }


def _published(store: Store, tmp_path: Path) -> tuple[Path, Path]:
    """The files of a record and of a blob."""
    record = store.publish(KEY, make(tmp_path / "made"))
    return record_file(store), blob_file(store, record, "objects/a.o")


@pytest.mark.parametrize("which", ["record", "blob"])
def test_what_is_not_a_file_is_a_miss(store: Store, tmp_path: Path, which: str) -> None:
    record = store.publish(KEY, make(tmp_path / "made", {"a": b"a"}))
    path = record_file(store) if which == "record" else blob_file(store, record, "a")
    for kind, put in KINDS.items():
        path.chmod(0o644)
        path.unlink()
        put(path)
        with open_store(store.root) as again:
            assert again.peek(KEY) is None, kind
            assert again.lookup(KEY) is None, kind
            list_entries(again)
            assert again.publish(KEY, tmp_path / "made") == again.lookup(KEY), kind


@pytest.mark.parametrize("which", ["record", "blob"])
def test_a_directory_in_place_of_a_file_is_a_miss(store: Store, tmp_path: Path, which: str) -> None:
    path = _published(store, tmp_path)[which == "blob"]
    path.rename(tmp_path / "kept")
    path.mkdir()
    with open_store(store.root) as again:
        assert again.peek(KEY) is None
        assert again.lookup(KEY) is None
        with pytest.raises(StoreError, match=r"remove it|Access is denied"):
            again.publish(KEY, tmp_path / "made")


@pytest.mark.parametrize("which", ["record", "blob"])
def test_a_link_to_the_right_content_is_a_miss(store: Store, tmp_path: Path, which: str) -> None:
    path = _published(store, tmp_path)[which == "blob"]
    kept = path.rename(tmp_path / "kept")
    path.symlink_to(kept)
    with open_store(store.root) as again:
        assert again.lookup(KEY) is None
    assert kept.exists()


@pytest.mark.parametrize("which", ["record", "blob"])
def test_a_file_in_place_of_a_directory_is_a_miss(store: Store, tmp_path: Path, which: str) -> None:
    path = _published(store, tmp_path)[which == "blob"]
    path.parent.rename(tmp_path / "aside")
    path.parent.write_text("")
    with open_store(store.root) as again:
        assert again.lookup(KEY) is None
        list_entries(again)
        with pytest.raises(StoreError, match=r"a file in place of a directory: remove it"):
            again.publish(KEY, tmp_path / "made")


def forge(store: Store, **changes: Any) -> None:
    """A record with a valid digest, as only somebody who means harm would write it."""
    body = {"version": 1, "key": KEY, "files": {}, "note": {}, **changes}
    record_file(store).write_text(json.dumps({**body, "digest": digest(body)}))


_FILE = {"sha256": "0" * 64, "size": 1}

FORGED: dict[str, dict[str, Any]] = {
    "size that is text": {"files": {"x": {**_FILE, "size": "1"}}},
    "size that is true": {"files": {"x": {**_FILE, "size": True}}},
    "negative size": {"files": {"x": {**_FILE, "size": -1}}},
    "fraction of a byte": {"files": {"x": {**_FILE, "size": 0.5}}},
    "hash in capitals": {"files": {"x": {**_FILE, "sha256": "A" * 64}}},
    "hash that is a list": {"files": {"x": {**_FILE, "sha256": ["0" * 64]}}},
    "unknown field": {"files": {"x": {**_FILE, "more": 1}}},
    "missing field": {"files": {"x": {"size": 1}}},
    "files in a list": {"files": ["x"]},
    "file that is text": {"files": {"x": "y"}},
    "name with a line feed": {"files": {"x\ny": _FILE}},
    "name with a surrogate": {"files": {"x\ud800": _FILE}},
    "names that clash": {"files": {"a": _FILE, "A": _FILE}},
    "note that is a list": {"note": []},
    "another version": {"version": 2},
    "another key": {"key": "0" * 64},
}


def test_a_forged_record_is_a_miss(store: Store, tmp_path: Path) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    forge(store)
    assert store.lookup(KEY) is not None
    for what, changes in FORGED.items():
        for read in (store.peek, store.lookup):
            forge(store, **changes)
            assert read(KEY) is None, what
        forge(store, **changes)
        assert (list_entries(store), take_inventory(store.backend).bytes) == ([], 4002), what


NOT_JSON = {
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "closed again": b"[" * 100_000 + b"]" * 100_000,
    "a long number": b"1" * 100_000,
    "not a number": b'{"digest": "", "files": NaN}',
    "not UTF-8": b"\xff\xfe{",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "text": b'"digest"',
}


def test_what_is_not_a_record_is_a_miss(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    for what, content in NOT_JSON.items():
        record_file(store).write_bytes(content)
        caplog.clear()
        assert list_entries(store) == [], what
        assert store.lookup(KEY) is None, what
        assert "it is damaged (" in caplog.text, what
    assert store.publish(KEY, tmp_path / "made") == store.lookup(KEY)


def test_a_record_of_any_size_is_read_within_a_limit(store: Store, tmp_path: Path) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    with record_file(store).open("ab") as file:
        file.write(b" " * 1000)
    assert store.lookup(KEY) is not None
    with record_file(store).open("ab") as file:
        file.write(b" " * MAX_RECORD_BYTES)
    assert store.lookup(KEY) is None


def test_what_a_record_says_reaches_no_terminal(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    forge(store, files={"x": {**_FILE, "\x1b[2J\n::error::": 1}})
    assert store.lookup(KEY) is None
    assert "\x1b" not in caplog.text
    assert "\n::" not in caplog.text


# Removal


def _old(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("precious")
    os.utime(path, (0, 0))
    return path


def test_garbage_collection_follows_no_link(store: Store, tmp_path: Path) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    name = "ab" + "0" * 62
    precious = [
        _old(tmp_path / "home" / "notes"),
        _old(tmp_path / "home" / name),
        _old(tmp_path / "home" / f"{name}.json"),
    ]
    for part in ("blobs", "actions"):
        (store.root / part / "ab").symlink_to(tmp_path / "home", target_is_directory=True)
    collect_garbage(store, unused_seconds=0)
    assert [path.read_text() for path in precious] == ["precious"] * 3
    assert list_entries(store) == []


@pytest.mark.parametrize("part", ["blobs", "actions"])
def test_garbage_collection_stays_out_of_another_store(
    store: Store, tmp_path: Path, part: str
) -> None:
    with open_store(tmp_path / "other") as other:
        record = other.publish(KEY, make(tmp_path / "made", {"x": b"x"}))
        for path in (record_file(other), blob_file(other, record, "x")):
            os.utime(path, (0, 0))
        store.root.mkdir()
        (store.root / part).symlink_to(other.root / part, target_is_directory=True)
        collect_garbage(store, unused_seconds=0)
        assert other.lookup(KEY) == record


def test_garbage_collection_leaves_what_it_does_not_know(store: Store, tmp_path: Path) -> None:
    store.publish(KEY, make(tmp_path / "made", CONTENT))
    name = "ab" + "0" * 62
    strange = [
        _old(store.root / "blobs" / "ab" / "notes"),
        _old(store.root / "blobs" / "cd" / name),  # under another hash's directory
        _old(store.root / "blobs" / name),
        _old(store.root / "actions" / "ab" / "...json"),
        _old(store.root / "actions" / "ab" / "notes.json"),
        _old(store.root / ".json"),
    ]
    links = [store.root / "blobs" / "ab" / name, store.root / "actions" / "ab" / f"{name}.json"]
    for link in links:
        link.symlink_to(strange[0])
    collect_garbage(store, unused_seconds=0)
    assert [path.read_text() for path in strange] == ["precious"] * len(strange)
    assert all(link.is_symlink() for link in links)


def test_locks_and_scratch_directories_empty_no_target_of_a_link(
    store: Store, tmp_path: Path
) -> None:
    precious = _old(tmp_path / "home" / "notes")
    temporary = store.root / "tmp"
    temporary.mkdir(parents=True)
    (temporary / "process-a").symlink_to(tmp_path / "home", target_is_directory=True)
    (temporary / "process-b.lock").symlink_to(precious)
    (temporary / "process-c.lock").mkdir()
    (store.root / "locks").mkdir()
    (store.root / "locks" / f"{KEY}.lock").symlink_to(precious)
    assert store.publish(KEY, make(tmp_path / "made")) == store.lookup(KEY)
    with pytest.raises(StoreError, match="symbolic link"), store.lock(KEY):
        pass
    assert precious.read_text() == "precious"
