"""Sources that are downloaded: files, records of Zenodo, releases on GitHub, packages of an index."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from modelwheel.source import download, kept
from modelwheel.source.fetch import fetch, look_up, source_key
from modelwheel.source.hosts import github, zenodo
from modelwheel.spec.sources import (
    ExtraFile,
    FileSource,
    GitHubReleaseSource,
    PyPISource,
    ZenodoSource,
    source_of,
)
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import collect_garbage
from tests.support.file_host import Answer, FileHost, serve_files
from tests.support.indexes import PASSWORD, USER, serve_index
from tests.support.sources import MODEL, closed_port, onnx_with_weights, read, refusal, write
from tests.unit.source.test_archive import tar_gz

CONTENT = bytes(range(256)) * 400
DIGEST = sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # no ~/.netrc
    for name in ("GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "FIRST_WAIT", 0.01)


@pytest.fixture
def host() -> Iterator[FileHost]:
    with serve_files() as host:
        host.files["/models/m.keras"] = CONTENT
        yield host


def file_source(host: FileHost, place: str = "/models/m.keras", **fields: Any) -> FileSource:
    """With an address that no spec may have: it is http."""
    given = {"file": f"{host.url}{place}", "path": ".", "sha256": DIGEST, "beside": {}}
    return FileSource.model_construct(**{**given, **fields})


# Files


def test_a_file_is_the_model(host: FileHost, store: Store) -> None:
    source = file_source(host, "/models/m.keras?download=1")
    model = fetch(source, store)
    assert read(model.directory) == {"m.keras": CONTENT}
    assert model.key == source_key(source)
    assert model.provenance == {
        "kind": "file",
        "url": f"{host.url}/models/m.keras?***",
        "path": "",
        "sha256": DIGEST,
        "tree_sha256": model.tree_sha256,
    }
    # It is known without fetching it again.
    assert look_up(source, Store(store.root)).tree_sha256 == model.tree_sha256
    assert len(host.seen) == 1


def test_a_file_of_this_machine(tmp_path: Path, store: Store) -> None:
    (tmp_path / "m.keras").write_bytes(CONTENT)
    source = FileSource(file=(tmp_path / "m.keras").as_uri(), sha256=DIGEST)
    assert read(fetch(source, store).directory) == {"m.keras": CONTENT}


def test_a_file_may_be_an_archive(host: FileHost, store: Store) -> None:
    content = tar_gz()
    host.files["/m.tar.gz"] = content
    digest = sha256(content).hexdigest()
    source = file_source(host, "/m.tar.gz", sha256=digest, path="pack/model")
    assert read(fetch(source, store).directory) == MODEL


WEIGHTS = {"m.onnx.data": b"weights", "more/w.bin": b"more"}


@pytest.mark.parametrize("location", WEIGHTS)
def test_weights_beside_a_file(host: FileHost, store: Store, location: str) -> None:
    content = onnx_with_weights(location)
    host.files |= {"/models/m.onnx": content}
    host.files |= {f"/models/{name}": weights for name, weights in WEIGHTS.items()}
    digest = sha256(content).hexdigest()
    without = file_source(host, "/models/m.onnx", sha256=digest)
    said = refusal(without, store)
    assert f"beside: {{{location}: SHA256}}" in said
    pins = {location: sha256(WEIGHTS[location]).hexdigest()}
    source = without.model_copy(update={"beside": pins})
    model = fetch(source, store)
    name = location.rpartition("/")[2]
    assert read(model.directory) == {"m.onnx": content, name: WEIGHTS[location]}
    again = source_of({**model.provenance, "url": "https://example.org/models/m.onnx"})
    assert isinstance(again, FileSource)
    assert again.beside == pins
    wrong = without.model_copy(update={"beside": {location: DIGEST}})
    assert f"expected SHA-256 {DIGEST}" in refusal(wrong, store)


def test_samples_beside_a_file(host: FileHost, store: Store) -> None:
    host.files["/models/samples.npz"] = b"samples"
    source = file_source(host).with_extras(ExtraFile("samples.npz"))
    assert "needs file 'samples.npz' beside it; pin each file" in refusal(source, store)
    pins = {"samples.npz": sha256(b"samples").hexdigest()}
    source = source.model_copy(update={"beside": pins})
    model = fetch(source, store)
    assert read(model.directory) == {"m.keras": CONTENT, "samples.npz": b"samples"}
    # Without them in the spec, they are not part of the model.
    other = fetch(file_source(host, beside=pins), store)
    assert other.key != model.key
    assert read(other.directory) == {"m.keras": CONTENT}


# Connections


@pytest.mark.parametrize("tagged", [True, False])
def test_a_download_goes_on_where_it_broke_off(
    host: FileHost, store: Store, caplog: pytest.LogCaptureFixture, *, tagged: bool
) -> None:
    host.tagged = tagged
    host.next = [Answer(cut=1000), Answer(cut=500)]
    assert read(fetch(file_source(host), store).directory) == {"m.keras": CONTENT}
    asked = [headers.get("range") for _, headers in host.seen]
    assert asked == ([None, "bytes=1000-", "bytes=1500-"] if tagged else [None] * 3)
    assert "trying again in 10 ms (2 of 7)" in caplog.text


def test_the_next_command_goes_on_with_a_download(
    host: FileHost, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_MIN_BYTES", 100)
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    host.next = [Answer(cut=1000)]
    assert "the connection was lost" in refusal(file_source(host), store)
    host.next = [Answer(cut=500)]
    assert "the connection was lost" in refusal(file_source(host), store)
    assert read(fetch(file_source(host), Store(store.root)).directory) == {"m.keras": CONTENT}
    asked = [headers.get("range") for _, headers in host.seen]
    assert asked == [None, "bytes=1000-", "bytes=1500-"]
    assert [path.name for path in store.stopped_downloads.iterdir()] == [f"{DIGEST}.tag"]
    # Once a day has passed, garbage is collected.
    os.utime(store.stopped_downloads / f"{DIGEST}.tag", (0, 0))
    collect_garbage(store, 0)
    assert list(store.stopped_downloads.iterdir()) == []


def test_a_kept_beginning_of_another_file_is_not_used(
    host: FileHost, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_MIN_BYTES", 100)
    write(store.stopped_downloads, {DIGEST: b"x" * 1000, f"{DIGEST}.tag": b'"old"'})
    assert read(fetch(file_source(host), store).directory) == {"m.keras": CONTENT}
    assert [headers["if-range"] for _, headers in host.seen] == ['"old"']


def test_a_file_that_changed_on_the_way_starts_over(
    host: FileHost, store: Store, tmp_path: Path
) -> None:
    old = host.files["/models/m.keras"][::-1]
    host.next = [Answer(headers={"ETag": '"old"'}, body=old[:1000]), Answer(416)]
    # The first answer is complete, and of another content: the hash decides.
    assert "expected SHA-256" in refusal(file_source(host), store)
    host.next = [Answer(cut=1000), Answer(416)]
    assert read(fetch(file_source(host), store).directory) == {"m.keras": CONTENT}
    host.next = [Answer(cut=1000), Answer(206, {"Content-Range": "bytes 5-9/10"}, b"wrong")]
    other = Store(tmp_path / "other")
    assert read(fetch(file_source(host), other).directory) == {"m.keras": CONTENT}


def test_a_host_that_asks_to_wait(
    host: FileHost, store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("modelwheel.util.http.time.sleep", waited.append)
    host.next = [Answer(429, {"Retry-After": "7"})]
    fetch(file_source(host), store)
    assert waited == [7.0]
    assert "answered 429; trying again in 7 s (2 of 7)" in caplog.text


def test_what_refuses_connections_is_tried_three_times(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    source = FileSource.model_construct(
        file=f"http://127.0.0.1:{closed_port()}/m.keras", path=".", sha256=DIGEST, beside={}
    )
    assert "the host refused the connection" in refusal(source, store)
    waits = [record.getMessage() for record in caplog.records if "trying" in record.message]
    assert [text.rpartition("(")[2] for text in waits] == ["2 of 3)", "3 of 3)"]
    assert all("refused the connection; trying again" in text for text in waits)


def test_a_proxy_is_used_as_the_variables_say(
    host: FileHost, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_files() as proxy:
        # A proxy is asked for the whole address.
        proxy.files["http://models.invalid/m.keras"] = CONTENT
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        other = file_source(host, file="http://models.invalid/m.keras")
        assert read(fetch(other, store).directory) == {"m.keras": CONTENT}
        assert proxy.paths() == ["http://models.invalid/m.keras"]
        fetch(file_source(host, "/models/m.keras?own", sha256=DIGEST), Store(store.root / "other"))
    assert host.paths() == ["/models/m.keras?own"]


def test_progress_is_told(host: FileHost, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download.Meter, "_INTERVAL", 0.0)
    told: list[str] = []
    fetch(file_source(host), store, tell=told.append)
    assert told[-1].startswith("102 kB of 102 kB, ")
    assert told[-1].endswith("/s")


def test_what_its_host_says_is_too_large_is_not_downloaded(
    host: FileHost, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_MODEL_BYTES", 1000)
    assert "longer than 1 kB" in refusal(file_source(host), store)


# Zenodo


@pytest.fixture
def record(host: FileHost, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A record as Zenodo describes it."""
    monkeypatch.setattr(zenodo, "HOSTS", {"5281": host.url})
    file = {
        "key": "m.keras",
        "size": len(CONTENT),
        "checksum": f"md5:{hashlib.md5(CONTENT).hexdigest()}",
    }
    record = {"id": 42, "conceptrecid": "41", "doi": "10.5281/zenodo.42", "files": [file]}
    host.put_json("/api/records/42", record)
    host.files["/records/42/files/m.keras"] = CONTENT
    return record


