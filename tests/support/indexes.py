"""Package indexes for tests: a real one, and one that fails in front of it."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

from tests.support.sources import closed_port

USER, PASSWORD = "publisher", "canary-5d41402abc4b"
ELSEWHERE = "http://elsewhere.invalid/"


def make_wheel(
    directory: Path, name: str, version: str = "1.0", content: str = "", needs: str = ""
) -> Path:
    """A valid wheel of one module, the same bytes for the same arguments."""
    directory.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    required = f"Requires-Dist: {needs}\n" if needs else ""
    files = {
        f"{module}.py": content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    path = directory / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(zipfile.ZipInfo(file), text)
    return path


def make_sdist(directory: Path, name: str, version: str = "1.0") -> Path:
    """A valid source distribution without any source."""
    module = name.replace("-", "_")
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    path = directory / f"{module}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as sdist:
        for file, content in (("PKG-INFO", metadata), ("pyproject.toml", b"")):
            member = tarfile.TarInfo(f"{module}-{version}/{file}")
            member.size = len(content)
            sdist.addfile(member, io.BytesIO(content))
    return path


@dataclass(frozen=True)
class Index:
    """A pypiserver that wants a password for uploads."""

    port: int
    directory: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def release(self) -> dict[str, bytes]:
        """What it holds."""
        return {path.name: path.read_bytes() for path in self.directory.iterdir()}


@contextmanager
def serve_index(root: Path, protect: str = "update") -> Iterator[Index]:
    """A pypiserver on loopback.

    Args:
        protect: What needs a password, separated by commas.
    """
    directory = root / "packages"
    directory.mkdir(parents=True)
    digest = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
    (root / "htpasswd").write_text(f"{USER}:{{SHA}}{digest}\n")
    port = closed_port()
    options = ["-p", str(port), "-i", "127.0.0.1", "-P", str(root / "htpasswd"), "-a", protect]
    options += ["--disable-fallback", "--backend", "simple-dir", str(directory)]
    with (root / "log").open("wb") as log:
        argv = [sys.executable, "-m", "pypiserver", "run", *options]
        server = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        _wait_for(port, server)
        yield Index(port, directory)
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and server.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError("pypiserver did not start")


@dataclass
class Faults:
    """What a failing index does with the next requests; it forwards all others."""

    uploads: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    downloads: list[str] = field(default_factory=list)
    posts: int = 0
    """Uploads that it was asked for."""
    release: threading.Event = field(default_factory=threading.Event)
    """Ends what hangs."""


@contextmanager
def serve_faulty(index: Index, faults: Faults) -> Iterator[str]:
    """The address of a proxy of `index` that fails as `faults` says.

    Faults are an HTTP status (with `Retry-After: 1` if it is 429,
    and another host's address if it is 302), `reset` in the middle of the
    request, `hang`, or `corrupt`; after `store-`, the request has been forwarded before.
    """

    class Handler(_FaultyHandler):
        pass

    Handler.index, Handler.faults = index, faults
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            faults.release.set()
            server.shutdown()
            thread.join()


class _FaultyHandler(http.server.BaseHTTPRequestHandler):
    index: Index
    faults: Faults

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        self.faults.posts += 1
        self._handle(self.faults.uploads)

    def do_GET(self) -> None:
        is_page = self.path.startswith("/simple/")
        self._handle(self.faults.pages if is_page else self.faults.downloads)

    def _handle(self, faults: list[str]) -> None:
        fault = faults.pop(0) if faults else ""
        length = int(self.headers.get("Content-Length", 0))
        if fault == "reset":
            self.rfile.read(length // 2)
            self._reset()
            return
        body = self.rfile.read(length)
        if len(body) < length:  # RFC 9112, section 8: the message is incomplete
            self._reset()
            return
        if fault in ("", "corrupt") or fault.startswith("store-"):
            status, headers, answer = self._forward(body)
        if fault in ("", "corrupt"):
            self._answer(status, headers, answer[::-1] if fault else answer)
        else:
            self._fail(fault.removeprefix("store-"))

    def _fail(self, fault: str) -> None:
        if fault == "reset":
            self._reset()
        elif fault == "hang":
            self.faults.release.wait(30)
            self._reset()
        else:
            headers = {"429": {"Retry-After": "1"}, "302": {"Location": ELSEWHERE}}.get(fault, {})
            # A rude server, which repeats what it was sent.
            reason = self.headers.get("Authorization", "") + f" {USER} {PASSWORD}"
            self._answer(int(fault), headers, reason.encode(), f"because {PASSWORD}")

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection("127.0.0.1", self.index.port)
        try:
            connection.request(self.command, self.path, body, dict(self.headers))
            response: HTTPResponse = connection.getresponse()
            kept = {
                name: value
                for name, value in response.getheaders()
                if name.lower() in ("content-type", "www-authenticate")
            }
            return response.status, kept, response.read()
        finally:
            connection.close()

    def _answer(
        self, status: int, headers: dict[str, str], body: bytes, reason: str | None = None
    ) -> None:
        self.send_response(status, reason)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.shutdown(socket.SHUT_RD)
        self.connection.close()
        self.close_connection = True
