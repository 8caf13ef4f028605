"""Downloads: what is verified, what is tried again, and what failures say."""

from __future__ import annotations

import logging
import os
import socket
import time
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest

from modelwheel.source import download
from modelwheel.source.fetch import fetch
from modelwheel.store.store import Store
from tests.support.sources import (
    MODEL,
    Handler,
    archive_source,
    closed_port,
    read,
    refusal,
    serve,
)
from tests.unit.source.test_archive import pinned, tar_gz


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "FIRST_WAIT", 0.01)


class Recording(Handler):
    """Keeps the headers it was sent."""

    seen: dict[str, str]

    def do_GET(self) -> None:  # noqa: N802
        type(self).seen = dict(self.headers)
        super().do_GET()


class Trickling(Handler):
    """Sends a byte now and then."""

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(200)
        self.end_headers()
        try:
            for _ in range(100):
                self.wfile.write(b"x" * (1 << 20))
                time.sleep(0.05)
        except OSError:
            pass


class Failing(Handler):
    """Answers with the status that is its path."""

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(int(self.path.strip("/").partition("?")[0]))
        self.end_headers()


class Cutting(Handler):
    """Hangs up in the middle."""

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 10)


def test_the_archive_is_asked_for_as_it_is(tmp_path: Path, store: Store) -> None:
    (tmp_path / "x").write_bytes(tar_gz())
    with serve(tmp_path, Recording) as address:
        fetch(pinned(f"http://{address}/x", (tmp_path / "x").read_bytes()), store)
    assert Recording.seen["Accept-Encoding"] == "identity"


def test_another_archive_than_the_pinned_one(tmp_path: Path, store: Store) -> None:
    (tmp_path / "x").write_bytes(b"other")
    with serve(tmp_path) as address:
        message = refusal(pinned(f"http://{address}/x", b"pinned"), store)
    expected, got = (sha256(content).hexdigest() for content in (b"pinned", b"other"))
    assert f"expected SHA-256 {expected}, got {got}: the data changed" in message


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "provide credentials"),
        (403, "provide credentials"),
        (404, "correct the URL"),
        (410, "correct the URL"),
        (503, "try again later"),
    ],
)
def test_a_server_that_refuses(tmp_path: Path, store: Store, status: int, remedy: str) -> None:
    with serve(tmp_path, Failing) as address:
        message = refusal(pinned(f"http://{address}/{status}", b""), store)
    assert f"HTTP status {status}; {remedy}" in message


def test_a_host_that_cannot_be_reached_or_hangs_up(tmp_path: Path, store: Store) -> None:
    url = f"http://127.0.0.1:{closed_port()}/x"
    message = refusal(pinned(url, b""), store)
    assert f"cannot download {url}: the host refused the connection; check the URL" in message
    with serve(tmp_path, Cutting) as address:
        message = refusal(pinned(f"http://{address}/x", b""), store)
    assert "the connection was lost" in message


class Recovering(Handler):
    """Is busy, then hangs up in the middle, then answers."""

    answers: list[str]

    def do_GET(self) -> None:  # noqa: N802
        match type(self).answers.pop(0):
            case "busy":
                self.send_response(503)
                self.end_headers()
            case "cut":
                Cutting.do_GET(cast("Cutting", self))
            case _:
                super().do_GET()


def test_a_host_that_recovers_is_asked_again(tmp_path: Path, store: Store) -> None:
    content = tar_gz()
    (tmp_path / "x").write_bytes(content)
    Recovering.answers = ["busy", "cut", "busy", "file"]
    with serve(tmp_path, Recovering) as address:
        assert read(fetch(pinned(f"http://{address}/x", content), store).directory) == MODEL
    assert Recovering.answers == []


def test_a_silent_or_slow_host(tmp_path: Path, store: Store) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        assert "did not answer in time" in refusal(pinned(url, b""), store, timeout=0.3)
    with serve(tmp_path, Trickling) as address:
        message = refusal(pinned(f"http://{address}/x", b""), store, timeout=0.3)
    assert "takes too long (at most 4.29 GB within 0.3 s)" in message


def test_an_endless_download_is_cut_off(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_MODEL_BYTES", 3 << 20)
    with serve(tmp_path, Trickling) as address:
        message = refusal(pinned(f"http://{address}/x", b""), store)
    assert "longer than 3.15 MB" in message


def test_credentials_reach_no_message_log_or_file(
    tmp_path: Path, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "modelwheel")
    message = ""
    with serve(tmp_path, Failing) as address:
        for status in (401, 404, 500, 200):
            url = f"http://canary:canary@{address}/{status}?token=canary"
            message += refusal(pinned(url, b"x"), store)
    url = f"http://canary:canary@127.0.0.1:{closed_port()}/x?canary"
    message += refusal(pinned(url, b""), store)
    message += refusal(pinned("http://canary:canary@host:port/x?canary", b""), store)
    assert "canary" not in message + caplog.text
    assert not any(b"canary" in content for content in read(store.root).values())


def test_a_local_archive_that_is_not_there(tmp_path: Path, store: Store) -> None:
    source = pinned((tmp_path / "nowhere").as_uri(), b"")
    assert f"cannot read {tmp_path / 'nowhere'}: No such file" in refusal(source, store)


def test_the_hash_of_a_local_file_is_not_told(tmp_path: Path, store: Store) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"root:x:0:0")
    message = refusal(archive_source(secret.as_uri(), "0" * 64), store)
    assert "does not have the SHA-256 000" in message
    assert sha256(secret.read_bytes()).hexdigest() not in message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_local_archive_that_is_not_a_file(tmp_path: Path, store: Store) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        message = refusal(archive_source(path.as_uri(), "0" * 64), store)
        assert "is not a regular file; correct the URL" in message
    with (tmp_path / "large").open("wb") as file:
        file.truncate(5 << 30)
    message = refusal(archive_source((tmp_path / "large").as_uri(), "0" * 64), store)
    assert "is larger than 4.29 GB" in message
