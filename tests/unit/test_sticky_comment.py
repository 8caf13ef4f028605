"""The action that comments on pull requests: with a server that answers as GitHub's API does."""

from __future__ import annotations

import http.server
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.commands import Done, run
from tests.support.workflows import ROOT

POST = ROOT / ".github" / "actions" / "sticky-comment" / "post.py"
MARKER = "<!-- modelwheel -->"
BOT = "github-actions[bot]"
SHA = "ab" * 20


class Api:
    """A repository with one pull request from a fork."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.heads = {"stranger:add-model": SHA}
        self.url = ""

    def answer(self, method: str, path: str, content: Any) -> Any:
        place, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        if place == "/repos/org/models/pulls":
            (head,) = query["head"]
            sha = self.heads.get(head)
            return [{"number": 7, "head": {"sha": sha}}] if sha else []
        if place == "/repos/org/models/issues/7/comments" and method == "GET":
            first = (int(query["page"][0]) - 1) * 100
            return self.comments[first : first + 100]
        if method == "POST":
            self.comments.append({"id": len(self.comments), "user": {"login": BOT}, **content})
            return self.comments[-1]
        assert method == "PATCH"
        number = int(place.removeprefix("/repos/org/models/issues/comments/"))
        self.comments[number].update(content)
        return self.comments[number]


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do(self) -> None:
            assert self.headers["Authorization"] == "Bearer token"
            size = int(self.headers.get("Content-Length", 0))
            content = json.loads(self.rfile.read(size)) if size else None
            body = json.dumps(found.answer(self.command, self.path, content)).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        found.url = f"http://127.0.0.1:{server.server_port}"
        yield found
        server.shutdown()


def post(api: Api, directory: Path, text: str | None, sha: str = SHA) -> Done:
    owner = {"owner": {"login": "stranger"}}
    event = {"head_repository": owner, "head_branch": "add-model", "head_sha": sha}
    (directory / "event.json").write_text(json.dumps({"workflow_run": event}))
    file = directory / "comment.md"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    environment: dict[str, Any] = {
        "GITHUB_API_URL": api.url,
        "GITHUB_EVENT_PATH": str(directory / "event.json"),
        "GITHUB_REPOSITORY": "org/models",
        "GITHUB_TOKEN": "token",
        "no_proxy": "127.0.0.1",
    }
    return run(sys.executable, POST, file, **environment)


def test_one_comment_that_is_updated(api: Api, tmp_path: Path) -> None:
    others = [{"id": n, "user": {"login": "somebody"}, "body": MARKER} for n in range(120)]
    api.comments = list(others)  # anybody can write the marker
    assert (
        "wrote the comment on pull request 7" in post(api, tmp_path, f"{MARKER}\n| a | b |\n").out
    )
    assert "updated the comment" in post(api, tmp_path, f"{MARKER}\nagain\n").out
    assert api.comments[:120] == others
    (written,) = api.comments[120:]
    assert written["body"].startswith(f"{MARKER}\n<sub>")
    assert written["body"].endswith("\n\nagain\n")


def test_the_text_is_data(api: Api, tmp_path: Path) -> None:
    """It mentions nobody, hides nothing of ours, and cannot be endless."""
    text = f"{MARKER}\n@maintainer a@b.org <!-- \x1b[31m <details>\n" + "x" * 70 + "\n" * 2
    post(api, tmp_path, text + ("y" * 99 + "\n") * 9_000)
    (comment,) = api.comments
    body = comment["body"]
    assert "@maintainer" not in body
    assert "\x1b" not in body
    assert body.count("<!--") == 1
    assert body.index("<sub>") < body.index("<details>")
    assert 60_000 < len(body) < 65_536
    assert body.endswith("The rest is in the summary of the check.\n")


@pytest.mark.parametrize("text", [None, "no marker\n", f"\n{MARKER}\n", ""])
def test_what_is_no_comment(api: Api, tmp_path: Path, text: str | None) -> None:
    assert "no comment" in post(api, tmp_path, text).out
    assert api.comments == []


def test_a_commit_that_is_no_longer_the_head(api: Api, tmp_path: Path) -> None:
    """A later push has a run of its own; a closed pull request needs no answer."""
    assert "no comment" in post(api, tmp_path, f"{MARKER}\nold\n", sha="cd" * 20).out
    api.heads = {}
    assert "no comment" in post(api, tmp_path, f"{MARKER}\nold\n").out
    assert api.comments == []


def test_a_link_is_not_followed(api: Api, tmp_path: Path) -> None:
    """An artifact may have one, to a file of the machine."""
    (tmp_path / "secret").write_text(f"{MARKER}\nsecret\n")
    (tmp_path / "comment.md").symlink_to(tmp_path / "secret")
    assert "no comment" in post(api, tmp_path, None).out
