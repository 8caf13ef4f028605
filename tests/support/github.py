"""A server on loopback that answers as GitHub's API for releases does, and serves their files by a redirection.

What it does and refuses is from GitHub's documentation of releases, assets, immutable releases and rate limits.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "canary-github-5d41402abc4b"


@dataclass
class Faults:
    """What the next requests meet; all others are answered.

    A fault is an HTTP status, `reset`, or `limit` (the rate limit, with a time to wait). After `store-` the request has had
    its effect; of an upload that fails otherwise, an empty asset is left.
    """

    uploads: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    limit: Mapping[str, str] = field(default_factory=lambda: {"Retry-After": "0"})
    """The headers of `limit`."""


@dataclass
class GitHub:
    """A repository."""

    repository: str = "org/models"
    tags: set[str] = field(default_factory=set)
    checkout: Path | None = None
    """A git repository whose tags count, too."""
    immutable: bool = True
    private: bool = False
    faults: Faults = field(default_factory=Faults)
    releases: list[dict[str, Any]] = field(default_factory=list)
    contents: dict[int, bytes] = field(default_factory=dict)
    """Of assets, by their numbers."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What GET answers below the repository, by path; lists page by page. A number is the status of a refusal."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and token of each."""
    storage: list[str] = field(default_factory=list)
    """The token that each request for a stored file had."""
    port: int = 0
    number: int = 100

    @property
    def api(self) -> str:
        """For GITHUB_API_URL."""
        return f"http://127.0.0.1:{self.port}/api"

    @property
    def web(self) -> str:
        """For GITHUB_SERVER_URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a workflow has."""
        return {
            "GITHUB_API_URL": self.api,
            "GITHUB_SERVER_URL": self.web,
            "GITHUB_REPOSITORY": self.repository,
            "GITHUB_TOKEN": TOKEN,
        }

    def has_tag(self, tag: str) -> bool:
        if self.checkout is None:
            return tag in self.tags
        argv = ["git", "rev-parse", "--verify", "--quiet", f"refs/tags/{tag}"]
        found = subprocess.run(argv, cwd=self.checkout, capture_output=True, check=False)
        return tag in self.tags or found.returncode == 0

    def release(self, tag: str) -> dict[str, bytes]:
        """The files of the published release."""
        found = [r for r in self.releases if r["tag_name"] == tag and not r["draft"]]
        return {a["name"]: self.contents[a["id"]] for r in found for a in r["assets"]}

    def draft(self, tag: str) -> list[tuple[str, str]]:
        """Names and states of what its draft has."""
        found = [r for r in self.releases if r["tag_name"] == tag and r["draft"]]
        return [(a["name"], a["state"]) for r in found for a in r["assets"]]

    def add(self, release: dict[str, Any], name: str, content: bytes | None) -> dict[str, Any]:
        """Stores an asset; None leaves what an upload that broke off does."""
        self.number += 1
        where = f"{self.web}/{self.repository}/releases/download/{release['tag_name']}/{name}"
        digest = None if content is None else f"sha256:{hashlib.sha256(content).hexdigest()}"
        asset = {
            "id": self.number,
            "name": name,
            "size": len(content or b""),
            "digest": digest,
            "state": "starter" if content is None else "uploaded",
            "url": f"{self.api}/repos/{self.repository}/releases/assets/{self.number}",
            "browser_download_url": where,
        }
        self.contents[self.number] = content or b""
        release["assets"].append(asset)
        return asset


@contextmanager
def serve_github(github: GitHub) -> Iterator[GitHub]:
    """Serves a repository until the block ends."""

    class Handler(_Handler):
        pass

    Handler.github = github
    with _Server(("", github.port), Handler) as server:
        github.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield github
        finally:
            server.shutdown()
            thread.join()


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: whoever asked has gone."""


