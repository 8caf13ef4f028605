"""Addresses on the command line of `modelwheel new`: what they name now becomes a pin."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from modelwheel.errors import SourceError
from modelwheel.source.download import tell_nobody
from modelwheel.source.unpinned import PinnedModel, pin_address
from modelwheel.spec.sources import addresses
from modelwheel.store.store import Store
from tests.support.file_host import FileHost, serve_files
from tests.support.lfs_host import bare_copy, serve_git
from tests.support.repositories import Repository, isolate_git
from tests.support.sources import MODEL, onnx_with_weights, read
from tests.unit.source.test_archive import tar_gz

ONNX = onnx_with_weights("m.onnx.data")


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileHost]:
    # Loopback has no certificate.
    monkeypatch.setattr(addresses, "_DOWNLOADED", ("https", "http", "file", "s3", "gs"))
    with serve_files() as host:
        host.files |= {"/a/m.onnx": ONNX, "/a/m.onnx.data": b"weights", "/m.tar.gz": tar_gz()}
        yield host


def pin(address: str, store: Store) -> PinnedModel:
    return pin_address(address, store, tell_nobody)


def test_a_file_and_its_weights_are_pinned(host: FileHost, store: Store) -> None:
    pinned = pin(f"{host.url}/a/m.onnx", store)
    assert pinned.fields == {
        "file": f"{host.url}/a/m.onnx",
        "sha256": digest(ONNX),
        "beside": {"m.onnx.data": digest(b"weights")},
    }
    assert read(pinned.fetched.directory) == {"m.onnx": ONNX, "m.onnx.data": b"weights"}
    assert host.paths() == ["/a/m.onnx", "/a/m.onnx.data"]


def test_what_is_in_an_archive_is_pinned(host: FileHost, store: Store) -> None:
    pinned = pin(f"{host.url}/m.tar.gz#pack/model", store)
    given = {"archive": f"{host.url}/m.tar.gz", "sha256": digest(tar_gz()), "path": "pack/model"}
    assert pinned.fields == given
    assert read(pinned.fetched.directory) == MODEL


def test_a_revision_of_hugging_face_is_pinned(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    repository = Repository(tmp_path / "repository")
    first = repository.commit({"onnx/m.onnx": b"first"})
    repository.git("tag", "--annotate", "--message=x", "v1")
    second = repository.commit({"onnx/m.onnx": b"second"})
    with serve_git(tmp_path / "hosted") as host:
        bare_copy(repository, host.root / "owner" / "name")
        monkeypatch.setenv("HF_ENDPOINT", host.url)
        for revision, commit, content in [
            ("", second, b"second"),
            ("@main", second, b"second"),
            ("@v1", first, b"first"),
            (f"@{first}", first, b"first"),
        ]:
            pinned = pin(f"hf://owner/name{revision}/onnx/m.onnx", store)
            given = {"huggingface": "owner/name", "commit": commit, "path": "onnx/m.onnx"}
            assert pinned.fields == given
            assert read(pinned.fetched.directory) == {"m.onnx": content}
        with pytest.raises(SourceError, match="has no branch or tag 'v2'"):
            pin("hf://owner/name@v2/onnx/m.onnx", store)


@pytest.mark.parametrize(
    "address", ["ftp://example.org/m.onnx", "https://example.org/", "hf://name", "hf://../x/m.onnx"]
)
def test_other_addresses(address: str, store: Store) -> None:
    with pytest.raises(SourceError) as caught:
        pin(address, store)
    assert "\n" not in str(caught.value)
