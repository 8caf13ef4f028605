"""Google Cloud Storage on loopback, as far as a store needs it: uploads, conditions, parts of objects, listings."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class _Object:
    content: bytes
    written: datetime = field(default_factory=lambda: datetime.now(timezone.utc))


class GoogleStorage(ThreadingHTTPServer):
    """One server with one bucket, `models`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, _Object] = {}
        self.uploads: dict[str, tuple[str, bytes, bool]] = {}
        self.guard = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, name: str, content: bytes, *, new: bool) -> bool:
        """Writes an object; False if it has to be new and is not."""
        with self.guard:
            if new and name in self.objects:
                return False
            self.objects[name] = _Object(content)
            return True

    def describe(self, name: str) -> dict[str, str]:
        held = self.objects[name]
        return {
            "kind": "storage#object",
            "name": name,
            "bucket": "models",
            "size": str(len(held.content)),
            "updated": held.written.isoformat().replace("+00:00", "Z"),
            "md5Hash": base64.b64encode(md5(held.content).digest()).decode(),
        }


class _Handler(BaseHTTPRequestHandler):
    server: GoogleStorage

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path, query = self._asked()
        if path.endswith("/b/models/o"):
            listed = sorted(
                name for name in self.server.objects if name.startswith(query["prefix"])
            )
            self._answer(200, {"items": [self.server.describe(name) for name in listed]})
            return
        name = self._name(path)
        if name not in self.server.objects:
            self._answer(404, {})
        elif not path.startswith("/download/") and query.get("alt") != "media":
            self._answer(200, self.server.describe(name))
        else:
            content = self.server.objects[name].content
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            part = content[int(found[1]) : int(found[2]) + 1] if found else content
            self._answer(206 if found else 200, part)

    def do_DELETE(self) -> None:
        name = self._name(self._asked()[0])
        self._answer(404 if self.server.objects.pop(name, None) is None else 204, b"")

    def do_POST(self) -> None:
        path, query = self._asked()
        body = self._body()
        if path.startswith("/resumable/"):
            self._go_on(path.rpartition("/")[2], body)
            return
        if "/b/models/" not in path:
            self._answer(404, {})
            return
        new = query.get("ifGenerationMatch") == "0"
        if query["uploadType"] == "resumable":
            number = str(len(self.server.uploads))
            self.server.uploads[number] = json.loads(body)["name"], b"", new
            self._answer(200, b"", {"Location": f"{self.server.url}/resumable/{number}"})
            return
        about, content = re.fullmatch(  # the two parts that gcsfs writes
            rb".*?\n\n(\{.*?\})\n--==0==.*?\n\n(.*)\n--==0==--", body, re.DOTALL
        ).groups()  # type: ignore[union-attr]
        self._stored(json.loads(about)["name"], content, new=new)

    def _go_on(self, number: str, part: bytes) -> None:
        """The next part of an upload."""
        name, beginning, new = self.server.uploads[number]
        content = beginning + part
        self.server.uploads[number] = name, content, new
        if len(content) < int(self.headers["Content-Range"].rpartition("/")[2]):
            self._answer(308, b"", {"Range": f"bytes=0-{len(content) - 1}"})
        else:
            self._stored(name, content, new=new)

    def _stored(self, name: str, content: bytes, *, new: bool) -> None:
        if self.server.put(name, content, new=new):
            self._answer(200, self.server.describe(name))
        else:
            self._answer(412, {"error": {"code": 412, "message": "conditionNotMet"}})

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        return parts.path, {"prefix": "", **{name: values[0] for name, values in query.items()}}

    def _name(self, path: str) -> str:
        return unquote(path.partition("/b/models/o/")[2])

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def serve_google_storage() -> Iterator[GoogleStorage]:
    """A server on loopback; STORAGE_EMULATOR_HOST has to be its `url`."""
    with GoogleStorage() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
