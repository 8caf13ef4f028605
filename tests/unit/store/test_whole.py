"""Checks and copies of whole stores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelwheel.errors import StoreError
from modelwheel.store import records
from modelwheel.store.history import History, remember
from modelwheel.store.keys import action_key
from modelwheel.store.layers import Policy
from modelwheel.store.records import Record
from modelwheel.store.signatures import Signer
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage
from modelwheel.store.upkeep.statistics import OLDER, take_statistics
from modelwheel.store.upkeep.whole import Damaged, copy_store, verify_store
from tests.support.stores import CONTENT, KEY, blob_file, make, record_file

OTHER = action_key("other")


def fill(store: Store, tmp_path: Path) -> tuple[Record, Record]:
    """Two results, which share a file."""
    first = store.publish(KEY, make(tmp_path / "first"), {"step": "m/compile/1"})
    rest = {"own": b"own", "empty": b""}
    note = {"step": "m/wheel", "kind": "wheel"}
    return first, store.publish(OTHER, make(tmp_path / "second", rest), note)


def overwrite(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def test_a_sound_store(store: Store, tmp_path: Path) -> None:
    first, _ = fill(store, tmp_path)
    said: list[str] = []
    found = verify_store(store, said.append)
    assert (found.results, found.contents, found.bytes) == (2, 4, first.size + 3)
    assert found.damaged == ()
    assert said[-1] == "4 of 4 files, 4 kB of 4 kB"


def test_damage_is_named_and_removed(store: Store, tmp_path: Path) -> None:
    first, second = fill(store, tmp_path)
    changed, cut = blob_file(store, first, "objects/a.o"), blob_file(store, first, "program.json")
    overwrite(changed, b"\x7fELG" * 1000)
    overwrite(cut, b"{")
    gone = blob_file(store, second, "own")
    gone.unlink()
    third = action_key("third")
    store.backend.create(f"actions/{third[:2]}/{third}.json", b"{}")
    found = verify_store(store)
    of_first, names = ("m/compile/1",), {}
    for path in (changed, cut, gone):
        names[path] = path.relative_to(store.root).as_posix()
    other = "its content does not match its name"
    assert set(found.damaged[1:]) == {
        Damaged(names[changed], other, of_first),
        Damaged(names[cut], other, of_first),
        Damaged(names[gone], "it is missing", ("m/wheel",)),
    }
    assert found.damaged[0].file == f"actions/{third[:2]}/{third}.json"
    assert verify_store(store, remove=True).damaged == found.damaged
    assert verify_store(store).damaged == ()
    assert not changed.exists()
    assert not record_file(store).exists()
    assert store.lookup(KEY) is store.lookup(OTHER) is None


def test_a_copy_has_everything_and_goes_on(store: Store, tmp_path: Path) -> None:
    first, second = fill(store, tmp_path)
    remember(store, "m/compile", KEY)
    target = Store(tmp_path / "target")
    done = copy_store(store, target)
    assert (done.results, done.bytes, done.there) == (2, first.size + 3, 0)
    assert History(target).last("m/compile") == first
    assert target.lookup(KEY) == first
    assert target.lookup(OTHER) == second
    again = copy_store(store, target)
    assert (again.results, again.bytes, again.there) == (0, 0, 2)
    # Stopped between contents and record, and with a content that has half its bytes there.
    record_file(target).unlink()
    overwrite(blob_file(target, first, "objects/a.o"), b"\x7fELF")
    rest = copy_store(store, target)
    assert (rest.results, rest.bytes, rest.there) == (1, len(CONTENT["objects/a.o"]), 1)
    assert verify_store(target).damaged == ()
    target.close()


def test_results_of_another_version_are_left_alone_and_copied(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(records, "RECORD_VERSION", records.RECORD_VERSION + 1)
        first, _ = fill(store, tmp_path)
    for path in (store.root / "blobs").glob("*/*"):
        os.utime(path, (1000, 1000))
    assert collect_garbage(store, keep=()).results == 0
    assert verify_store(store, remove=True).damaged == ()
    assert take_statistics(store).unneeded_bytes == 0
    target = Store(tmp_path / "target")
    assert copy_store(store, target).results == 2
    monkeypatch.setattr(records, "RECORD_VERSION", records.RECORD_VERSION + 1)
    for one in (store, target):
        assert verify_store(one).damaged == ()
        one.materialize(first, tmp_path / "out")
    target.close()


def test_damage_is_not_copied(store: Store, tmp_path: Path) -> None:
    first, _ = fill(store, tmp_path)
    overwrite(blob_file(store, first, "program.json"), b"[]")
    target = Store(tmp_path / "target")
    done = copy_store(store, target)
    assert done.results == 1
    assert [one.why for one in done.damaged] == ["its content does not match its name"]
    assert target.peek(KEY) is None
    assert verify_store(target).damaged == ()
    target.close()


def test_a_copy_keeps_signatures(tmp_path: Path) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    signer = Signer(ed25519.Ed25519PrivateKey.generate())
    rules = Policy((signer.public_key,), (), signer)
    with_key, target = Store(tmp_path / "signed", rules), Store(tmp_path / "target")
    record = with_key.publish(KEY, make(tmp_path / "made"))
    copy_store(with_key, target)
    reader = Store(tmp_path / "own", Policy((signer.public_key,), (target.root,)))
    assert reader.lookup(KEY) == record
    for opened in (with_key, target, reader):
        opened.close()


def test_a_full_disk_stops_a_copy_with_one_sentence(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, tmp_path)
    target = Store(tmp_path / "target")

    def refuse(*_: object) -> bool:
        raise StoreError("the disk is full: free some space")

    with monkeypatch.context() as patch:
        patch.setattr(target.backend, "create", refuse)
        with pytest.raises(StoreError, match="the disk is full"):
            copy_store(store, target)
    assert copy_store(store, target).results == 2
    target.close()


def test_statistics(store: Store, tmp_path: Path) -> None:
    first, _ = fill(store, tmp_path)
    found = take_statistics(store)
    assert (found.results, found.contents, found.bytes) == (2, 4, first.size + 3)
    assert {kind: (one.results, one.bytes) for kind, one in found.kinds.items()} == {
        "compile": (1, first.size),
        "wheel": (1, 3),
    }
    assert found.ages["today"].results == 2
    assert found.ages[OLDER].results == 0
    assert (found.running, found.unneeded_bytes, found.damaged) == (1, 0, 0)
    record_file(store).write_bytes(b"{}")
    found = take_statistics(store)
    assert (found.unneeded_bytes, found.damaged) == (first.size, 1)
    # What is damaged is removed by any collection.
    collect_garbage(store, 3600)
    assert take_statistics(store).damaged == 0
