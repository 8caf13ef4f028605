"""A host of files over HTTP that does what real ones do: parts of files, tags, redirections, and failures on the way."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


@dataclass
class Answer:
    """What the host does with the next request of a path, in place of serving the file."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None
    """Serves the file, and hangs up after so many bytes."""


class FileHost(ThreadingHTTPServer):
    """Serves `files` by their paths."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.next: list[Answer] = []
        """What it does with the next requests."""
        self.tagged = True
        """Whether answers have an ETag."""
        self.seen: list[tuple[str, dict[str, str]]] = []
        """The path and headers of every request; names in small letters."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def paths(self) -> list[str]:
        """What was asked for."""
        return [path for path, _ in self.seen]

    def put_json(self, path: str, value: object) -> None:
        """Serves a value as JSON."""
        self.files[path] = json.dumps(value).encode()


class _Handler(BaseHTTPRequestHandler):
    server: FileHost

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.path, headers))
        answer = self.server.next.pop(0) if self.server.next else None
        if answer is not None and answer.cut is None:
            self._send(answer.status, answer.headers, answer.body)
            return
        content = self.server.files.get(unquote(self.path.partition("?")[0]))
        if content is None:
            self._send(404, {}, b"nothing here")
            return
        self._send_file(content, headers, answer.cut if answer is not None else None)

    def _send_file(self, content: bytes, asked: dict[str, str], cut: int | None) -> None:
        tag = f'"{sha256(content).hexdigest()[:16]}"'
        headers = {"ETag": tag} if self.server.tagged else {}
        found = re.fullmatch(r"bytes=(\d+)-", asked.get("range", ""))
        # RFC 9110, section 13.1.5: another tag asks for the whole file.
        if found and asked.get("if-range", tag) == tag:
            begin = int(found[1])
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
            self._send(206, headers, content[begin:], cut)
        else:
            self._send(200, headers, content, cut)

    def _send(
        self, status: int, headers: dict[str, str], body: bytes, cut: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if cut is None else body[:cut])
        self.close_connection = True


@contextmanager
def serve_files() -> Iterator[FileHost]:
    """A host on loopback."""
    with FileHost() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
