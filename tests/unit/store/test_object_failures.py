"""What object stores refuse ends in one sentence with the address, what failed and a fix, and without a secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modelwheel.errors import StoreError
from modelwheel.store.backends.objects import ObjectBackend
from tests.support.file_host import Answer, FileHost, serve_files
from tests.support.object_stores import use_s3
from tests.support.sources import closed_port

NAME = f"blobs/ab/ab{'0' * 62}"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileHost]:
    """A server of S3 that answers as a test says."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with serve_files() as host:
        use_s3(host.url, monkeypatch)
        yield host


def answer(status: int, code: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>canary</Message></Error>"
    return Answer(status, {"Content-Type": "application/xml"}, body.encode())


@contextmanager
def refused(*said: str, code: str) -> Iterator[None]:
    with pytest.raises(StoreError) as raised:
        yield
    message = str(raised.value)
    assert "s3://models/store" in message
    assert all(words in message for words in said)
    assert raised.value.code == code
    assert "canary" not in message
    assert "\n" not in message


def test_what_a_server_refuses(host: FileHost) -> None:
    backend = ObjectBackend("s3://models/store")
    for status, name, said, code in (
        (403, "AccessDenied", "access was refused (AccessDenied); provide credentials", "MW702"),
        (403, "InvalidAccessKeyId", "access was refused (InvalidAccessKeyId)", "MW702"),
        (404, "NoSuchBucket", "there is no such bucket; create it", "MW702"),
        (400, "AuthorizationHeaderMalformed", "(AuthorizationHeaderMalformed)", "MW703"),
        (501, "NotImplemented", "the server answered with an error (NotImplemented)", "MW703"),
    ):
        host.next = [answer(status, name)] * 10
        with refused(f"cannot read {NAME} in", said, code=code):
            backend.read(NAME)


def test_expired_credentials_are_read_again_once(host: FileHost) -> None:
    host.files[f"/models/store/{NAME}"] = b"content"
    host.next = [answer(400, "ExpiredToken")]
    assert ObjectBackend("s3://models/store").read(NAME) == b"content"
    host.next = [answer(400, "ExpiredToken")] * 2
    with refused("the credentials have expired (ExpiredToken); renew them", code="MW702"):
        ObjectBackend("s3://models/store").read(NAME)


def test_a_server_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    use_s3(f"http://127.0.0.1:{closed_port()}", monkeypatch)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with refused("the server cannot be reached", "check the network", code="MW703"):
        ObjectBackend("s3://models/store").read(NAME)


def test_a_public_store_is_read_without_credentials(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    host.files[f"/models/store/{NAME}"] = b"content"
    assert ObjectBackend("s3://models/store").read(NAME) == b"content"
