"""Models in object stores: S3 as moto answers, and Google Cloud Storage as its emulators do."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from modelwheel import extras
from modelwheel.errors import EnvironmentProblemError
from modelwheel.source.fetch import fetch
from modelwheel.source.hosts import objects
from modelwheel.spec.sources import ArchiveSource, FileSource
from modelwheel.store.store import Store
from tests.support.file_host import serve_files
from tests.support.sources import MODEL, closed_port, onnx_with_weights, read, refusal
from tests.unit.source.test_archive import tar_gz

CONTENT = onnx_with_weights("m.onnx.data")
WEIGHTS = bytes(range(256)) * 100


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket with a model; the variables say where it is, and who may read it."""
    import boto3

    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="models")
    for name, content in {
        "a/m.onnx": CONTENT,
        "a/m.onnx.data": WEIGHTS,
        "m.tar.gz": tar_gz(),
    }.items():
        client.put_object(Bucket="models", Key=name, Body=content)
    return "s3://models"


def test_a_model_and_its_weights_in_a_bucket(bucket: str, store: Store) -> None:
    told: list[str] = []
    source = FileSource(
        file=f"{bucket}/a/m.onnx", sha256=digest(CONTENT), beside={"m.onnx.data": digest(WEIGHTS)}
    )
    model = fetch(source, store, tell=told.append)
    assert read(model.directory) == {"m.onnx": CONTENT, "m.onnx.data": WEIGHTS}
    assert model.provenance["url"] == "s3://models/a/m.onnx"


def test_an_archive_in_a_bucket(bucket: str, store: Store) -> None:
    source = ArchiveSource(archive=f"{bucket}/m.tar.gz", sha256=digest(tar_gz()), path="pack/model")
    assert read(fetch(source, store).directory) == MODEL


def test_what_goes_wrong_in_a_bucket(
    bucket: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(name: str, pin: str = "0" * 64) -> str:
        message = refusal(FileSource(file=f"{bucket}/{name}", sha256=pin), store)
        assert "canary" not in message
        return message

    assert "there is no such object" in said("none.onnx")
    assert f"expected SHA-256 {'0' * 64}, got {digest(WEIGHTS)}" in said("a/m.onnx.data")
    monkeypatch.setattr(objects, "MAX_MODEL_BYTES", 10)
    monkeypatch.setattr("modelwheel.source.download.MAX_MODEL_BYTES", 10)
    assert "has 25.6 kB, and a model has at most 10 bytes" in said("a/m.onnx.data")


def test_a_store_that_cannot_be_reached(
    bucket: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    message = refusal(FileSource(file=f"{bucket}/m.onnx", sha256="0" * 64), store)
    assert "the host cannot be reached" in message


def test_what_has_to_be_installed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "missing", lambda extra: {"gs": ["gcsfs"]}.get(extra, []))
    source = FileSource(file="gs://models/m.onnx", sha256="0" * 64)
    with pytest.raises(EnvironmentProblemError, match=r"pip install 'modelwheel\[gs\]'"):
        fetch(source, store)


def test_a_bucket_of_google(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with serve_files() as host:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", host.url)
        about = {"name": "a/m.keras", "bucket": "models", "size": str(len(WEIGHTS))}
        host.put_json("/storage/v1/b/models/o/a/m.keras", about)
        host.files["/download/storage/v1/b/models/o/a/m.keras"] = WEIGHTS
        source = FileSource(file="gs://models/a/m.keras", sha256=digest(WEIGHTS))
        assert read(fetch(source, store).directory) == {"m.keras": WEIGHTS}
