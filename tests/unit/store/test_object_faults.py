"""A store in S3 whose network and server fail: each action ends right, or with one sentence."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path

import fsspec
import pytest
import s3fs

from modelwheel.errors import StoreError
from modelwheel.store.backends.objects import ObjectBackend
from modelwheel.store.keys import action_key
from modelwheel.store.leases import live
from modelwheel.store.names import blob_name
from modelwheel.store.opening import open_store
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage
from modelwheel.store.upkeep.statistics import take_statistics
from modelwheel.store.upkeep.whole import copy_store, verify_store
from tests.support.commands import Modelwheel
from tests.support.faulty_proxy import Fault, FaultyProxy, Kind, faulty_proxy
from tests.support.object_stores import serve_objects, use_s3
from tests.support.stores import CONTENT, KEY, make

PASSING: tuple[Kind, ...] = ("error", "slow_down", "timeout", "truncated", "lost", "refused")
"""Faults after which the same request works."""

OTHER = action_key("other")

_prefixes = count()


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[str, FaultyProxy]]:
    """The URL of a bucket, and the proxy before its server."""
    with (
        serve_objects("s3") as bucket,
        faulty_proxy(os.environ["AWS_ENDPOINT_URL"]) as proxy,
    ):
        yield bucket, proxy


@pytest.fixture
def proxy(s3: tuple[str, FaultyProxy], monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """The proxy; this process asks it, and waits shortly between attempts."""
    use_s3(s3[1].address, monkeypatch)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    monkeypatch.setattr("botocore.retryhandler.delay_exponential", lambda **_: 0.01)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 2)
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": {"read_timeout": 0.2}})
    yield s3[1]
    s3[1].heal()
    s3[1].ahead = timedelta(0)


@pytest.fixture
def url(s3: tuple[str, FaultyProxy], proxy: FaultyProxy) -> str:  # noqa: ARG001
    """The address of an empty store, behind the proxy."""
    return f"{s3[0]}/{next(_prefixes)}"


@contextmanager
def opened(url: str, machine: Path) -> Iterator[Store]:
    """The store as a machine has it, with a cache of its own."""
    store = open_store(url, cache=machine)
    try:
        yield store
    finally:
        store.close()


@pytest.mark.parametrize("kind", PASSING)
def test_one_fault_is_passed_over(kind: Kind, url: str, proxy: FaultyProxy, tmp_path: Path) -> None:
    backend = ObjectBackend(url)
    backend.write("leases/a.json", b"content" * 1000)
    proxy.inject(Fault(kind, "GET", "leases/a.json"))
    assert backend.read("leases/a.json") == b"content" * 1000
    proxy.inject(Fault(kind, "GET", "leases/a.json"))
    backend.fetch("leases/a.json", tmp_path / "copy", 7000)
    assert (tmp_path / "copy").read_bytes() == b"content" * 1000
    proxy.inject(Fault(kind, "GET", "list-type"))
    assert [entry.name for entry in backend.list("leases/")] == ["leases/a.json"]
    proxy.inject(Fault(kind, "HEAD"))
    assert backend.stat("leases/a.json") is not None
    proxy.inject(Fault(kind, "PUT"))
    # Where the answer was lost, nobody can say who has created it.
    assert backend.create("blobs/ab/abc", b"new") == (kind != "lost")
    assert not backend.create("blobs/ab/abc", b"other")
    assert backend.read("blobs/ab/abc") == b"new"
    proxy.inject(Fault(kind, "DELETE"))
    backend.remove("blobs/ab/abc")
    assert backend.stat("blobs/ab/abc") is None


@pytest.mark.parametrize("kind", ["error", "timeout", "truncated", "refused", "expired"])
def test_a_fault_that_stays_is_one_sentence(kind: Kind, url: str, proxy: FaultyProxy) -> None:
    backend = ObjectBackend(url)
    backend.write("leases/a.json", b"content" * 1000)
    proxy.inject(Fault(kind, times=1000))
    actions: list[Callable[[], object]] = [
        lambda: backend.read("leases/a.json"),
        lambda: list(backend.list("leases/")),
    ]
    if kind != "truncated":  # the answer to a write has no body
        actions.append(lambda: backend.create("blobs/ab/abc", b"new"))
    for action in actions:
        with pytest.raises(StoreError, match=r"^cannot [^\n]* run the command again") as caught:
            action()
        assert caught.value.code in ("MW702", "MW703")


@pytest.mark.parametrize("kind", PASSING)
def test_every_request_fails_once(kind: Kind, url: str, proxy: FaultyProxy, tmp_path: Path) -> None:
    proxy.inject(Fault(kind, each=True))
    with opened(url, tmp_path / "one") as store, opened(url, tmp_path / "two") as reader:
        record = store.publish(KEY, make(tmp_path / "made"))
        assert reader.lookup(KEY) == record
        reader.materialize(record, tmp_path / "out")
        assert (tmp_path / "out" / "program.json").read_bytes() == CONTENT["program.json"]
        with reader.lock(KEY):
            assert collect_garbage(reader, unused_seconds=30 * 24 * 3600).results == 0
        with opened(f"{url}-copy", tmp_path / "three") as target:
            assert copy_store(reader, target).results == 1
            found = verify_store(target)
            assert (found.results, found.damaged) == (1, ())
    assert any(request.fault for request in proxy.seen)


@pytest.mark.parametrize("kind", ["lost", "slow_down"])
def test_one_of_two_machines_does_a_step(
    kind: Kind, url: str, proxy: FaultyProxy, tmp_path: Path
) -> None:
    proxy.inject(Fault(kind, each=True))
    made = make(tmp_path / "made")
    done: list[str] = []

    def build(machine: str) -> None:
        with opened(url, tmp_path / machine) as store, store.lock(KEY):
            if store.lookup(KEY) is None:
                done.append(machine)
                store.publish(KEY, made)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, ("one", "two")))
    assert len(done) == 1
    with opened(url, tmp_path / "three") as store:
        assert list(store.backend.list("claims/")) == list(store.backend.list("leases/")) == []


def test_credentials_that_expire_in_the_middle(
    url: str, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(url, tmp_path / "one") as store:
        store.publish(KEY, make(tmp_path / "made"))
        proxy.inject(Fault("expired", key_id="Credential=key/", times=1000))
        with pytest.raises(StoreError, match="credentials have expired") as caught:
            store.publish(OTHER, make(tmp_path / "made"))
        assert caught.value.code == "MW702"
        # Whoever renews them, such as a job of CI for hours, need not start the build again.
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "renewed")
        record = store.publish(OTHER, make(tmp_path / "made"))
        assert store.lookup(OTHER) == record


def test_a_listing_that_is_out_of_date_takes_nothing_from_a_build(
    url: str, proxy: FaultyProxy, tmp_path: Path
) -> None:
    with opened(url, tmp_path / "one") as owner, opened(url, tmp_path / "two") as build:
        record = owner.publish(KEY, make(tmp_path / "made"))
        collect_garbage(owner, unused_seconds=3600)
        assert build.lookup(KEY) == record
        # The collection is told that nobody uses the store.
        proxy.inject(Fault("stale", "GET", "list-type.*(leases|actions)", times=1000))
        done = collect_garbage(owner, keep=())
        assert (done.results, done.freed) == (1, 0)
        proxy.heal()
        build.materialize(record, tmp_path / "out")


@pytest.mark.parametrize("minutes", [-25, 25])
def test_contents_go_a_day_after_their_results_by_the_clock_of_the_server(
    minutes: int, url: str, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.ahead = timedelta(minutes=minutes)
    with opened(url, tmp_path / "one") as owner, opened(url, tmp_path / "two") as build:
        record = owner.publish(KEY, make(tmp_path / "made"))
        assert build.lookup(KEY) is not None
        assert collect_garbage(owner, keep=()).in_use == 1
        build.lease.release()
        done = collect_garbage(owner, keep=())
        assert (done.results, done.bytes, done.freed) == (1, record.size, 0)
        assert abs(owner.backend.now() - time.time() - minutes * 60) < 30
        now = owner.backend.now
        monkeypatch.setattr(owner.backend, "now", lambda: now() + 25 * 3600)
        assert collect_garbage(owner, keep=()).freed == record.size
        assert list(owner.backend.list("")) == []


def test_a_copy_goes_on_where_it_stopped(url: str, proxy: FaultyProxy, tmp_path: Path) -> None:
    with opened(url, tmp_path / "one") as source, opened(f"{url}-copy", tmp_path / "two") as target:
        first = source.publish(KEY, make(tmp_path / "made"))
        source.publish(OTHER, make(tmp_path / "other", {"own": b"own"}))
        proxy.inject(Fault("refused", "PUT", "-copy/actions/.*", times=1000))
        with pytest.raises(StoreError, match="the server cannot be reached"):
            copy_store(source, target)
        proxy.heal()
        before = len(proxy.seen)
        done = copy_store(source, target)
        assert (done.results, done.bytes, done.there) == (2, 0, 0)
        assert not [one for one in proxy.seen[before:] if "/blobs/" in one.path]
        assert verify_store(target).damaged == ()
        assert target.lookup(KEY) == first


def test_commands_for_an_object_store(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path / "one") as store:
        store.publish(KEY, make(tmp_path / "made"))
    modelwheel, copied = Modelwheel(tmp_path / "two"), tmp_path / "copied"
    said = modelwheel("cache", "copy", url, copied).out
    assert said == f"copied 1 result, 4 kB, to {copied}; 0 were there\n"
    assert f"4 kB, in {url}" in modelwheel("cache", "verify", "--store", url).out
    with opened(url, tmp_path / "one") as store:
        assert live(store.backend) == []


def test_statistics_of_an_object_store(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path / "one") as store:
        record = store.publish(KEY, make(tmp_path / "made"), {"step": "m/compile/1"})
        found = take_statistics(store)
    assert (found.address, found.results, found.bytes) == (url, 1, record.size)
    assert found.kinds["compile"].results == found.running == 1


def test_damage_in_an_object_store(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path / "one") as store:
        record = store.publish(KEY, make(tmp_path / "made"), {"step": "m/compile/1"})
        name = blob_name(record.files["program.json"].sha256)
        store.backend.write(name, b"[]")
        (damaged,) = verify_store(store, remove=True).damaged
        assert (damaged.file, damaged.results) == (name, ("m/compile/1",))
        assert verify_store(store).results == 0
