"""Whose records count: signatures, trusted keys, and the stores of others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from modelwheel.errors import UsageError
from modelwheel.store.keys import digest
from modelwheel.store.layers import Policy
from modelwheel.store.signatures import KEY_VARIABLE, Signer, find_signer
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage
from tests.support.stores import CONTENT, KEY, blob_file, make, record_file
from tests.support.users import ordinary_user, public_path  # noqa: F401

RELEASE = Signer(Ed25519PrivateKey.generate())
STRANGER = Signer(Ed25519PrivateKey.generate())

READS = Policy((RELEASE.public_key,))
SIGNS = replace(READS, signer=RELEASE)


def reader(tmp_path: Path, policy: Policy = READS) -> Store:
    """A store of a pull request: empty, with the release's store as its upstream."""
    return Store(tmp_path / "pull-request", replace(policy, upstream=(tmp_path / "release",)))


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Store]:
    """The store of a release, which signs."""
    store = Store(tmp_path / "release", SIGNS)
    yield store
    store.close()


def rewrite(store: Store, **changes: Any) -> None:
    """Changes a record as somebody who can write files: its digest fits, its signature is copied."""
    body = json.loads(record_file(store).read_text())
    signature = body.pop("signature", None)
    del body["digest"]
    body |= changes
    whole = {**body, "digest": digest(body)}
    if signature is not None:
        whole["signature"] = signature
    record_file(store).write_text(json.dumps(whole))


def test_a_signed_record_counts_everywhere(release: Store, tmp_path: Path) -> None:
    record = release.publish(KEY, make(tmp_path / "made"), {"step": "x"})
    assert release.lookup(KEY) == record
    assert release.peek(KEY) == record
    store = reader(tmp_path)
    assert store.peek(KEY) == store.lookup(KEY) == record
    assert {name: store.read_bytes(record, name) for name in record.files} == CONTENT
    assert store.path(record, "empty") == blob_file(release, record, "empty")
    assert store.blob(record.files["empty"].sha256) == blob_file(release, record, "empty")
    store.materialize(record, tmp_path / "out", link=True)
    out = tmp_path / "out" / "objects" / "a.o"
    assert out.read_bytes() == CONTENT["objects/a.o"]
    # A hard link would let this job write to the release's blob.
    assert out.stat().st_nlink == 1
    # Without keys, and without knowing about them: as every store that this user can read.
    assert Store(tmp_path / "release").lookup(KEY) == record


def test_a_forged_record_counts_without_a_key_only(release: Store, tmp_path: Path) -> None:
    """What the digest cannot prevent, and the signature does."""
    record = release.publish(KEY, make(tmp_path / "made", {"a": b"good", "b": b"evil"}))
    rewrite(release, files={"a": {"sha256": record.files["b"].sha256, "size": 4}})
    trusting = reader(tmp_path, Policy())
    found = trusting.lookup(KEY)
    assert found is not None
    assert trusting.read_bytes(found, "a") == b"evil"
    assert reader(tmp_path).peek(KEY) is None
    assert reader(tmp_path).lookup(KEY) is None
    assert record_file(release).exists()  # a reader removes nothing
    assert release.lookup(KEY) is None


@pytest.mark.parametrize("changes", [{"note": {"x": 1}}, {"key": "0" * 64}, {"version": 2}])
def test_every_field_is_signed(release: Store, tmp_path: Path, changes: dict[str, Any]) -> None:
    release.publish(KEY, make(tmp_path / "made"))
    rewrite(release, **changes)
    assert reader(tmp_path).lookup(KEY) is None


def test_no_flipped_byte_of_a_signed_record_changes_what_it_says(
    release: Store, tmp_path: Path
) -> None:
    record = release.publish(KEY, make(tmp_path / "made", {"a": b"a"}), {"step": "x"})
    content = record_file(release).read_bytes()
    store = reader(tmp_path)
    for position in range(0, len(content), 3):
        changed = bytearray(content)
        changed[position] ^= 1
        record_file(release).write_bytes(changed)
        assert store.peek(KEY) in (None, record)


def test_a_signature_belongs_to_one_record(release: Store, tmp_path: Path) -> None:
    release.publish(KEY, make(tmp_path / "made"))
    other = "0" * 64
    record_file(release, other).parent.mkdir(parents=True)
    shutil.copy(record_file(release), record_file(release, other))
    assert reader(tmp_path).lookup(other) is None


