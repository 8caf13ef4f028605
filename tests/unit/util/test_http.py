"""Reading over HTTP against a server that fails in given ways."""

from __future__ import annotations

import gzip
import http.server
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
import requests

from modelwheel.util.http import (
    UNCHANGED,
    AnswerError,
    Patience,
    Reader,
    chunks,
    explain,
    read_body,
)

QUICK = Patience(attempts=4, first_wait=0.01, longest_wait=0.05, timeout=5)

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    def send(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in ({"Content_Length": str(len(body))} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return send


def hang_up(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def server(*answers: Answer) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers in turn, repeating the last one, and the paths it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answers[min(len(asked), len(answers)) - 1](self)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}", asked
        finally:
            listening.shutdown()
            thread.join()


def content(response: requests.Response) -> tuple[int, bytes]:
    return response.status_code, response.content


def read(url: str, patience: Patience = QUICK) -> tuple[int, bytes]:
    with Reader(patience) as reader:
        return reader.read(url, content)


def failure(url: str, patience: Patience = QUICK) -> str:
    with pytest.raises(requests.RequestException) as caught:
        read(url, patience)
    return explain(caught.value)


def waits(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The times between attempts, as they were logged."""
    return [str(record.args[2]) for record in caplog.records if isinstance(record.args, tuple)]


def test_a_busy_server_is_asked_again() -> None:
    with server(answer(503), answer(429), answer(200, b"data")) as (url, asked):
        assert read(url) == (200, b"data")
    assert len(asked) == 3


def test_the_last_answer_is_returned_when_the_server_stays_busy() -> None:
    with server(answer(500, b"sorry")) as (url, asked):
        assert read(url) == (500, b"sorry")
    assert len(asked) == QUICK.attempts


@pytest.mark.parametrize("status", [200, 401, 403, 404, 410])
def test_a_final_answer_is_returned_at_once(status: int) -> None:
    with server(answer(status)) as (url, asked):
        assert read(url) == (status, b"")
    assert len(asked) == 1


def test_a_connection_that_breaks_before_or_within_the_answer_is_made_again() -> None:
    broken = answer(200, b"da", Content_Length="4")
    with server(hang_up, broken, answer(200, b"data")) as (url, asked):
        assert read(url) == (200, b"data")
    assert len(asked) == 3


def test_a_connection_that_always_breaks_ends_in_a_reason() -> None:
    with server(answer(200, b"da", Content_Length="4")) as (url, asked):
        assert failure(url) == "the connection was lost"
    assert len(asked) == QUICK.attempts


def test_retry_after_is_obeyed_within_limits(caplog: pytest.LogCaptureFixture) -> None:
    patience = Patience(attempts=2, first_wait=0.01, longest_wait=0.1, timeout=5)
    with server(answer(503, Retry_After="3600"), answer(200)) as (url, asked):
        assert read(url, patience) == (200, b"")
    assert len(asked) == 2
    assert waits(caplog) == ["0.1 s"]


def test_waits() -> None:
    patience = Patience(first_wait=1, longest_wait=100)
    later = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=50))
    assert [patience.wait(attempt) for attempt in (0, 1, 2, 9)] == [1, 2, 4, 100]
    assert patience.wait(0, "30") == 30
    assert 45 < patience.wait(0, later) <= 50
    assert patience.wait(0, "soon") == 1


def test_a_refused_connection_fails_after_few_attempts(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://user:secret@127.0.0.1:{closed.getsockname()[1]}/x?token=secret"
        with caplog.at_level(logging.DEBUG):
            assert failure(url, Patience(99, 0.01)) == "the host refused the connection"
    assert [record.message for record in caplog.records] == [
        "127.0.0.1/x refused the connection; trying again in 10 ms (2 of 3)",
        "127.0.0.1/x refused the connection; trying again in 20 ms (3 of 3)",
    ]


def test_an_unknown_host_fails_after_few_attempts(caplog: pytest.LogCaptureFixture) -> None:
    reason = failure("http://no-such-host.invalid/", Patience(99, 0.01))
    assert reason == "the name of the host is unknown"
    assert waits(caplog) == ["10 ms", "20 ms"]


def test_a_host_that_says_nothing_is_reported() -> None:
    patience = Patience(attempts=2, first_wait=0.01, timeout=0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert failure(f"http://127.0.0.1:{silent.getsockname()[1]}", patience) == (
            "the host did not answer in time"
        )


def test_nothing_that_is_logged_holds_a_credential(caplog: pytest.LogCaptureFixture) -> None:
    with server(answer(503), answer(200, b"da", Content_Length="4"), answer(200)) as (url, _):
        secret = url.replace("://", "://user:secret@") + "/x?token=secret"
        with caplog.at_level(logging.DEBUG):
            assert read(secret) == (200, b"")
    assert len(caplog.records) == 2
    assert "secret" not in caplog.text


def test_files_come_as_they_are_stored() -> None:
    seen = []

    def note(handler: http.server.BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["Accept-Encoding"])
        answer(200)(handler)

    with server(note) as (url, _):
        read(url)
    assert seen == [UNCHANGED["Accept-Encoding"]]


def test_redirections_stay_within_the_host_if_asked_to() -> None:
    with server(answer(200, b"elsewhere")) as (other, _):
        foreign = other.replace("127.0.0.1", "localhost")
        with server(answer(302, Location=foreign)) as (url, _):
            assert read(url) == (200, b"elsewhere")
            with Reader(QUICK, within_host=True) as reader:
                assert reader.read(url, content)[0] == 302


def body(*answers: Answer, limit: int = 1000, within: float = 5.0) -> bytes:
    with server(*answers) as (address, _), Reader(QUICK) as reader:
        return reader.read(address, lambda response: read_body(response, limit, within))


def test_a_body_is_read_within_its_limit() -> None:
    assert body(answer(200, b"x" * 1000)) == b"x" * 1000
    with pytest.raises(AnswerError, match="longer than 1 kB"):
        body(answer(200, b"x" * 1001))


def test_an_encoded_body_is_unpacked_within_its_limit() -> None:
    packed = answer(200, gzip.compress(b"x" * 1000), Content_Encoding="gzip")
    assert body(packed) == b"x" * 1000
    bomb = answer(200, gzip.compress(bytes(500_000)), Content_Encoding="gzip")
    assert len(gzip.compress(bytes(500_000))) < 1000
    with pytest.raises(AnswerError, match="longer than 1 kB"):
        body(bomb)
    chain = gzip.compress(gzip.compress(b"x"))
    with pytest.raises(AnswerError, match="an encoding that was not asked for"):
        body(answer(200, chain, Content_Encoding="gzip, gzip"))
    for damaged in (b"no gzip", gzip.compress(b"x" * 99)[:-9]):
        with pytest.raises(AnswerError, match=r"is damaged|ends too early"):
            body(answer(200, damaged, Content_Encoding="gzip"))


def test_a_server_that_sends_a_byte_now_and_then() -> None:
    sent: list[bytes] = []

    def trickle(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        with suppress(OSError):
            for _ in range(100):
                handler.wfile.write(b"x")
                sent.append(b"x")
                time.sleep(0.02)

    with pytest.raises(AnswerError, match="takes too long"):
        body(trickle, within=0.2)
    assert len(sent) < 100


def test_a_body_that_breaks_off_is_asked_for_again() -> None:
    cut = answer(200, b"half", Content_Length="8")
    assert body(cut, answer(200, b"complete")) == b"complete"


def test_a_file_is_read_as_it_is_stored() -> None:
    stored = gzip.compress(b"x")
    # Some servers declare a .tar.gz as "encoded as gzip".
    with server(answer(200, stored, Content_Encoding="gzip")) as (address, _), Reader() as reader:
        assert b"".join(reader.read(address, lambda r: [*chunks(r, 100, 5.0)])) == stored


@pytest.mark.parametrize("within_host", [True, False])
def test_no_redirection_leads_from_https_to_http(within_host: bool) -> None:
    response = requests.Response()
    response.url, response.status_code = "https://host/a", 302
    with Reader(within_host=within_host) as reader:
        response.headers["Location"] = "https://host/b"
        assert reader._session.get_redirect_target(response) == "https://host/b"
        response.headers["Location"] = "http://host/b"
        with pytest.raises(requests.RequestException) as caught:
            reader._session.get_redirect_target(response)
    assert explain(caught.value) == "the host redirects from https to http"


def test_another_host_gets_no_header_that_may_hold_credentials() -> None:
    seen: list[dict[str, str]] = []

    def take(handler: http.server.BaseHTTPRequestHandler) -> None:
        seen.append({name.lower(): value for name, value in handler.headers.items()})
        answer(200)(handler)

    headers = {
        "Authorization": "canary",
        "X-Token": "canary",
        "Cookie": "canary",
        "Range": "bytes=1-",
    }
    with server(take) as (other, _), server(answer(302, Location=other)) as (url, _):
        Reader(QUICK).read(url, lambda response: response.status_code, headers=headers)
    assert seen[0]["range"] == "bytes=1-"
    assert "canary" not in seen[0].values()


def test_a_question_is_asked_again_with_its_body() -> None:
    bodies: list[bytes] = []

    def take(handler: http.server.BaseHTTPRequestHandler) -> None:
        bodies.append(handler.rfile.read(int(handler.headers["Content-Length"])))
        answer(503 if len(bodies) == 1 else 200)(handler)

    with server(take) as (url, _):
        assert Reader(QUICK).read(url, lambda response: response.status_code, body=b"x") == 200
    assert bodies == [b"x", b"x"]


def test_a_full_or_unable_host_is_not_asked_again() -> None:
    with server(answer(509)) as (url, asked):
        assert Reader(QUICK).read(url, lambda response: response.status_code) == 509
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("environment", "bundle"),
    [
        ({}, None),
        ({"SSL_CERT_FILE": "a"}, "a"),
        ({"SSL_CERT_FILE": ""}, None),
        # requests reads these itself.
        ({"SSL_CERT_FILE": "a", "REQUESTS_CA_BUNDLE": "b"}, None),
        ({"SSL_CERT_FILE": "a", "CURL_CA_BUNDLE": "b"}, None),
    ],
)
def test_certificates_are_those_of_openssl(
    environment: dict[str, str], bundle: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Reader(QUICK)._session.verify == (bundle or True)
