"""What a store lists, and what a collection removes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelwheel.store.garbage import collect_garbage, disk_usage, list_entries
from modelwheel.store.keys import action_key
from modelwheel.store.store import Store
from tests.support.portability import both_systems
from tests.support.stores import KEY, blob_file, make, record_file

pytestmark = pytest.mark.usefixtures(both_systems.__name__)


def test_entries_and_garbage(store: Store, tmp_path: Path) -> None:
    assert list_entries(store) == []
    old = store.publish(KEY, make(tmp_path / "a", {"x": b"old", "s": b"shared"}), {"name": "old"})
    other = action_key("new")
    store.publish(other, make(tmp_path / "b", {"y": b"newer", "s": b"shared"}))
    for path in (store.root / "blobs").glob("??/*"):
        os.utime(path, (0, 0))
    os.utime(record_file(store), (1000, 1000))
    entries = list_entries(store)
    assert [(entry.key, entry.size) for entry in entries] == [(KEY, 9), (other, 11)]
    assert (entries[0].used, entries[0].note) == (1000, {"name": "old"})

    assert collect_garbage(store, unused_seconds=3600) == 3
    assert [entry.key for entry in list_entries(store)] == [other]
    assert not blob_file(store, old, "x").exists()
    assert store.lookup(other) is not None


def test_a_lookup_keeps_from_being_collected(store: Store, tmp_path: Path) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    os.utime(record_file(store), (1000, 1000))
    assert store.lookup(KEY) is not None
    collect_garbage(store, unused_seconds=3600)
    assert store.lookup(KEY) is not None


def test_young_blobs_without_a_record_are_left_alone(store: Store, tmp_path: Path) -> None:
    record = store.publish(KEY, make(tmp_path / "made"))
    record_file(store).unlink()
    assert collect_garbage(store, unused_seconds=0) == 0
    assert blob_file(store, record, "empty").exists()


def test_blobs_that_records_share_take_space_once(store: Store, tmp_path: Path) -> None:
    store.publish(KEY, make(tmp_path / "a", {"x": b"same", "y": b"same"}))
    store.publish(action_key("other"), make(tmp_path / "b", {"z": b"same", "own": b"1"}))
    assert disk_usage(store) == 5
