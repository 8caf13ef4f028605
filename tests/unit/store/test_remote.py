"""Stores of several machines in one object store: each machine has a directory of its own for copies."""

from __future__ import annotations

import gzip
import os
import pickle
import time
import uuid
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from modelwheel.errors import StoreError, UsageError
from modelwheel.store.backends.base import Entry
from modelwheel.store.backends.objects import ObjectBackend
from modelwheel.store.history import History, remember
from modelwheel.store.keys import action_key
from modelwheel.store.layers import Policy
from modelwheel.store.names import PACKS, blob_name, pack_name, record_name
from modelwheel.store.objects import copies, remote
from modelwheel.store.objects.eviction import CacheLimit
from modelwheel.store.opening import open_store
from modelwheel.store.signatures import KEY_VARIABLE, Signer, find_signer
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage
from modelwheel.store.upkeep.whole import copy_store
from tests.support.stores import CONTENT, KEY, Machine, make


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """The file of a private key that this process signs with, and the public key."""
    private = Ed25519PrivateKey.generate()
    path = tmp_path / "store.key"
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    monkeypatch.setenv(KEY_VARIABLE, str(path))
    return path, Signer(private).public_key


def fill(store: Store, directory: Path, count: int) -> list[str]:
    """Publishes records that have one content."""
    keys = [action_key("test", number=number) for number in range(count)]
    make(directory, {"file": b"content"})
    for key in keys:
        store.publish(key, directory, {"step": "test"})
    return keys


def test_machines_share_results(machine: Machine, tmp_path: Path) -> None:
    large = os.urandom(remote._LARGE + 1000)
    record = machine("a").publish(KEY, make(tmp_path / "out", {**CONTENT, "large": large}))
    other = machine("b")
    assert other.lookup(KEY) == other.peek(KEY) == record
    other.materialize(record, tmp_path / "copy", link=True)
    assert (tmp_path / "copy" / "large").read_bytes() == large
    assert {name: other.read_bytes(record, name) for name in CONTENT} == CONTENT
    assert other.path(record, "large").is_relative_to(tmp_path / "b")


def test_a_lookup_downloads_no_content(machine: Machine, tmp_path: Path, asked: list[str]) -> None:
    machine("a").publish(KEY, make(tmp_path / "out"))
    asked.clear()
    assert machine("b").lookup(KEY) is not None
    # Whether it is there, and what it says; on the same machine, the first alone.
    assert [line.split()[:2] for line in asked] == [["read", record_name(KEY)]] * 2
    asked.clear()
    assert machine("b").lookup(KEY) is not None
    assert len(asked) == 1