def zenodo_source(file: str = "m.keras", digest: str = DIGEST) -> ZenodoSource:
    return ZenodoSource(zenodo="https://doi.org/10.5281/zenodo.42", file=file, sha256=digest)


@pytest.mark.usefixtures("record")
def test_a_file_of_a_record(host: FileHost, store: Store) -> None:
    model = fetch(zenodo_source(), store)
    assert read(model.directory) == {"m.keras": CONTENT}
    assert host.paths() == ["/api/records/42", "/records/42/files/m.keras?download=1"]
    assert model.provenance["url"] == "https://doi.org/10.5281/zenodo.42"
    assert source_of(model.provenance) == zenodo_source()


@pytest.mark.usefixtures("record")
def test_a_wrong_pin_and_a_damaged_download_are_told_apart(host: FileHost, store: Store) -> None:
    message = refusal(zenodo_source(digest="0" * 64), store)
    assert f"got {DIGEST}: the file is what its host lists, so the pin is wrong" in message
    host.files["/records/42/files/m.keras"] = CONTENT[::-1]
    assert "the download was damaged" in refusal(zenodo_source(), store)


def test_what_a_record_says(host: FileHost, store: Store, record: dict[str, Any]) -> None:
    assert "has no file 'm.kreas'; did you mean 'm.keras'?" in refusal(
        zenodo_source("m.kreas"), store
    )
    record["files"][0]["size"] = 5 << 30
    host.put_json("/api/records/42", record)
    assert "has 5.37 GB, and a model has at most" in refusal(zenodo_source(), store)
    host.put_json("/api/records/42", {**record, "id": 43})
    assert "is the DOI of all versions of a record" in refusal(zenodo_source(), store)
    for answer, said in [
        (Answer(404), "correct source.zenodo"),
        (Answer(410), "the record was removed"),
        (Answer(403), "the record is restricted"),
        (Answer(200, body=b"<html>"), "did not answer with"),
        (Answer(200, body=b"[1]"), "did not answer with"),
    ]:
        host.next = [answer]
        assert said in refusal(zenodo_source(), store)


