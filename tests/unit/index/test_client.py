"""What is read of a package index, and what is not."""

from __future__ import annotations

import gzip
import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from modelwheel.errors import PublishError
from modelwheel.index import client
from modelwheel.index.client import IndexedFile, PackageIndex
from modelwheel.index.plan import Rules, make_plan
from modelwheel.util.http import Patience
from tests.support.index_wheels import make_wheel
from tests.unit.util.test_http import answer, server

QUICK = Patience(attempts=1, timeout=5)
PAGE = b'<a href="../a-1-py3-none-any.whl#sha256=%s">a-1-py3-none-any.whl</a>' % (b"0" * 64)


def test_a_page_may_be_compressed() -> None:
    packed = answer(200, gzip.compress(PAGE), Content_Encoding="gzip", Content_Type="text/html")
    with server(packed) as (address, _), PackageIndex(f"{address}/simple", QUICK) as index:
        files = index.files("a")
    assert files == {
        "a-1-py3-none-any.whl": IndexedFile(f"{address}/simple/a-1-py3-none-any.whl", "0" * 64)
    }


def test_a_page_is_read_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MAX_PAGE", 1000)
    bomb = gzip.compress(bytes(100_000))
    for body, headers in ((bytes(1001), {}), (bomb, {"Content_Encoding": "gzip"})):
        with (
            server(answer(200, body, **headers)) as (address, _),
            PackageIndex(address, QUICK) as index,
            pytest.raises(PublishError, match="the answer is longer than 1 kB"),
        ):
            index.files("a")


def test_files_are_read_within_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MAX_FILE", 1000)
    with server(answer(200, bytes(2000))) as (address, _), PackageIndex(address, QUICK) as index:
        file = IndexedFile(f"{address}/a-1-py3-none-any.whl", None)
        with pytest.raises(PublishError, match="the answer is longer than 1 kB"):
            index.sha256(file)
        with pytest.raises(PublishError, match="the answer is longer than 1 kB"):
            index.download(file, tmp_path / "file")
        assert index.find_beside(file, ".report.json", 1000) is None
        assert index.find_beside(file, ".report.json", 2000) == bytes(2000)


def test_an_index_with_tls_lists_no_file_without() -> None:
    with PackageIndex("https://index.example.org/simple/", QUICK) as index:
        file = IndexedFile("http://index.example.org/a-1-py3-none-any.whl", None)
        with pytest.raises(PublishError, match="is not an https address"):
            index.sha256(file)
        assert index.find_beside(file, ".report.json") is None


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"[" * 100_000, "application/vnd.pypi.simple.v1+json"),
        (json.dumps({"files": [{"url": 1}]}).encode(), "application/vnd.pypi.simple.v1+json"),
        (b"x", "image/png"),
    ],
)
def test_pages_that_are_something_else(content: bytes, kind: str) -> None:
    with pytest.raises(PublishError, match="is not a page of a package index"):
        client.parse_page(content, kind, "https://host/a/")


def test_a_local_version_is_not_published(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "a", version="1.0+local")
    with server(answer(404)) as (address, _), PackageIndex(address, QUICK) as index:
        (refused,) = make_plan([wheel], address, index, Rules()).files
        (allowed,) = make_plan([wheel], address, index, Rules(any_index=True)).files
    assert "the version 1.0+local has a local part" in refused.reason
    assert (refused.action, allowed.action) == ("refuse", "upload")


@pytest.mark.parametrize("kind", ["text/html", "application/vnd.pypi.simple.v1+json"])
def test_a_file_name_that_takes_minutes_to_parse_is_left_out(kind: str) -> None:
    name = "x" * 200_000
    content = f'<a href="x">{name}</a>'.encode() + PAGE
    if kind != "text/html":
        files = [{"filename": n, "url": "x", "hashes": {}} for n in (name, "a-1-py3-none-any.whl")]
        page = {"meta": {"api-version": "1.0"}, "name": "a", "files": files}
        content = json.dumps(page).encode()
    started = time.process_time()
    assert list(client.parse_page(content, kind, "https://host/a/")) == ["a-1-py3-none-any.whl"]
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "piece", ["<div>", "<a>", "<a ", "<!--", "<a href=x>y", '<a b="', "<a href=x>y</a>", "</a>"]
)
def test_a_page_of_any_shape_is_read_in_linear_time(piece: str) -> None:
    content = (piece * (4_000_000 // len(piece))).encode()
    started = time.process_time()
    with suppress(PublishError):
        client.parse_page(content, "text/html", "https://host/a/")
    # Trees of such pages of 16 MB took a minute.
    assert time.process_time() - started < 6


def test_links_as_indexes_write_them() -> None:
    page = (
        b"""<!DOCTYPE html><meta name="pypi:repository-version" content="1.1"><BASE HREF="/x/">
    <!-- <a href="no">no-1.tar.gz</a> --><a data-requires-python=">=3.10,<4" href='a-1.tar.gz#sha256=ab&amp;egg=c'>
    a-1.tar.gz </a><a>none</a><A class=q href=/y/b-2.whl#md5=1>b<wbr>-2.whl</A><a href="u">"""
        + (b"c" * 300)
        + b"</a>"
    )
    assert client.parse_page(page, "text/html; charset=nonsense", "https://host/a/") == {
        "a-1.tar.gz": IndexedFile("https://host/x/a-1.tar.gz", "ab"),
        "b-2.whl": IndexedFile("https://host/y/b-2.whl", None),
    }
    later = page.replace(b"1.1", b"2.0")
    with pytest.raises(PublishError, match="is not a page of a package index"):
        client.parse_page(later, "text/html", "https://host/a/")
