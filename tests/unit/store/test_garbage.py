"""What a store lists, and what a collection removes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from modelwheel.store.history import remember
from modelwheel.store.keys import action_key
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage, list_entries
from modelwheel.store.upkeep.inventory import take_inventory
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

    assert collect_garbage(store, unused_seconds=3600).freed == 3
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
    assert collect_garbage(store, unused_seconds=0).freed == 0
    assert blob_file(store, record, "empty").exists()


def test_blobs_that_records_share_take_space_once(store: Store, tmp_path: Path) -> None:
    store.publish(KEY, make(tmp_path / "a", {"x": b"same", "y": b"same"}))
    store.publish(action_key("other"), make(tmp_path / "b", {"z": b"same", "own": b"1"}))
    assert take_inventory(store.backend).bytes == 5


def _fill(store: Store, tmp_path: Path) -> list[str]:
    """Four results of ten bytes, the least recently used first; the last two share five."""
    contents = [
        {"a": b"0" * 10},
        {"a": b"1" * 10},
        {"a": b"2" * 5, "s": b"share"},
        {"a": b"3" * 5, "s": b"share"},
    ]
    keys = [action_key("made", number=number) for number in range(len(contents))]
    for number, (key, content) in enumerate(zip(keys, contents, strict=True)):
        note = {"step": f"m/{('compile', 'wheel')[number % 2]}/{number}"}
        store.publish(key, make(tmp_path / key, content), note)
        os.utime(record_file(store, key), (1000 + number, 1000 + number))
    for path in (store.root / "blobs").glob("??/*"):
        os.utime(path, (0, 0))
    return keys


def _left(store: Store) -> list[str]:
    return [entry.key for entry in list_entries(store)]


def test_a_limit_of_bytes_takes_the_least_recently_used(store: Store, tmp_path: Path) -> None:
    keys = _fill(store, tmp_path)
    assert take_inventory(store.backend).bytes == 35
    done = collect_garbage(store, max_bytes=24)
    assert (done.results, done.bytes, done.freed, done.kept_bytes) == (2, 20, 20, 15)
    assert done.kinds == {"compile": 1, "wheel": 1}
    assert _left(store) == keys[2:]
    # What two results share is freed with the second.
    assert collect_garbage(store, max_bytes=11).freed == 5
    assert collect_garbage(store, max_bytes=0).freed == 10
    assert _left(store) == []


def test_a_dry_run_says_the_same_and_removes_nothing(store: Store, tmp_path: Path) -> None:
    keys = _fill(store, tmp_path)
    rules: dict[str, Any]
    for rules in ({"max_bytes": 24}, {"unused_seconds": 60.0}, {"keep": keys[:1]}):
        said = collect_garbage(store, **rules, dry_run=True)
        assert _left(store) == keys
        assert said.freed == 0
    done = collect_garbage(store, keep=keys[:1])
    assert (said.results, said.bytes, said.kinds) == (done.results, done.bytes, done.kinds)
    assert done.freed == said.bytes == 25


def test_what_is_to_be_kept_stays_whatever_the_limits(store: Store, tmp_path: Path) -> None:
    keys = _fill(store, tmp_path)
    assert collect_garbage(store, 60, max_bytes=0, keep=keys[:2]).results == 2
    assert collect_garbage(store, max_bytes=0, keep=keys[1:]).results == 1
    assert _left(store) == [keys[1]]


def test_results_made_of_kept_contents_stay(store: Store, tmp_path: Path) -> None:
    part = action_key("part")
    store.publish(part, make(tmp_path / "part", {"k.o": b"kernel"}))
    whole = {"k.o": b"kernel", "other": b""}
    store.publish(KEY, make(tmp_path / "whole", whole))
    store.publish(action_key("rest"), make(tmp_path / "rest", {"x": b"x"}))
    collect_garbage(store, keep=[KEY])
    assert set(_left(store)) == {KEY, part}


def test_the_notes_of_removed_results_go(store: Store, tmp_path: Path) -> None:
    keys = _fill(store, tmp_path)
    for key in keys:
        remember(store, "m/compile", key)
    collect_garbage(store, keep=keys[:1])
    assert [entry.name[-64:] for entry in store.backend.list("steps/")] == keys[:1]
