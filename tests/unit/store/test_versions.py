"""A store that two versions of modelwheel share: neither removes what the other one has."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from pathlib import Path

import pytest

from modelwheel.store import opening, records
from modelwheel.store.keys import action_key
from modelwheel.store.names import record_name
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage, list_entries
from tests.support.object_stores import serve_objects
from tests.support.stores import CONTENT, KEY, blob_file, make, open_store, record_file


@pytest.fixture
def newer(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """A record that a newer version has written."""
    with monkeypatch.context() as patched:
        patched.setattr(records, "RECORD_VERSION", records.RECORD_VERSION + 1)
        return store.publish(KEY, make(tmp_path / "newer"))


def test_what_a_newer_version_has_is_a_miss_and_stays(
    store: Store, newer: Record, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = record_file(store).read_bytes()
    with open_store(store.root) as other, caplog.at_level(logging.INFO):
        assert (other.lookup(KEY), other.peek(KEY), list_entries(other)) == (None, None, [])
    assert "another modelwheel has written it (its version is 2, not 1)" in caplog.text
    assert all(each.levelno < logging.WARNING for each in caplog.records)
    assert record_file(store).read_bytes() == before
    monkeypatch.setattr(records, "RECORD_VERSION", records.RECORD_VERSION + 1)
    assert store.lookup(KEY) == newer


def test_a_collection_keeps_what_a_newer_version_needs(
    store: Store, newer: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = store.publish(action_key("old"), make(tmp_path / "old", {"old": b"old"}))
    for path in [path for path in store.root.rglob("*") if path.is_file()]:
        os.utime(path, (1000, 1000))
    collect_garbage(store, unused_seconds=3600)
    collect_garbage(store, unused_seconds=3600)
    assert not blob_file(store, old, "old").exists()
    monkeypatch.setattr(records, "RECORD_VERSION", records.RECORD_VERSION + 1)
    with open_store(store.root) as other:
        assert other.lookup(KEY) == newer
        assert {name: other.read_bytes(newer, name) for name in newer.files} == CONTENT


def test_the_work_of_a_newer_version_is_done_again_for_an_older_one(
    store: Store, newer: Record, tmp_path: Path
) -> None:
    again = store.publish(KEY, make(tmp_path / "again"))
    assert store.lookup(KEY) == again == newer


def test_in_an_object_store_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path / "made")
    with serve_objects("s3") as url:
        with (
            monkeypatch.context() as patched,
            closing(opening.open_store(url, cache=tmp_path / "1")) as newer,
        ):
            patched.setattr(records, "RECORD_VERSION", records.RECORD_VERSION + 1)
            newer.publish(KEY, made)
            there = newer.backend.read(record_name(KEY))
        with closing(opening.open_store(url, cache=tmp_path / "2")) as older:
            assert (older.lookup(KEY), older.peek(KEY)) == (None, None)
            assert older.backend.read(record_name(KEY)) == there
            assert older.publish(KEY, made) == older.lookup(KEY)