# Releases on GitHub


def asset(host: FileHost, **fields: Any) -> GitHubReleaseSource:
    given = {
        "github_release": f"{host.url}/owner/name",
        "tag": "v1+x",
        "asset": "m.keras",
        "sha256": DIGEST,
        "path": ".",
        "beside": {},
    }
    return GitHubReleaseSource.model_construct(**{**given, **fields})


def test_an_asset_of_a_public_release(host: FileHost, store: Store) -> None:
    host.files["/owner/name/releases/download/v1+x/m.keras"] = CONTENT
    model = fetch(asset(host), store)
    assert read(model.directory) == {"m.keras": CONTENT}
    message = refusal(asset(host, asset="other.keras"), store)
    assert "correct source.github_release, tag and asset, or set GH_TOKEN" in message


def test_an_asset_of_a_private_release(
    host: FileHost, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github, "token_for", lambda _: "canary")
    api = "/api/v3/repos/owner/name/releases"
    files = [{"name": "m.keras", "size": len(CONTENT), "url": f"{host.url}{api}/assets/7"}]
    host.put_json(f"{api}/tags/v1+x", {"assets": files})
    with serve_files() as storage:
        # As GitHub: the API redirects to a signed address of another host.
        storage.files["/signed"] = CONTENT
        host.next = []
        redirect = Answer(302, {"Location": f"{storage.url}/signed?signature=x"})
        release = Answer(body=host.files[f"{api}/tags/v1+x"])
        host.next = [release, redirect]
        assert read(fetch(asset(host), store).directory) == {"m.keras": CONTENT}
        ((_, headers),) = storage.seen
    assert "authorization" not in headers
    sent = [(headers["authorization"], headers["accept"]) for _, headers in host.seen]
    assert sent == [
        ("Bearer canary", "application/vnd.github+json"),
        ("Bearer canary", "application/octet-stream"),
    ]
    message = refusal(asset(host, asset="m.kears"), store)
    assert "has no asset 'm.kears'; did you mean 'm.keras'?" in message


def test_a_token_that_may_not_read_is_left_out(
    host: FileHost, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github, "token_for", lambda _: "canary")
    host.files["/owner/name/releases/download/v1+x/m.keras"] = CONTENT
    assert read(fetch(asset(host), store).directory) == {"m.keras": CONTENT}
    assert "authorization" not in host.seen[-1][1]


