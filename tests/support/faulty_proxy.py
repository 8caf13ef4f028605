"""A proxy between a client and a server of objects, which does to requests what networks and servers do.

It speaks plain HTTP on both sides and hands requests on unchanged, except those that a fault was
asked for. The client is told the proxy's address as the server's.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime, parsedate_to_datetime
from typing import Literal, NamedTuple

import aiohttp
from aiohttp import web
from yarl import URL

Kind = Literal["error", "slow_down", "timeout", "truncated", "lost", "stale", "expired", "refused"]
"""What happens to a request.

- `error`: 500, the server did nothing.
- `slow_down`: 503, as S3 asks clients to wait.
- `timeout`: no answer, the server did nothing.
- `truncated`: half of the answer, and the connection ends.
- `lost`: the server did it, and the connection ends without an answer.
- `stale`: the answer that the same request got last time.
- `expired`: the credentials are out of date.
- `refused`: the connection ends, the server did nothing.
"""

_ANSWERS = {
    "error": (500, "InternalError", "We encountered an internal error. Please try again."),
    "slow_down": (503, "SlowDown", "Please reduce your request rate."),
    "expired": (400, "ExpiredToken", "The provided token has expired."),
}

_PER_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "expect"}


class Request(NamedTuple):
    """A request that the proxy saw."""

    method: str
    path: str
    """With the query."""
    fault: Kind | None


@dataclass
class Fault:
    """What happens to the next requests that fit."""

    kind: Kind
    method: str = ""
    """Such as PUT; by default all."""
    path: str = ""
    """A regular expression that is searched in the path with its query; by default all."""
    times: int = 1
    """How many requests; those after them pass."""
    after: int = 0
    """How many that fit pass before."""
    key_id: str = ""
    """Only requests that are signed with this access key."""
    each: bool = False
    """Whether every different request is taken once, in place of `times`."""
    taken: set[tuple[str, str]] = field(default_factory=set)

    def takes(self, method: str, path: str, authorization: str) -> bool:
        """Whether it happens to this request, which is counted."""
        fits = method == (self.method or method) and re.search(self.path, path)
        if not fits or self.key_id not in authorization:
            return False
        if self.after:
            self.after -= 1
            return False
        if self.each:
            new = (method, path) not in self.taken
            self.taken.add((method, path))
            return new
        self.times -= 1
        return self.times >= 0


class FaultyProxy:
    """The proxy, while it runs.

    Args:
        upstream: The address of the server.

    Attributes:
        address: What clients ask, once it runs.
        seen: Every request.
        ahead: How much later it is by the server's clock than by that of this machine: in headers
            and in listings.
    """

    def __init__(self, upstream: str) -> None:
        self.address = ""
        self.seen: list[Request] = []
        self.ahead = timedelta(0)
        self._upstream = upstream
        self._faults: list[Fault] = []
        self._guard = threading.Lock()
        self._answers: dict[tuple[str, str], web.Response] = {}
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    def inject(self, fault: Fault) -> None:
        """Adds a fault; the first one that takes a request is the one that happens to it."""
        with self._guard:
            self._faults.append(fault)

    def heal(self) -> None:
        """Removes all faults."""
        with self._guard:
            self._faults.clear()

    async def serve(self, ready: threading.Event) -> None:
        """Answers requests until `stop` is called."""
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, handle_signals=False, shutdown_timeout=0.1)
        # As they are: a client's checksums are those of the bytes on the wire.
        async with aiohttp.ClientSession(auto_decompress=False) as self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.address = f"http://{host}:{port}"
            ready.set()
            await self._stop.wait()
            await runner.cleanup()

    def run(self, ready: threading.Event) -> None:
        """Serves in this thread."""
        self._loop.run_until_complete(self.serve(ready))
        self._loop.close()

    def stop(self) -> None:
        """Ends `run`; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._stop.set)

    def _choose(self, request: web.Request) -> Kind | None:
        path, signed = request.raw_path, request.headers.get("Authorization", "")
        with self._guard:
            taken = (one for one in self._faults if one.takes(request.method, path, signed))
            fault = next(taken, None)
            kind = None if fault is None else fault.kind
            self.seen.append(Request(request.method, path, kind))
        return kind

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        kind, asked = self._choose(request), (request.method, request.raw_path)
        body = await request.read()
        if kind in _ANSWERS:
            status, code, said = _ANSWERS[kind]
            text = f"<Error><Code>{code}</Code><Message>{said}</Message></Error>"
            return web.Response(status=status, text=text, content_type="application/xml")
        if kind == "timeout":
            await self._stop.wait()
        if kind in ("timeout", "refused"):
            return _hang_up(request)
        if kind == "stale" and asked in self._answers:
            return _copy(self._answers[asked])
        answer = await self._ask(request, body)
        if request.method == "GET":
            self._answers[asked] = _copy(answer)
        if kind == "lost":
            return _hang_up(request)
        if kind == "truncated":
            return await _cut(request, answer)
        return answer

    async def _ask(self, request: web.Request, body: bytes) -> web.Response:
        """The answer of the server."""
        async with self._session.request(
            request.method,
            URL(self._upstream + request.raw_path, encoded=True),
            headers=_kept(request.headers),
            data=body,
            allow_redirects=False,
            skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
        ) as answer:
            content, headers = await answer.read(), _kept(answer.headers)
        for name in ("Date", "Last-Modified"):
            if self.ahead and name in headers:
                moved = parsedate_to_datetime(headers[name]) + self.ahead
                headers[name] = format_datetime(moved, usegmt=True)
        if self.ahead:
            content = re.sub(rb"(?<=<LastModified>)[^<]+", self._move, content)
        if request.method != "HEAD":
            headers["Content-Length"] = str(len(content))
        return web.Response(status=answer.status, headers=headers, body=content)

    def _move(self, found: re.Match[bytes]) -> bytes:
        time = datetime.fromisoformat(found[0].decode().replace("Z", "+00:00")) + self.ahead
        text = time.astimezone(timezone.utc).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z").encode()


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers without those that are about one connection."""
    return {name: value for name, value in headers.items() if name.lower() not in _PER_CONNECTION}


def _copy(answer: web.Response) -> web.Response:
    """The same answer, to be sent once more."""
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


def _hang_up(request: web.Request) -> web.Response:
    """Ends the connection at once; what is returned reaches nobody."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _cut(request: web.Request, whole: web.Response) -> web.StreamResponse:
    """Sends the head of an answer and half of its body, and ends the connection."""
    content = bytes(whole.body) if isinstance(whole.body, bytes | bytearray) else b""
    half = web.StreamResponse(status=whole.status, headers=whole.headers)
    await half.prepare(request)
    await half.write(content[: len(content) // 2])
    await asyncio.sleep(0.01)  # until it is on its way: ending the connection discards what waits
    if request.transport is not None:
        request.transport.abort()
    return half


@contextmanager
def faulty_proxy(upstream: str) -> Iterator[FaultyProxy]:
    """A proxy before the server at this address, in a thread of its own."""
    proxy, ready = FaultyProxy(upstream), threading.Event()
    thread = threading.Thread(target=proxy.run, args=(ready,), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(10)