@pytest.mark.parametrize("signature", [None, 1, "x", {}, {"key": RELEASE.public_key}, [], True])
def test_what_is_not_a_signature(release: Store, tmp_path: Path, signature: object) -> None:
    release.publish(KEY, make(tmp_path / "made"))
    body = json.loads(record_file(release).read_text())
    record_file(release).write_text(json.dumps({**body, "signature": signature}))
    assert reader(tmp_path).lookup(KEY) is None


@pytest.mark.parametrize("value", ["", "!", "AAAA", "A" * 88])
def test_a_wrong_signature(release: Store, tmp_path: Path, value: str) -> None:
    release.publish(KEY, make(tmp_path / "made"))
    body = json.loads(record_file(release).read_text())
    body["signature"]["value"] = value
    record_file(release).write_text(json.dumps(body))
    assert reader(tmp_path).lookup(KEY) is None


@pytest.mark.parametrize("writer", [Policy(), Policy((STRANGER.public_key,), signer=STRANGER)])
def test_the_record_of_an_untrusted_writer_is_a_miss(
    release: Store, tmp_path: Path, writer: Policy, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one who pretends to be the trusted writer."""
    Store(release.root, writer).publish(KEY, make(tmp_path / "made"))
    assert reader(tmp_path).lookup(KEY) is None
    assert re.search("it is not signed|a key that is not trusted", caplog.text)
    if writer.signer is not None:
        body = json.loads(record_file(release).read_text())
        body["signature"]["key"] = RELEASE.public_key
        record_file(release).write_text(json.dumps(body))
        assert reader(tmp_path).lookup(KEY) is None
        assert "its signature is wrong" in caplog.text
    # Who signs does the work again, and its record replaces the other one.
    assert release.lookup(KEY) is None
    assert release.publish(KEY, tmp_path / "made") == reader(tmp_path).lookup(KEY)


def test_a_signer_trusts_no_unsigned_record_of_its_own(release: Store, tmp_path: Path) -> None:
    """Else a pull request that shares its directory would have its results signed."""
    Store(release.root, READS).publish(KEY, make(tmp_path / "made"))
    assert Store(release.root, READS).lookup(KEY) is not None
    assert release.peek(KEY) is None
    assert release.lookup(KEY) is None


def test_a_key_can_be_replaced(release: Store, tmp_path: Path) -> None:
    record = release.publish(KEY, make(tmp_path / "made"))
    both = Policy((RELEASE.public_key, STRANGER.public_key), signer=STRANGER)
    assert Store(release.root, both).lookup(KEY) == record


# What a reader leaves alone


def snapshot(root: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(path): (
            path.read_bytes() if path.is_file() else b"",
            status.st_mtime_ns,
            status.st_nlink,
        )
        for path in sorted([root, *root.rglob("*")])
        for status in [path.stat()]
    }


def test_a_pull_request_never_writes_the_upstream(release: Store, tmp_path: Path) -> None:
    """As root, whom no permission stops: not even times of use change."""
    release.publish(KEY, make(tmp_path / "made"))
    release.close()
    damaged = "1" * 64
    record_file(release, damaged).parent.mkdir(parents=True, exist_ok=True)
    record_file(release, damaged).write_text("{")
    before = snapshot(release.root)
    store = reader(tmp_path)
    record = store.lookup(KEY)
    assert record is not None
    assert store.lookup(damaged) is None
    store.materialize(record, tmp_path / "out", link=True)
    with store.lock(KEY):
        store.publish("2" * 64, tmp_path / "made")
    collect_garbage(store, unused_seconds=0)
    store.close()
    assert snapshot(release.root) == before
    assert store.lookup(KEY) == record


def test_the_own_directory_comes_first_and_holds_what_is_made(
    release: Store, tmp_path: Path
) -> None:
    release.publish(KEY, make(tmp_path / "made", {"a": b"release"}))
    store = reader(tmp_path)
    own = store.publish(KEY, make(tmp_path / "other", {"a": b"own"}))
    assert store.lookup(KEY) == own
    assert store.read_bytes(own, "a") == b"own"


def test_an_upstream_that_is_not_there_is_empty(tmp_path: Path) -> None:
    store = reader(tmp_path)
    assert store.peek(KEY) is store.lookup(KEY) is None
    assert store.publish(KEY, make(tmp_path / "made")) == store.lookup(KEY)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permissions of this kind")
def test_an_upstream_that_cannot_be_read_stops_nothing(
    public_path: Path,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    Store(public_path / "release", SIGNS).publish(KEY, make(public_path / "made"))
    for part in ("actions", "blobs"):
        (public_path / "release" / part).chmod(0)
    with ordinary_user():
        store = reader(public_path)
        assert store.peek(KEY) is store.lookup(KEY) is None
        assert store.blob("0" * 64) is None
        store.close()
    assert caplog.text.count("going on without it") == 1


def test_a_damaged_upstream_is_a_miss(release: Store, tmp_path: Path) -> None:
    record = release.publish(KEY, make(tmp_path / "made"))
    blob = blob_file(release, record, "objects/a.o")
    blob.chmod(0o644)
    blob.write_bytes(bytes(record.files["objects/a.o"].size))
    store = reader(tmp_path)
    assert store.peek(KEY) == record  # by sizes
    assert store.lookup(KEY) is None
    assert blob.exists()


def test_a_store_is_not_its_own_upstream(release: Store, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(release.root, target_is_directory=True)
    policy = replace(SIGNS, upstream=(tmp_path / "link", release.root, tmp_path / "other"))
    assert Store(release.root, policy).upstream == [tmp_path / "other"]


def test_writers_of_every_kind_at_once(release: Store, tmp_path: Path) -> None:
    """Signed and unsigned records of one key replace each other, and no reader sees a mixture."""
    made = make(tmp_path / "made", {"a": b"a"})
    record = release.publish(KEY, made)
    stop = threading.Event()

    def write(policy: Policy) -> None:
        store = Store(release.root, policy)
        while not stop.is_set():
            store.publish(KEY, made)
        store.close()

    policies = [SIGNS, Policy(), Policy((STRANGER.public_key,), signer=STRANGER)]
    threads = [threading.Thread(target=write, args=[policy]) for policy in policies]
    for thread in threads:
        thread.start()
    try:
        found = [reader(tmp_path).lookup(KEY) for _ in range(100)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert all(each in (None, record) for each in found)


# Keys


def pem(private: Any, encryption: KeySerializationEncryption | None = None) -> bytes:
    content = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    assert isinstance(content, bytes)
    return content


def write_key(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_the_environment_names_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert find_signer([]) is None
    private = Ed25519PrivateKey.generate()
    monkeypatch.setenv(KEY_VARIABLE, str(write_key(tmp_path / "key", pem(private))))
    public = Signer(private).public_key
    signer = find_signer([RELEASE.public_key, public])
    assert signer is not None
    assert signer.public_key == public


def test_every_unusable_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workflow that lost its secret must not go on without signatures."""
    good = pem(Ed25519PrivateKey.generate())
    secret = b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
    rsa = pem(generate_private_key(65537, 2048))
    locked = pem(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"x"))
    files = {
        "": "set but empty",
        str(tmp_path / "missing"): "cannot read .*missing: No such file",
        str(write_key(tmp_path / "empty", b"")): "is not an Ed25519 private key",
        str(write_key(tmp_path / "damaged", secret)): "is not an Ed25519 private key",
        str(write_key(tmp_path / "rsa", rsa)): "openssl genpkey -algorithm ed25519",
        str(write_key(tmp_path / "locked", locked)): "without a password",
        str(write_key(tmp_path / "unknown", good)): "trusted_keys.* in section .store.",
        str(tmp_path): "Is a directory",
    }
    if os.name != "nt":
        files[str(write_key(tmp_path / "open", good, 0o640))] = "other users can read .*chmod 600"
    for named, message in files.items():
        monkeypatch.setenv(KEY_VARIABLE, named)
        if named == str(tmp_path):
            tmp_path.chmod(0o700)
        with pytest.raises(UsageError, match=message) as caught:
            find_signer([RELEASE.public_key])
        assert "c2VjcmV0" not in str(caught.value)


def test_the_commands_of_the_documentation_make_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    page = (Path(__file__).parents[3] / "docs" / "shared-store.md").read_text()
    commands = re.findall(r"^    (openssl .*)$", page, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        out = subprocess.run(
            command.split(), cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout
    public = out.splitlines()[1]
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "store.key"))
    assert find_signer([public]) is not None