class _Handler(http.server.BaseHTTPRequestHandler):
    github: GitHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PATCH(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def do_HEAD(self) -> None:
        self._handle()

    def _handle(self) -> None:
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = unquote(url.path)
        self.github.requests.append((self.command, path, self._token()))
        prefix = f"/api/repos/{self.github.repository}"
        if path.startswith("/storage/"):
            self._serve_stored(int(path.rpartition("/")[2]))
        elif path.startswith(f"/{self.github.repository}/releases/download/"):
            self._redirect_to(path)
        elif path.startswith(f"/uploads/{self.github.repository}/releases/"):
            self._upload(int(path.split("/")[5]))
        elif path == prefix or path.startswith(f"{prefix}/"):
            self._answer_api(path.removeprefix(prefix))
        else:
            self._say(404, {"message": "Not Found"})

    def _token(self) -> str:
        said = self.headers.get("Authorization", "")
        return said.removeprefix("Bearer ") if said.startswith("Bearer ") else said

    def _writes(self) -> bool:
        return self._token() in (TOKEN, _basic())

    # The API.

    def _answer_api(self, path: str) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._token() and not self._writes():
            self._say(401, {"message": "Bad credentials"})
            return
        if (self.github.private or self.command != "GET") and not self._writes():
            self._say(404, {"message": "Not Found"})
            return
        faults = self.github.faults.reads if self.command == "GET" else self.github.faults.changes
        fault = faults.pop(0) if faults else ""
        if fault and not fault.startswith("store-"):
            self._fail(fault)
            return
        status, answer = self._act(path)
        if fault:
            self._fail(fault.removeprefix("store-"))
        elif status == 302:
            self._redirect(answer)
        else:
            self._say(status, answer)

    def _act(self, path: str) -> tuple[int, Any]:
        if self.command == "GET" and path in self.github.settings:
            answer = self.github.settings[path]
            if isinstance(answer, int):
                return answer, {"message": "Resource not accessible by personal access token"}
            return self._page(answer) if isinstance(answer, list) else (200, answer)
        for method, pattern, act in (
            ("GET", r"", self._repository),
            ("GET", r"/releases", self._list),
            ("POST", r"/releases", self._create),
            ("GET", r"/releases/tags/(.+)", self._by_tag),
            ("PATCH", r"/releases/(\d+)", self._patch),
            ("GET", r"/releases/(\d+)/assets", self._list_assets),
            ("GET", r"/releases/assets/(\d+)", self._asset),
            ("DELETE", r"/releases/assets/(\d+)", self._delete_asset),
            ("GET", r"/git/ref/tags/(.+)", self._ref),
        ):
            found = re.fullmatch(pattern, path)
            if found and method == self.command:
                return act(*found.groups())
        return 404, {"message": "Not Found"}

    def _repository(self) -> tuple[int, Any]:
        return 200, {"full_name": self.github.repository, "private": self.github.private}

    def _page(self, entries: list[Any]) -> tuple[int, Any]:
        size, page = int(self.query.get("per_page", 30)), int(self.query.get("page", 1))
        return 200, entries[size * (page - 1) : size * page]

    def _list(self) -> tuple[int, Any]:
        return self._page([r for r in self.github.releases if self._writes() or not r["draft"]])

    def _find(self, number: str) -> dict[str, Any] | None:
        return next((r for r in self.github.releases if r["id"] == int(number)), None)

    def _by_tag(self, tag: str) -> tuple[int, Any]:
        found = [r for r in self.github.releases if r["tag_name"] == tag and not r["draft"]]
        return (200, found[0]) if found else (404, {"message": "Not Found"})

    def _create(self) -> tuple[int, Any]:
        asked = json.loads(self.body)
        self.github.number += 1
        number, tag = self.github.number, asked["tag_name"]
        upload = f"{self.github.web}/uploads/{self.github.repository}/releases/{number}/assets"
        made = {
            "id": number,
            "tag_name": tag,
            "name": asked["name"],
            "body": asked["body"],
            "draft": asked["draft"],
            "prerelease": asked["prerelease"],
            "immutable": False,
            "html_url": f"{self.github.web}/{self.github.repository}/releases/tag/{tag}",
            "upload_url": upload + "{?name,label}",
            "assets": [],
        }
        self.github.releases.insert(0, made)
        return 201, made

    def _patch(self, number: str) -> tuple[int, Any]:
        release = self._find(number)
        if release is None:
            return 404, {"message": "Not Found"}
        if release["immutable"]:
            return 422, {"message": "Cannot change an immutable release"}
        release.update(json.loads(self.body))
        if not release["draft"]:
            self.github.tags.add(release["tag_name"])
            release["immutable"] = self.github.immutable
            release["published_at"] = "2026-11-25T20:00:00Z"
        return 200, release

    def _list_assets(self, number: str) -> tuple[int, Any]:
        release = self._find(number)
        return (404, {"message": "Not Found"}) if release is None else self._page(release["assets"])

    def _asset(self, number: str) -> tuple[int, Any]:
        if self.headers["Accept"] != "application/octet-stream":
            return 200, self._asset_of(int(number))[1]
        return 302, int(number)

    def _asset_of(self, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        return next((r, a) for r in self.github.releases for a in r["assets"] if a["id"] == number)

    def _delete_asset(self, number: str) -> tuple[int, Any]:
        release, asset = self._asset_of(int(number))
        if release["immutable"]:
            return 422, {"message": "Cannot delete asset from an immutable release"}
        release["assets"].remove(asset)
        return 204, None

    def _ref(self, tag: str) -> tuple[int, Any]:
        known = self.github.has_tag(tag)
        return (200, {"ref": f"refs/tags/{tag}"}) if known else (404, {"message": "Not Found"})

    # Files.

    def _upload(self, number: int) -> None:
        name = self.query["name"]
        release = self._find(str(number))
        faults = self.github.faults.uploads
        fault = faults.pop(0) if faults else ""
        length = int(self.headers["Content-Length"])
        if fault == "reset":
            self.rfile.read(length // 2)
        content = self.rfile.read(length) if fault != "reset" else b""
        if len(content) < length and not fault:  # whoever uploads it has gone
            fault = "reset"
        if release is None or not self._writes():
            self._say(404, {"message": "Not Found"})
        elif release["immutable"]:
            self._say(422, {"message": "Cannot upload assets to an immutable release"})
        elif any(asset["name"] == name for asset in release["assets"]):
            errors = [{"resource": "ReleaseAsset", "code": "already_exists", "field": "name"}]
            self._say(422, {"message": "Validation Failed", "errors": errors})
        elif fault == "corrupt":
            self._say(201, self.github.add(release, name, content[::-1]))
        elif fault.startswith("store-"):
            self.github.add(release, name, content)
            self._fail(fault.removeprefix("store-"))
        elif fault:
            if fault != "limit":
                self.github.add(release, name, None)
            self._fail(fault)
        else:
            self._say(201, self.github.add(release, name, content))

    def _redirect_to(self, path: str) -> None:
        *_, tag, name = path.split("/")
        found = [
            asset["id"]
            for release in self.github.releases
            if release["tag_name"] == tag and not release["draft"]
            for asset in release["assets"]
            if asset["name"] == name
        ]
        if not found or self.github.private:
            self._say(404, {"message": "Not Found"})
        else:
            self._redirect(found[0])

    def _redirect(self, number: int) -> None:
        # Another name of this host: clients must not send it the token.
        self.send_response(302)
        self.send_header("Location", f"http://localhost:{self.github.port}/storage/{number}?sig=x")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _serve_stored(self, number: int) -> None:
        self.github.storage.append(self._token())
        self._send(200, self.github.contents[number], "application/octet-stream")

    def _fail(self, fault: str) -> None:
        if fault == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.shutdown(socket.SHUT_RD)
            self.connection.close()
            self.close_connection = True
        elif fault == "limit":
            self._say(403, {"message": "You have exceeded a rate limit"}, self.github.faults.limit)
        else:
            self._say(int(fault), {"message": f"because {self._token()}"})

    def _say(self, status: int, answer: object, headers: Mapping[str, str] | None = None) -> None:
        content = b"" if answer is None else json.dumps(answer).encode()
        self._send(status, content, "application/json", headers or {})

    def _send(
        self, status: int, content: bytes, kind: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": kind}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _basic() -> str:
    import base64

    return "Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
