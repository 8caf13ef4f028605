"""The store: what goes in comes out, and that damage is a miss, never a wrong answer."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelwheel.errors import StoreError
from modelwheel.store.keys import action_key, digest
from modelwheel.store.store import Store
from tests.support.portability import both_systems
from tests.support.stores import CONTENT, KEY, blob_file, make, open_store, record_file

pytestmark = pytest.mark.usefixtures(both_systems.__name__)


# What goes in comes out


def test_what_was_published_is_found(store: Store, tmp_path: Path) -> None:
    assert store.lookup(KEY) is None
    assert not store.contains(KEY)
    note = {"seconds": 1.5, "shape": (1, 2)}
    record = store.publish(KEY, make(tmp_path / "made"), note)
    assert store.contains(KEY)
    assert store.peek(KEY) == record
    with open_store(store.root) as again:
        assert again.lookup(KEY) == record
    assert record.note == {"seconds": 1.5, "shape": [1, 2]}
    assert record.size == 4002
    assert {name: store.read_bytes(record, name) for name in record.files} == CONTENT
    assert {name: store.path(record, name).read_bytes() for name in record.files} == CONTENT


def test_the_record_is_as_documented(store: Store, tmp_path: Path) -> None:
    record = store.publish(KEY, make(tmp_path / "made", {"a/b": b"abc"}), {"x": 1})
    written = json.loads(record_file(store).read_text())
    del written["digest"]
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    files = {"a/b": {"sha256": sha256, "size": 3}}
    assert written == {"version": 1, "key": KEY, "files": files, "note": {"x": 1}}
    assert blob_file(store, record, "a/b").read_bytes() == b"abc"


def test_blobs_are_shared_and_read_only(store: Store, tmp_path: Path) -> None:
    first = store.publish(KEY, make(tmp_path / "a", {"x": b"same", "y": b"same"}))
    second = store.publish(action_key("other"), make(tmp_path / "b", {"z": b"same"}))
    assert (
        blob_file(store, first, "x")
        == blob_file(store, first, "y")
        == blob_file(store, second, "z")
    )
    assert blob_file(store, first, "x").stat().st_mode & 0o777 == 0o444
    assert len(list((store.root / "blobs").glob("??/*"))) == 1


def test_publishing_twice_is_harmless(store: Store, tmp_path: Path) -> None:
    made = make(tmp_path / "made")
    assert store.publish(KEY, made) == store.publish(KEY, made) == store.lookup(KEY)


def test_only_plain_files_are_published(store: Store, tmp_path: Path) -> None:
    made = make(tmp_path / "made")
    (made / "link").symlink_to(__file__)
    with pytest.raises(StoreError, match="'link' is a symbolic link"):
        store.publish(KEY, made)
    assert store.lookup(KEY) is None


@pytest.mark.parametrize("link", [False, True])
def test_materialize_gives_files_with_their_names(
    store: Store, tmp_path: Path, *, link: bool
) -> None:
    record = store.publish(KEY, make(tmp_path / "made"))
    target = tmp_path / "out"
    (target / "objects").mkdir(parents=True)
    (target / "objects" / "a.o").write_bytes(b"old")
    store.materialize(record, target, link=link)
    found = {path for path in target.rglob("*") if path.is_file()}
    assert {path.relative_to(target).as_posix(): path.read_bytes() for path in found} == CONTENT
    linked = (target / "empty").stat().st_ino == blob_file(store, record, "empty").stat().st_ino
    assert linked == link


def test_materialize_gives_only_what_is_asked_for(store: Store, tmp_path: Path) -> None:
    record = store.publish(KEY, make(tmp_path / "made"))
    store.materialize(record, tmp_path / "out", ["empty"])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["empty"]


# Damage


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    _rewrite(path, bytes(data))


def _truncate(path: Path) -> None:
    _rewrite(path, path.read_bytes()[:-1])


def _remove(path: Path) -> None:
    path.chmod(0o644)
    path.unlink()


def _rewrite(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)
    os.utime(path, (0, 0))


DAMAGE = pytest.mark.parametrize("damage", [_flip, _truncate, _remove])


@DAMAGE
@pytest.mark.parametrize("was_read", [False, True])
def test_a_damaged_blob_is_a_miss(
    store: Store,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: object,
    *,
    was_read: bool,
) -> None:
    made = make(tmp_path / "made")
    record = store.publish(KEY, made)
    if was_read:
        assert store.lookup(KEY) == record
    assert callable(damage)
    damage(blob_file(store, record, "objects/a.o"))
    with caplog.at_level(logging.WARNING):
        assert store.lookup(KEY) is None
    assert "'objects/a.o' is damaged or missing" in caplog.text
    assert not record_file(store).exists()
    # The work is done again, and its result replaces the damaged blob.
    assert store.publish(KEY, made) == store.lookup(KEY) == record
    assert store.read_bytes(record, "objects/a.o") == CONTENT["objects/a.o"]


@DAMAGE
@pytest.mark.parametrize("read", ["read_bytes", "path", "materialize"])
def test_damage_after_the_lookup_is_an_error_and_then_a_miss(
    store: Store, tmp_path: Path, damage: object, read: str
) -> None:
    record = store.publish(KEY, make(tmp_path / "made"))
    assert callable(damage)
    damage(blob_file(store, record, "objects/a.o"))
    argument = tmp_path / "out" if read == "materialize" else "objects/a.o"
    with pytest.raises(StoreError, match="run the command again"):
        getattr(store, read)(record, argument)
    assert not (tmp_path / "out" / "objects" / "a.o").exists()
    assert store.lookup(KEY) is None


def test_contains_judges_by_sizes(store: Store, tmp_path: Path) -> None:
    record = store.publish(KEY, make(tmp_path / "made"))
    _truncate(blob_file(store, record, "objects/a.o"))
    assert not store.contains(KEY)
    _remove(blob_file(store, record, "objects/a.o"))
    assert not store.contains(KEY)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_no_flipped_bit_of_a_record_changes_what_it_says(
    store: Store, tmp_path: Path, data: st.DataObject
) -> None:
    record = store.publish(KEY, make(tmp_path / "made"), {"text": "note", "number": 12})
    content = bytearray(record_file(store).read_bytes())
    position = data.draw(st.integers(0, len(content) * 8 - 1))
    content[position // 8] ^= 1 << position % 8
    record_file(store).write_bytes(content)
    assert store.lookup(KEY) in (None, record)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"version": 1}', "\0" * 50])
def test_a_torn_record_is_a_miss(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    record_file(store).write_text(content)
    assert not store.contains(KEY)
    assert store.lookup(KEY) is None
    assert "damaged" in caplog.text


def forge(store: Store, files: object) -> None:
    """A record with a valid digest, as only somebody who means harm would write it."""
    body = {"version": 1, "key": KEY, "files": files, "note": {}}
    record_file(store).write_text(json.dumps({**body, "digest": digest(body)}))


@pytest.mark.parametrize("name", ["../../escaped", "/escaped", "a/../../b"])
def test_a_forged_name_reaches_nothing_outside(store: Store, tmp_path: Path, name: str) -> None:
    file = store.publish(KEY, make(tmp_path / "made")).files["objects/a.o"]
    forge(store, {"fine": {"sha256": file.sha256, "size": file.size}})
    assert store.lookup(KEY) is not None
    forge(store, {name: {"sha256": file.sha256, "size": file.size}})
    assert store.lookup(KEY) is None


def test_a_forged_hash_reaches_nothing_outside(store: Store, tmp_path: Path) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    (tmp_path / "secret").write_bytes(b"12345")
    sha256 = "../secret"  # <root>/blobs/../../secret
    assert (store.root / "blobs" / sha256[:2] / sha256).exists()
    forge(store, {"x": {"sha256": sha256, "size": 5}})
    assert store.peek(KEY) is None
    forge(store, {"x": {"sha256": sha256, "size": 5, "more": 0}})
    assert store.lookup(KEY) is None
    assert (tmp_path / "secret").exists()


def test_a_record_under_another_key_is_a_miss(store: Store, tmp_path: Path) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    other = action_key("other")
    record_file(store, other).parent.mkdir(parents=True, exist_ok=True)
    record_file(store).rename(record_file(store, other))
    assert store.lookup(other) is None