def test_tokens_are_for_their_hosts() -> None:
    both = {
        "GITHUB_TOKEN": "hub",
        "GH_ENTERPRISE_TOKEN": "enterprise",
        "GH_HOST": "git.example.org",
    }
    assert github.token_for("github.com", both) == "hub"
    assert github.token_for("git.example.org", both) == "enterprise"
    assert github.token_for("evil.example.org", both) is None
    assert github.token_for("github.com", {"GITHUB_TOKEN": ""}) is None


# Packages


def wheel(directory: Path, name: str = "voice", version: str = "1.0") -> tuple[str, str]:
    """A wheel with a model in it; its name and SHA-256."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as opened:
        opened.writestr(f"{name}/data/m.keras", CONTENT)
    file = directory / f"{name}-{version}-py3-none-any.whl"
    directory.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.getvalue())
    return file.name, sha256(content.getvalue()).hexdigest()


def package(digest: str, version: str = "1.0", **fields: str) -> PyPISource:
    path = "voice/data/m.keras"
    return PyPISource.model_validate(
        {"pypi": f"Voice=={version}", "sha256": digest, "path": path, **fields}
    )


def point_pip_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """Gives pip a configuration, and nothing else."""
    (tmp_path / "pip.conf").write_text(text)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)


def test_a_package_of_the_index_that_pip_uses(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, host: FileHost
) -> None:
    name, digest = wheel(tmp_path / "files")
    page = f'<a href="../../files/{name}#sha256={digest}">{name}</a><a href="x.exe">x.exe</a>'
    host.files["/simple/voice/"] = page.encode()
    host.files[f"/files/{name}"] = (tmp_path / "files" / name).read_bytes()
    host.files["/empty/voice/"] = b""
    text = f"[global]\nindex-url = {host.url}/wrong\n[download]\nindex-url = {host.url}/empty\n"
    point_pip_at(monkeypatch, tmp_path, text)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{host.url}/absent {host.url}/simple/")
    model = fetch(package(digest), store)
    assert read(model.directory) == {"m.keras": CONTENT}
    assert model.provenance == {
        "kind": "pypi",
        "pypi": "voice==1.0",
        "url": "pkg:pypi/voice@1.0",
        "path": "voice/data/m.keras",
        "sha256": digest,
        "tree_sha256": model.tree_sha256,
    }
    assert source_of(model.provenance) == package(digest)
    assert host.paths() == ["/empty/voice/", "/absent/voice/", "/simple/voice/", f"/files/{name}"]
    for source, said in [
        (package("0" * 64), f"has no file with SHA-256 {'0' * 64}; it has {name} ({digest})"),
        (package(digest, "2.0"), "voice has no version 2"),
        (package("0" * 64, file="voice-1.0.tar.gz"), "has no file 'voice-1.0.tar.gz'"),
    ]:
        assert said in refusal(source, Store(tmp_path / "other"))
    host.files.clear()
    assert "has no package 'voice'" in refusal(package("0" * 64), store)
    host.next = [Answer(401)] * 3
    message = refusal(package("0" * 64), store)
    assert "answered 401" in message
    assert "~/.netrc" in message


def test_a_package_of_a_real_index_that_wants_a_password(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_index(tmp_path / "index", protect="update,list,download") as index:
        name, digest = wheel(index.directory)
        address = index.url.replace("://", f"://{USER}:{PASSWORD}@")
        point_pip_at(monkeypatch, tmp_path, f"[global]\nindex-url = {address}simple/\n")
        # Its pages have no SHA-256: the file has to be named.
        model = fetch(package(digest, file=name), store)
        assert read(model.directory) == {"m.keras": CONTENT}
        message = refusal(package(digest, "2.0"), Store(tmp_path / "other"))
    assert PASSWORD not in message + str(model.provenance)


def test_a_package_in_a_directory_of_this_machine(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, digest = wheel(tmp_path / "links")
    point_pip_at(monkeypatch, tmp_path, f"[global]\nno-index = true\nfind-links = {tmp_path}/links")
    assert read(fetch(package(digest), store).directory) == {"m.keras": CONTENT}


def test_pip_itself_says_where_the_index_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from modelwheel.source.hosts import python_index

    point_pip_at(monkeypatch, tmp_path, "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    (page,) = python_index.find_indexes().pages
    assert page.startswith("https://")
    assert page.endswith("/simple")


def test_credentials_reach_no_log(
    host: FileHost, store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "modelwheel")
    monkeypatch.setattr(github, "token_for", lambda _: "canary")
    message = refusal(asset(host), store)
    host.next = [Answer(503, {"Location": "?canary"})] * 3
    message += refusal(file_source(host, "/none.keras?canary"), store)
    assert "canary" not in message + caplog.text
