"""The earlier results of steps are found by one listing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.errors import StoreError
from modelwheel.store.backends.base import Entry
from modelwheel.store.history import History, forget, remember, remember_use
from modelwheel.store.keys import action_key
from modelwheel.store.layers import Policy
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage
from modelwheel.store.upkeep.whole import copy_store
from tests.support.stores import make

_STEP = "net/linux-x86_64/x86-64/b1"


def _add(store: Store, directory: Path, number: int, name: str = "net-1.0/x") -> str:
    """Stores the result of a step, made at this time."""
    key = action_key("compile", number=number)
    made = directory / f"made-{number}"
    if not made.exists():
        make(made)
    remember(store, _STEP, key)
    note = {"step": name, "inputs": {"number": number}}
    store.publish(key, made, note)
    for file in (store.root / "steps").glob(f"*-{key}"):
        os.utime(file, (number, number))
    return key


def test_the_newest_result_is_first(store: Store, tmp_path: Path) -> None:
    keys = [_add(store, tmp_path, number) for number in (3, 1, 2)]
    history = History(store)
    assert [record.note["inputs"]["number"] for record in history.results(_STEP)] == [3, 2, 1]
    assert history.time(keys[1]) == 1
    assert history.last("net/other") is None
    assert [record.key for record in history.newest(2)] == [keys[0], keys[2]]


def test_results_of_the_same_version_are_preferred(store: Store, tmp_path: Path) -> None:
    _add(store, tmp_path, 1, "net-1.0/x")
    _add(store, tmp_path, 2, "net-2.0/x")
    found = [History(store).last(_STEP, name) for name in ("net-1.0/x", "net-2.0/x", "net-3.0/x")]
    assert [record and record.note["inputs"]["number"] for record in found] == [1, 2, 2]


def test_a_result_that_is_gone_is_passed_over(store: Store, tmp_path: Path) -> None:
    old, new = (_add(store, tmp_path, number) for number in (1, 2))
    store.record_path(new).unlink()
    history = History(store)
    last = history.last(_STEP)
    assert last is not None
    assert last.key == old
    assert history.has_had(_STEP, new)
    forget(store.backend, {new})
    assert not History(store).has_had(_STEP, new)
    assert History(store).last(_STEP) == last


def test_a_build_that_was_killed_before_the_record_leaves_nothing_wrong(store: Store) -> None:
    remember(store, _STEP, action_key("compile", number=1))
    assert History(store).last(_STEP) is None


def test_the_results_of_an_upstream_are_found(tmp_path: Path) -> None:
    release = Store(tmp_path / "release")
    key = _add(release, tmp_path, 1)
    own = Store(tmp_path / "own", Policy(upstream=(release.root, tmp_path / "missing")))
    last = History(own).last(_STEP)
    assert last is not None
    assert last.key == key
    assert not (own.root / "steps").exists()


def test_one_listing_finds_all(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        _add(store, tmp_path, number)
    listed: list[str] = []
    original = store.backend.list

    def list_and_tell(prefix: str) -> Iterator[Entry]:
        listed.append(prefix)
        return original(prefix)

    monkeypatch.setattr(store.backend, "list", list_and_tell)
    history = History(store)
    assert len(list(history.results(_STEP))) == 5
    history.last(_STEP)
    assert listed == ["steps/"]


def test_a_step_remembers_a_result_that_another_has_made(store: Store, tmp_path: Path) -> None:
    key = _add(store, tmp_path, 1)
    record = store.lookup(key)
    assert record is not None
    for _ in range(2):
        remember_use(store, "net/same", record)
    assert History(store).last("net/same") == record
    # A record of an older modelwheel explains nothing.
    bare = store.publish(action_key("bare"), tmp_path / "made-1", {"step": "x"})
    remember_use(store, "net/bare", bare)
    assert History(store).last("net/bare") is None


def test_a_store_that_cannot_be_written_serves_all_the_same(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = store.lookup(_add(store, tmp_path, 1))
    assert record is not None
    tried: list[str] = []

    def refuse(name: str, content: bytes) -> bool:  # noqa: ARG001
        tried.append(name)
        raise StoreError("it is read-only")

    monkeypatch.setattr(store.backend, "create", refuse)
    for lineage in ("net/a", "net/b", "net/c"):
        remember_use(store, lineage, record)
    assert len(tried) == 1


def test_a_copy_of_a_store_has_the_history_in_its_order(store: Store, tmp_path: Path) -> None:
    keys = [_add(store, tmp_path, number) for number in (3, 1, 2)]
    copied = Store(tmp_path / "copy")
    copy_store(store, copied)
    assert [record.key for record in History(copied).results(_STEP)] == [keys[0], keys[2], keys[1]]


def test_a_collection_forgets_what_it_removes(store: Store, tmp_path: Path) -> None:
    old, new = (_add(store, tmp_path, number) for number in (1, 2))
    os.utime(store.record_path(old), (0, 0))
    collect_garbage(store, 24 * 3600)
    history = History(Store(store.root))
    assert (history.has_had(_STEP, old), history.has_had(_STEP, new)) == (False, True)
