"""Git LFS: objects in place of their pointers, from a host that answers as real ones do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import SourceError, UnsupportedModelError
from modelwheel.source import download
from modelwheel.source.fetch import fetch, source_key
from modelwheel.source.git import lfs
from modelwheel.source.git.lfs import Server
from modelwheel.source.git.lfs_server import origin_of
from modelwheel.spec.sources import DirectorySource, GitSource, HuggingFaceSource
from modelwheel.store.store import Store
from tests.support.lfs_host import Host, bare_copy, pointer, serve_git
from tests.support.repositories import Repository, isolate_git
from tests.support.sources import (
    MODEL,
    TREE,
    closed_port,
    git_source,
    onnx_with_weights,
    read,
    refusal,
    write,
)

WEIGHTS = "variables/variables.data-00000-of-00001"
POINTERS = {**MODEL, WEIGHTS: pointer(MODEL[WEIGHTS])}
OID = sha256(MODEL[WEIGHTS]).hexdigest()


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    monkeypatch.setenv("HOME", str(tmp_path))  # no ~/.netrc
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(download, "FIRST_WAIT", 0.01)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with serve_git(tmp_path / "hosted") as host:
        host.keep(MODEL[WEIGHTS])
        yield host


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def publish(repository: Repository, host: Host, files: dict[str, bytes]) -> GitSource:
    """The model of a repository that the host has."""
    commit = repository.commit(files)
    bare_copy(repository, host.root / "owner" / "name.git")
    return git_source(f"{host.url}/owner/name.git", commit, "model")


def below(directory: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{directory}/{name}": content for name, content in files.items()}


def test_an_object_arrives_in_place_of_its_pointer(
    repository: Repository, host: Host, store: Store
) -> None:
    source = publish(repository, host, below("model", POINTERS))
    model = fetch(source, store)
    assert read(model.directory) == MODEL
    # The tree hash, which a spec may pin, is that of the model; the commit pins it, too.
    assert model.tree_sha256 == TREE
    assert host.asked == [
        {
            "operation": "download",
            "transfers": ["basic"],
            "objects": [{"oid": OID, "size": len(MODEL[WEIGHTS])}],
            "hash_algo": "sha256",
        }
    ]
    asked = [headers for path, headers in host.seen if path.startswith("/objects/")]
    assert [headers["X-Private-Token"] for headers in asked] == ["object"]


def test_a_repository_without_pointers_asks_for_nothing(
    repository: Repository, host: Host, store: Store
) -> None:
    source = publish(repository, host, below("model", MODEL))
    assert read(fetch(source, store).directory) == MODEL
    assert host.asked == []


def test_many_objects_are_asked_for_in_parts(
    repository: Repository, host: Host, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lfs, "_BATCH", 2)
    more = {f"assets/{number}": b"%d" % number for number in range(5)}
    host.keep(*more.values())
    pointers = {name: pointer(content) for name, content in more.items()}
    source = publish(repository, host, below("model", {**POINTERS, **pointers}))
    assert read(fetch(source, store).directory) == {**MODEL, **more}
    assert [len(asked["objects"]) for asked in host.asked] == [2, 2, 2]


def test_credentials_of_git_are_used_for_the_server(
    repository: Repository, host: Host, store: Store
) -> None:
    host.user = ("jo", "canary")
    source = publish(repository, host, below("model", POINTERS))
    said = refusal(source, store)
    assert "was refused" in said
    helper = "!f() { echo username=jo; echo password=canary; }; f"
    repository.git("config", "--global", "credential.helper", helper)
    assert read(fetch(source, store).directory) == MODEL


def test_credentials_reach_no_other_host(
    repository: Repository, host: Host, store: Store, tmp_path: Path
) -> None:
    with serve_git(tmp_path / "hosted") as other:
        other.keep(MODEL[WEIGHTS])
        host.elsewhere = other.url
        source = publish(repository, host, below("model", POINTERS))
        assert read(fetch(source, store).directory) == MODEL
    ((path, headers),) = other.seen
    assert path == f"/objects/{OID}"
    assert not {"authorization", "x-private-token"} & set(map(str.lower, headers))


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("error", {"code": 404, "message": "gone"}, "git lfs push --all origin"),
        ("error", {"code": 410, "message": "x"}, "the owner of the repository removed it"),
        ("error", {"code": 499, "message": "odd\x1b"}, "odd\\x1b"),
        (
            "answer",
            (403, {"message": "no\nentry"}),
            "answered 403 (no\\x0aentry): access was refused",
        ),
        ("answer", (403, {"message": "over its data quota"}), "its quota of bandwidth is used up"),
        ("answer", (509, {}), "its quota of bandwidth is used up"),
        ("answer", (404, {"message": "Not Found"}), "correct lfs.url in its .lfsconfig"),
        ("answer", (200, {"objects": 5}), "did not answer as one"),
        ("answer", (200, {"transfer": "other"}), "offers no basic transfer"),
        ("change", {"oid": "0" * 64}, "answered for another object"),
        ("change", {"size": 1}, "in another size than its pointer has"),
        ("change", {"actions": {}}, "does not say where"),
        (
            "change",
            {"actions": {"download": {"href": "file:///etc/passwd"}}},
            "sends to an address that is not https",
        ),
        ("served", b"other", f"expected SHA-256 {OID}, got"),
    ],
)
def test_what_the_server_answers(
    repository: Repository, host: Host, store: Store, attribute: str, value: Any, said: str
) -> None:
    source = publish(repository, host, below("model", POINTERS))
    setattr(host, attribute, value)
    message = refusal(source, store)
    assert said in message
    assert "\n" not in message


def test_objects_larger_than_a_model_are_not_asked_for(
    repository: Repository, host: Host, store: Store
) -> None:
    large = pointer(b"x").replace(b"size 1", b"size 5000000000")
    source = publish(repository, host, below("model", {**MODEL, WEIGHTS: large}))
    assert "has 5 GB in Git LFS there, and a model has at most" in refusal(source, store)
    assert host.asked == []


@pytest.mark.parametrize(
    "text",
    [
        b"version https://git-lfs.github.com/spec/v2\noid sha256:%s\nsize 1\n" % OID.encode(),
        b"version https://git-lfs.github.com/spec/v1\nsize 1\n",
        b"version https://git-lfs.github.com/spec/v1\next-0-x sha256:%s\noid sha256:%s\nsize 1\n"
        % (OID.encode(), OID.encode()),
    ],
)
def test_a_pointer_of_another_kind(
    repository: Repository, host: Host, store: Store, text: bytes
) -> None:
    source = publish(repository, host, below("model", {**MODEL, WEIGHTS: text}))
    assert "a pointer of Git LFS that is damaged or of another version" in refusal(source, store)


def test_the_server_that_lfsconfig_names(repository: Repository, host: Host, store: Store) -> None:
    config = f"[lfs]\n url = {host.url}/elsewhere/info/lfs\n".encode()
    source = publish(repository, host, {**below("model", POINTERS), ".lfsconfig": config})
    assert read(fetch(source, store).directory) == MODEL
    (path,) = [path for path, _ in host.seen if path.endswith("/batch")]
    assert path == "/elsewhere/info/lfs/objects/batch"


@pytest.mark.parametrize(
    "url", ["file:///srv/lfs", "http://127.0.0.1:1/x", "https://jo:pw@example.org/x", "ssh://-x/y"]
)
def test_other_servers_in_lfsconfig_are_not_used(
    repository: Repository, host: Host, store: Store, url: str
) -> None:
    config = f"[lfs]\n url = {url}\n".encode()
    source = publish(repository, host, {**below("model", POINTERS), ".lfsconfig": config})
    message = refusal(source, store)
    assert "it must be an https address without credentials" in message
    assert "pw" not in message


def test_a_repository_on_this_machine_has_objects_or_says_where(
    repository: Repository, host: Host, store: Store, tmp_path: Path
) -> None:
    source = publish(repository, host, below("model", POINTERS))
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", source.git, str(clone))
    # From the remote of the clone.
    assert read(fetch(git_source(str(clone), source.commit, "model"), store).directory) == MODEL
    # From the clone itself.
    objects = write(clone, {f".git/lfs/objects/{OID[:2]}/{OID[2:4]}/{OID}": MODEL[WEIGHTS]})
    host.objects.clear()
    local = git_source(objects.as_uri(), source.commit, "model")
    assert read(fetch(local, store).directory) == MODEL
    # Without a remote.
    shutil.rmtree(clone / ".git" / "lfs")
    Repository.git(repository, f"--git-dir={clone / '.git'}", "remote", "remove", "origin")
    other = git_source(str(clone), source.commit, "model/")
    assert "are not on this machine; run `git lfs fetch --all` there" in refusal(other, store)


def checkout(repository: Repository, host: Host, files: dict[str, bytes]) -> DirectorySource:
    """The directory of a model in a clone that has pointers, as without `git lfs install`."""
    publish(repository, host, files)
    repository.git("remote", "add", "origin", f"{host.url}/owner/name.git")
    specs = write(repository.directory, {"specs/x.yaml": b""}) / "specs"
    return DirectorySource(directory="../model").resolve(specs)


def test_pointers_in_a_checkout(repository: Repository, host: Host, store: Store) -> None:
    source = checkout(repository, host, below("model", POINTERS))
    key = source_key(source)
    assert host.asked == []
    model = fetch(source, store)
    assert (read(model.directory), model.tree_sha256, model.key) == (MODEL, TREE, key)
    assert (repository.directory / "model" / WEIGHTS).read_bytes() == POINTERS[WEIGHTS]
    # What git-lfs has fetched is taken from there.
    write(repository.directory, {f".git/lfs/objects/{OID[:2]}/{OID[2:4]}/{OID}": MODEL[WEIGHTS]})
    host.asked.clear()
    assert read(fetch(source, store).directory) == MODEL
    assert host.asked == []


def test_pointers_outside_of_the_checkout_of_a_spec(
    repository: Repository, host: Host, store: Store, tmp_path: Path
) -> None:
    checkout(repository, host, below("model", POINTERS))
    specs = write(tmp_path / "others", {"specs/x.yaml": b""}) / "specs"
    source = DirectorySource(directory="../../repository/model").resolve(specs)
    assert f"{WEIGHTS!r} is a Git LFS pointer" in refusal(source, store)
    assert host.asked == []


EXTERNAL = {"model.onnx": onnx_with_weights("weights/a.bin"), "weights/a.bin": b"weights"}
ARRIVED = {"model.onnx": EXTERNAL["model.onnx"], "a.bin": b"weights"}


@pytest.mark.parametrize("kind", ["git", "checkout"])
def test_an_onnx_file_and_its_weights_are_pointers(
    repository: Repository, host: Host, store: Store, kind: str
) -> None:
    host.keep(*EXTERNAL.values())
    files = below("model", {name: pointer(content) for name, content in EXTERNAL.items()})
    if kind == "git":
        source = publish(repository, host, files).model_copy(update={"path": "model/model.onnx"})
        assert read(fetch(source, store).directory) == ARRIVED
    else:
        directory = checkout(repository, host, files).model_copy(update={"path": "model.onnx"})
        assert read(fetch(directory, store).directory) == ARRIVED
    assert len(host.asked) == 2


def test_a_repository_of_hugging_face(
    repository: Repository, host: Host, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.user = ("hf_user", "canary")
    commit = publish(repository, host, below("model", POINTERS)).commit
    shutil.move(host.root / "owner" / "name.git", host.root / "owner" / "name")
    monkeypatch.setenv("HF_ENDPOINT", f"{host.url}/")
    source = HuggingFaceSource(huggingface="owner/name", commit=commit, path="model")
    refused = refusal(source, store)
    assert "access to" in refused
    assert "HF_TOKEN" in refused
    monkeypatch.setenv("HF_TOKEN", "canary")
    model = fetch(source, store)
    assert read(model.directory) == MODEL
    assert model.provenance == {
        "kind": "huggingface",
        "huggingface": "owner/name",
        "url": "https://huggingface.co/owner/name",
        "commit": commit,
        "path": "model",
        "tree_sha256": TREE,
    }
    assert not any(b"canary" in content for content in read(store.root).values())


def test_weights_without_their_network_are_not_downloaded(
    repository: Repository, host: Host, store: Store
) -> None:
    host.keep(b"weights")
    files = {"config.json": b"{}", "model.safetensors": pointer(b"weights")}
    source = publish(repository, host, below("model", files))
    with pytest.raises(UnsupportedModelError, match="optimum-cli export onnx"):
        fetch(source, store)
    assert host.asked == []


def test_the_token_of_hugging_face_reaches_its_host_alone(
    repository: Repository, host: Host, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("HF_TOKEN", "canary")
    host.user = ("hf_user", "canary")
    source = publish(repository, host, below("model", POINTERS))
    assert "was refused" in refusal(source, store)
    assert not any("Authorization" in headers for _, headers in host.seen)


def test_a_host_that_is_reached_by_ssh_says_where_its_server_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    href, header = "https://lfs.example.org/a", {"Authorization": "RemoteAuth x"}
    program = write(tmp_path, {"ssh": b'#!/bin/sh\necho "$@" >> seen\ncat answer\n'}) / "ssh"
    program.chmod(0o755)
    write(tmp_path, {"answer": json.dumps({"href": href, "header": header}).encode()})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{program} -o BatchMode=yes")

    def server(url: str) -> Server:
        def git(*args: str, content: bytes | None = None) -> str | None:  # noqa: ARG001
            return url if args[:2] == ("ls-remote", "--get-url") else None

        return origin_of(git, url, ("--blob", "x")).find_server()

    for url in ("git@example.org:owner/na;me.git", "ssh://git@example.org:2222/owner/name.git"):
        assert server(url) == Server(href, header)
    assert (tmp_path / "seen").read_text().splitlines() == [
        "-o BatchMode=yes git@example.org git-lfs-authenticate 'owner/na;me.git' download",
        "-o BatchMode=yes -p 2222 git@example.org git-lfs-authenticate owner/name.git download",
    ]
    write(tmp_path, {"answer": b'{"href": "http://lfs.example.org/a"}'})
    with pytest.raises(SourceError, match="at an address that is not https"):
        server("git@example.org:owner/name.git")
    # A host without that program has its server where https has it.
    program.write_text("#!/bin/sh\nexit 1\n")
    assert server("git@example.org:owner/name.git") == Server(
        "https://example.org/owner/name.git/info/lfs"
    )
