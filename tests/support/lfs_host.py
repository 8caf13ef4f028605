"""A host of git repositories with Git LFS, as GitHub and Hugging Face answer: git over HTTP, the batch API, and objects."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.repositories import Repository

TYPE = "application/vnd.git-lfs+json"


def pointer(content: bytes) -> bytes:
    """What git has in place of a file (git-lfs, docs/spec.md)."""
    oid = sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n".encode()


class Host(ThreadingHTTPServer):
    """Serves the repositories below a directory; each attribute is one thing that a real host may do."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.objects: dict[str, bytes] = {}
        self.user: tuple[str, str] | None = None
        """Who may read; everybody by default."""
        self.answer: tuple[int, dict[str, Any]] | None = None
        """What the batch API answers to every request."""
        self.error: dict[str, Any] | None = None
        """What it answers about every object."""
        self.change: dict[str, Any] = {}
        """Fields of its answers about objects that are others than they should be."""
        self.elsewhere = ""
        """Another host, to which it redirects requests for objects."""
        self.served: bytes | None = None
        """What it serves in place of each object."""
        self.header = {"Authorization": "Bearer object", "X-Private-Token": "object"}
        """What its answers ask for with each object."""
        self.asked: list[dict[str, Any]] = []
        """The requests of the batch API."""
        self.seen: list[tuple[str, dict[str, str]]] = []
        """The path and headers of every request."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def keep(self, *contents: bytes) -> None:
        """Has objects."""
        self.objects |= {sha256(content).hexdigest(): content for content in contents}


class _Handler(BaseHTTPRequestHandler):
    server: Host

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        if self.path.startswith("/objects/"):
            self._send_object(self.path.rpartition("/")[2])
        else:
            self._run_git(b"")

    def do_POST(self) -> None:
        body = self._body()
        self.server.seen.append((self.path, dict(self.headers)))
        if self.path.endswith("/info/lfs/objects/batch"):
            self._answer_batch(json.loads(body))
        else:
            self._run_git(body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body

    def _is_allowed(self) -> bool:
        if self.server.user is None:
            return True
        wanted = base64.b64encode(":".join(self.server.user).encode()).decode()
        if self.headers.get("Authorization") == f"Basic {wanted}":
            return True
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="models"')
        self.send_header("Content-Length", "0")
        self.end_headers()
        return False

    def _answer_batch(self, asked: dict[str, Any]) -> None:
        assert self.headers["Accept"] == self.headers["Content-Type"] == TYPE
        if not self._is_allowed():
            return
        self.server.asked.append(asked)
        status, answer = self.server.answer or (200, self._answers(asked))
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", TYPE)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answers(self, asked: dict[str, Any]) -> dict[str, Any]:
        objects = []
        for one in asked["objects"]:
            if self.server.error or one["oid"] not in self.server.objects:
                missing = {"code": 404, "message": "Object does not exist"}
                objects.append({**one, "error": self.server.error or missing})
                continue
            href = f"{self.server.url}/objects/{one['oid']}"
            action = {"href": href, "header": self.server.header}
            answer = {**one, "authenticated": True, "actions": {"download": action}}
            objects.append({**answer, **self.server.change})
        return {"transfer": "basic", "objects": objects, "hash_algo": "sha256"}

    def _send_object(self, oid: str) -> None:
        if self.server.elsewhere:
            self.send_response(302)
            self.send_header("Location", f"{self.server.elsewhere}/objects/{oid}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = self.server.objects[oid] if self.server.served is None else self.server.served
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _run_git(self, body: bytes) -> None:
        """Runs git's own server, which is a CGI program."""
        if not self._is_allowed():
            return
        path, _, query = self.path.partition("?")
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "CONTENT_LENGTH": str(len(body)),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, capture_output=True, env=environment, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def serve_git(root: Path) -> Iterator[Host]:
    """A host of the repositories below a directory."""
    with Host(root) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def bare_copy(repository: Repository, target: Path) -> None:
    """What a host has of a repository, which serves single commits and parts of them."""
    target.parent.mkdir(parents=True, exist_ok=True)
    repository.git("clone", "--quiet", "--bare", str(repository.directory), str(target))
    for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        repository.git(f"--git-dir={target}", "config", setting, "true")
