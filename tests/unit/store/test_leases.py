"""A collection leaves what a running build may read."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.errors import StoreError
from modelwheel.store.backends.directory import DirectoryBackend
from modelwheel.store.keys import action_key
from modelwheel.store.leases import LIFETIME_SECONDS, TOLERANCE_SECONDS, Lease, live
from modelwheel.store.scratch import ScratchSpace
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage
from tests.support import stores
from tests.support.stores import KEY, blob_file, make, record_file
from tests.support.waiting import wait_until

HOUR = 3600.0


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Store]:
    """The store as a running build has it."""
    with stores.open_store(tmp_path / "store") as opened:
        yield opened


def lease_files(store: Store) -> list[Path]:
    return sorted((store.root / "leases").glob("*"))


def age(path: Path, seconds: float) -> None:
    """Makes a file older."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def publish_old(store: Store, made: Path, key: str = KEY, hours: float = 48) -> None:
    """Publishes a record that was last used days ago, by a build that has ended."""
    record = store.publish(key, make(made))
    store.lease.release()
    for path in (record_file(store, key), *(blob_file(store, record, n) for n in record.files)):
        age(path, hours * HOUR)


def test_a_lease_lasts_from_the_first_lookup_until_the_end(store: Store, build: Store) -> None:
    assert live(store.backend) == []
    build.peek(KEY)  # `plan` reads nothing that could be missed later
    assert live(store.backend) == []
    before = store.backend.now()
    build.lookup(KEY)
    build.lookup(KEY)
    (holder,) = live(store.backend)
    assert holder.process == os.getpid()
    assert before - 1 <= holder.started <= store.backend.now()
    build.close()
    assert not [*live(store.backend), *lease_files(store)]


def test_a_store_that_is_thrown_away_has_no_lease(store: Store) -> None:
    other = Store(store.root)
    other.lookup(KEY)
    assert len(live(store.backend)) == 1
    del other
    gc.collect()
    wait_until(lambda: live(store.backend) == [])


def test_a_store_that_is_thrown_away_waits_for_nobody(tmp_path: Path) -> None:
    """What the library of an object store does in a thread of its own, others wait for; garbage is collected there too."""
    waited: list[bool] = []

    class Backend(DirectoryBackend):
        def write(self, name: str, content: bytes) -> None:
            super().write(name, content)
            thread = threading.Thread(target=finalizer, daemon=True)
            thread.start()
            thread.join(10)
            waited.append(thread.is_alive())

    store = Store(tmp_path, backend=Backend(tmp_path, ScratchSpace(tmp_path / "tmp")))
    (finalizer,) = (one for one in gc.get_objects() if _finalizes(one, store))
    store.lease.hold()
    assert waited == [False]


def _finalizes(one: object, store: Store) -> bool:
    if type(one) is not weakref.finalize:
        return False
    alive = one.peek()
    return alive is not None and alive[0] is store


def test_a_lease_is_renewed_and_keeps_its_start(store: Store) -> None:
    lease = Lease(store.backend, renewal=0.01)
    lease.hold()
    (path,) = lease_files(store)
    (first,) = live(store.backend)
    wait_until(lambda: json.loads(path.read_bytes())["started"] is not None)
    age(path, 2 * HOUR)
    wait_until(lambda: live(store.backend) == [first])
    lease.release()
    assert lease_files(store) == []


def test_what_a_build_found_stays_until_it_ends(store: Store, build: Store, tmp_path: Path) -> None:
    publish_old(store, tmp_path / "made")
    build.lease.hold()
    record = build.peek(KEY)
    assert record is not None
    done = collect_garbage(store, unused_seconds=HOUR)
    assert (done.results, done.bytes, done.freed) == (1, record.size, 0)
    assert build.lookup(KEY) is None
    build.materialize(record, tmp_path / "out")
    build.close()
    assert collect_garbage(store, unused_seconds=HOUR).freed == record.size
    assert not [*(store.root / "blobs").glob("*/*"), *(store.root / "dropped").glob("*")]


def test_what_builds_used_since_they_started_stays(
    store: Store, build: Store, tmp_path: Path
) -> None:
    publish_old(store, tmp_path / "made")
    assert build.lookup(KEY) is not None
    age(record_file(store), 60)  # also by the clock of another server behind the same name
    done = collect_garbage(store, unused_seconds=0)
    assert (done.results, done.in_use, done.kept) == (0, 1, 1)
    build.close()
    assert collect_garbage(store, unused_seconds=0).results == 1


def test_a_build_that_was_killed_keeps_nothing_for_long(
    store: Store, build: Store, tmp_path: Path
) -> None:
    publish_old(store, tmp_path / "made")
    build.lease.hold()
    (path,) = lease_files(store)
    age(path, LIFETIME_SECONDS)  # late by less than clocks may differ
    assert collect_garbage(store, unused_seconds=HOUR).freed == 0
    age(path, LIFETIME_SECONDS + TOLERANCE_SECONDS + 60)
    assert collect_garbage(store, unused_seconds=HOUR).freed > 0
    assert lease_files(store) == []


def test_a_lease_of_another_version_counts(store: Store, tmp_path: Path) -> None:
    publish_old(store, tmp_path / "made")
    store.backend.write("leases/next.json", b'{"version": 2}')
    assert collect_garbage(store, unused_seconds=HOUR).freed == 0


def test_a_collection_that_was_killed_is_finished_by_the_next(store: Store, tmp_path: Path) -> None:
    publish_old(store, tmp_path / "made")
    record = store.peek(KEY)
    assert record is not None
    blobs = [file.sha256 for file in record.files.values()]
    record_file(store).unlink()
    # It had listed them, and was killed before it could write that its list is complete.
    started = {"complete": False, "blobs": blobs}
    store.backend.write("dropped/killed.json", json.dumps(started).encode())
    assert collect_garbage(store, unused_seconds=HOUR).freed == record.size
    assert list((store.root / "dropped").glob("*")) == []


def test_contents_that_were_stored_again_stay(store: Store, build: Store, tmp_path: Path) -> None:
    publish_old(store, tmp_path / "made")
    with stores.open_store(store.root) as reader:
        reader.lease.hold()
        collect_garbage(store, unused_seconds=HOUR)
    time.sleep(0.02)  # the clock of files has ticks
    other = action_key("other")
    build.publish(other, tmp_path / "made")
    assert collect_garbage(store, unused_seconds=HOUR).freed == 0
    build.close()
    collect_garbage(store, unused_seconds=HOUR)
    assert store.lookup(other) is not None


def test_a_store_that_cannot_be_written_has_no_lease(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish(KEY, make(tmp_path / "made"))
    store.lease.release()

    def refuse(*_: object) -> None:
        raise StoreError("the file system is read-only")

    monkeypatch.setattr(store.backend, "write", refuse)
    assert store.lookup(KEY) is not None
    assert lease_files(store) == []