def test_many_lookups_need_one_listing(
    machine: Machine, tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = fill(machine("a"), tmp_path / "out", 20)
    monkeypatch.setattr(copies, "_LISTED_AFTER", 4)
    monkeypatch.setattr(copies, "_PACKED_AFTER", 8)

    def questions(name: str) -> list[str]:
        asked.clear()
        store = machine(name)
        assert all(store.lookup(key) for key in keys)
        return [" ".join(line.split()[:2]) for line in asked]

    warm = questions("a")
    assert warm.count("list actions/") == 1
    assert len(warm) == 1 + 4
    cold = questions("b")
    assert cold.count("list actions/") == 1
    assert sum(line.startswith("create packs/") for line in cold) == 2
    # The next machine reads what that one has packed.
    packed = questions("c")
    assert sum(line.startswith("read packs/") for line in packed) == 2
    assert len(packed) == 2 * 4 + 1 + 1 + 2
    assert not any("blobs/" in line for line in warm + cold + packed)


def _packs(store: Store) -> list[Entry]:
    return list(store.backend.list(PACKS))


def _packed(store: Store) -> int:
    return sum(
        gzip.decompress(store.backend.read(one.name)).count(b"\n") + 1 for one in _packs(store)
    )


@pytest.mark.parametrize("filled_by", ["build", "copy", "collection"])
def test_the_first_machine_reads_packs(
    filled_by: str,
    machine: Machine,
    tmp_path: Path,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    maker = Store(tmp_path / "directory") if filled_by == "copy" else machine("a")
    keys = fill(maker, tmp_path / "out", 20)
    monkeypatch.setattr(copies, "_LISTED_AFTER", 4)
    if filled_by == "build":
        maker.close()
    elif filled_by == "copy":
        copy_store(maker, machine("b"))
    else:
        collect_garbage(maker, 3600.0)
    asked.clear()
    first = machine("c")
    assert all(first.peek(key) for key in keys)
    # Some that are asked for alone, a listing of records and one of packs, and the pack.
    assert sum(line.startswith("read actions/") for line in asked) == 2 * 4
    assert len(asked) == 2 * 4 + 1 + 1 + 1
    assert _packed(first) == 20


def test_a_collection_leaves_one_pack_of_what_is_there(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_LISTED_AFTER", 4)
    monkeypatch.setattr(copies, "_PACKED_AFTER", 5)
    store = machine("a")
    keys = fill(store, tmp_path / "out", 20)
    assert len(_packs(store)) == 4
    for key in keys[8:]:
        store.backend.remove(record_name(key))
    collect_garbage(store, 3600.0, dry_run=True)
    assert len(_packs(store)) == 4
    collect_garbage(store, 3600.0)
    assert (len(_packs(store)), _packed(store)) == (1, 8)


def test_many_packs_become_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_PACKED_AFTER", 2)
    monkeypatch.setattr(copies, "_MAX_PACKS", 3)
    backend = machine().backend
    packs = copies.Packs(backend, writable=True)
    held = {f"{number}": (f"tag{number}", b"record %d" % number) for number in range(11)}
    for key, (tag, record) in held.items():
        assert packs.get(key, tag) is None
        packs.add(key, tag, record)
    assert len(list(backend.list("packs/"))) == 2
    other = copies.Packs(backend, writable=False)
    assert [key for key, (tag, record) in held.items() if other.get(key, tag) == record] == [
        str(number) for number in range(10)
    ]
    assert other.get("1", "another tag") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\x1f\x8b\x08", gzip.compress(b'[1]\n{"key": 1}')],
    # The time is in what gzip writes, and tests of one name are in every process.
    ids=["empty", "beginning", "lines"],
)
def test_damaged_packs_are_ignored(machine: Machine, content: bytes) -> None:
    backend = machine().backend
    backend.write(pack_name("0" * 64), gzip.compress(b'{"key": "1", "tag": "t", "record": "r"}'))
    backend.write(pack_name(sha256(content).hexdigest()), content)
    assert copies.Packs(backend, writable=False).get("1", "t") is None


def test_what_others_publish_after_the_listing_is_found(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_LISTED_AFTER", 0)
    store = machine("a")
    assert store.lookup(KEY) is None
    record = machine("b").publish(KEY, make(tmp_path / "out"))
    assert store.peek(KEY) is None  # a plan is of one moment
    assert store.lookup(KEY) == record


def test_the_first_result_stays(machine: Machine, tmp_path: Path) -> None:
    first = machine("a").publish(KEY, make(tmp_path / "one", {"file": b"one"}))
    second = machine("b").publish(KEY, make(tmp_path / "two", {"file": b"two"}))
    assert first == second == machine("c").lookup(KEY)
    assert machine("b").read_bytes(second, "file") == b"one"


@pytest.mark.parametrize("damage", [b"", b"\x7fELF" * 999 + b"evil"])
def test_a_damaged_content_is_a_miss_once_it_was_read(
    machine: Machine, tmp_path: Path, damage: bytes
) -> None:
    store = machine("a")
    record = store.publish(KEY, make(tmp_path / "out"))
    name = blob_name(record.files["objects/a.o"].sha256)
    store.backend.write(name, damage)
    other = machine("b")
    assert other.lookup(KEY) == record
    with pytest.raises(StoreError, match="run the command again"):
        other.read_bytes(record, "objects/a.o")
    assert other.lookup(KEY) is None
    again = other.publish(KEY, make(tmp_path / "out"))
    assert machine("c").read_bytes(again, "objects/a.o") == CONTENT["objects/a.o"]
    assert list(tmp_path.glob("*/remote/*/partial/*")) == []


def test_a_damaged_record_is_replaced(machine: Machine, tmp_path: Path) -> None:
    store = machine("a")
    store.backend.write(record_name(KEY), b'{"version": 1')
    record = store.publish(KEY, make(tmp_path / "out"))
    assert machine("b").lookup(KEY) == record


def test_a_large_download_goes_on_in_the_next_process(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = os.urandom(3 * remote._LARGE)
    record = machine("a").publish(KEY, make(tmp_path / "out", {"large": large}))
    parts: list[int] = []
    real = ObjectBackend._part

    def part(self: ObjectBackend, name: str, start: int, end: int, size: int) -> bytes:
        if len(parts) == 1:
            parts.append(start)
            raise StoreError("the network is gone")
        parts.append(start)
        return real(self, name, start, end, size)

    monkeypatch.setattr(ObjectBackend, "_part", part)
    with pytest.raises(StoreError, match="the network is gone"):
        machine("b").read_bytes(record, "large")
    assert machine("b").read_bytes(record, "large") == large
    assert parts == [0, remote._LARGE, remote._LARGE, 2 * remote._LARGE]


def test_a_damaged_beginning_is_downloaded_again(machine: Machine, tmp_path: Path) -> None:
    large = os.urandom(2 * remote._LARGE)
    record = machine("a").publish(KEY, make(tmp_path / "out", {"large": large}))
    store = machine("b")
    partial = store._own.root / "partial"
    make(partial, {record.files["large"].sha256: bytes(remote._LARGE)})
    assert store.read_bytes(record, "large") == large
    assert [path.name[2:] for path in partial.iterdir()] == [".lock"]


def test_a_pull_request_reads_a_release_and_never_writes_it(
    machine: Machine,
    tmp_path: Path,
    server: str,
    asked: list[str],
    key: tuple[Path, str],
) -> None:
    _, public = key
    release = f"{server}/{uuid.uuid4().hex}"
    signing = machine("release", Policy((public,), (release,), find_signer([public])), release)
    assert signing.upstream == []
    unsigned, missing = action_key("test", n=2), action_key("test", n=3)
    signed = signing.publish(KEY, make(tmp_path / "out"))
    machine("attacker", address=release).publish(unsigned, make(tmp_path / "evil"))
    asked.clear()
    for store in (
        open_store(tmp_path / "own", Policy((public,), (release,))),
        machine("pull", Policy((public,), (release,))),
    ):
        assert store.lookup(KEY) == signed
        assert store.read_bytes(signed, "objects/a.o") == CONTENT["objects/a.o"]
        assert store.lookup(unsigned) is store.lookup(missing) is None
        with store.lock(missing):
            store.publish(missing, make(tmp_path / "new"))
    of_release = [line.split()[0] for line in asked if line.endswith(release)]
    assert of_release
    assert set(of_release) <= {"read", "list"}


@pytest.mark.usefixtures("server")
def test_an_upstream_that_cannot_be_read_is_asked_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path / "own", Policy(upstream=("s3://no-such-bucket/x",)))
    for number in range(3):
        assert store.lookup(action_key("test", n=number)) is None
    assert caplog.text.count("there is no such bucket") == 1


def test_copies_stay_below_the_limit(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "remote"
    blobs = directory / "1234" / "blobs"
    now = time.time()
    for number, age in enumerate([9000, 8000, 7000, 5]):
        sha256 = f"{number}" * 64
        path = make(blobs / sha256[:2], {sha256: bytes(100)}) / sha256
        os.utime(path, (now - age, now - 99999))
    partial = make(directory / "1234" / "partial", {"old": b"", "new": b"", "00.lock": b""})
    for name in ("old", "00.lock"):
        os.utime(partial / name, (0, 0))
    limit = CacheLimit(directory, 310)
    assert limit.trim() == 200
    assert sorted(path.name[0] for path in blobs.glob("*/*")) == ["2", "3"]
    assert sorted(path.name for path in partial.iterdir()) == ["00.lock", "new"]
    assert CacheLimit(directory, 10).trim() == 100  # a step may be reading the last one
    assert limit.trim() == 0


def test_a_download_removes_copies_that_are_not_used(
    machine: Machine, url: str, tmp_path: Path
) -> None:
    record = machine("a").publish(KEY, make(tmp_path / "out"))
    old = tmp_path / "b" / "remote" / "1234" / "blobs" / "00"
    make(old, {"0" * 64: bytes(100)})
    os.utime(old / ("0" * 64), (0, 0))
    small = open_store(url, cache=tmp_path / "b", cache_bytes=10)
    assert small.read_bytes(record, "objects/a.o") == CONTENT["objects/a.o"]
    assert list(old.iterdir()) == []


def test_a_store_is_pickled_without_its_key(
    machine: Machine,
    tmp_path: Path,
    key: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, public = key
    store = machine("a", Policy((public,), (), find_signer([public])))
    record = store.publish(KEY, make(tmp_path / "out"))
    pickled = pickle.dumps(store)
    secret = path.read_bytes().splitlines()[1]
    assert secret not in pickled
    other = pickle.loads(pickled)
    assert other.address == store.address
    assert other.lookup(KEY) == record
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(UsageError, match=f"set {KEY_VARIABLE} here, too"):
        pickle.loads(pickled)


def test_a_store_without_a_directory_of_copies_finds_one_where_it_is_opened(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODELWHEEL_CACHE_DIR", str(tmp_path / "here"))
    pickled = pickle.dumps(open_store(url))
    monkeypatch.setenv("MODELWHEEL_CACHE_DIR", str(tmp_path / "there"))
    assert pickle.loads(pickled).root == tmp_path / "there"


@pytest.mark.parametrize("listed_after", [0, 99])
def test_records_in_use_are_made_young(
    machine: Machine,
    tmp_path: Path,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    listed_after: int,
) -> None:
    monkeypatch.setattr(copies, "_LISTED_AFTER", listed_after)
    machine("a").publish(KEY, make(tmp_path / "out"))
    monkeypatch.setattr(remote, "TOUCHED_SECONDS", -10.0)
    asked.clear()
    store = machine("b")
    assert store.lookup(KEY)
    background = store._own._background  # type: ignore[union-attr]
    assert background is not None
    background.shutdown()
    assert any(line.startswith(f"write {record_name(KEY)}") for line in asked)
    assert machine("c").lookup(KEY) is not None


# --- earlier results of steps ---------------------------------------------------------------------


def test_other_machines_find_the_earlier_results_of_a_step_by_one_listing(
    machine: Machine, url: str, tmp_path: Path, asked: list[str]
) -> None:
    first = machine("a")
    for number in range(3):
        result = action_key("compile", number=number)
        remember(first, "net/x", result)
        first.publish(result, make(tmp_path / str(number)), {"inputs": {"number": number}})
    # In its own store, and in one that it reads.
    for store in (machine("b"), Store(tmp_path / "c", Policy(upstream=(url,)))):
        asked.clear()
        history = History(store)
        assert len({record.key for record in history.results("net/x")}) == 3
        assert history.last("net/y") is None
        assert len([one for one in asked if one.startswith("list steps/")]) == 1
