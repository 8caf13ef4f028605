"""Fetching from git: what is pinned is what arrives, or a sentence; nothing is run."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelwheel.source.download import Transfer
from modelwheel.source.fetch import (
    FetchedModel,
    fetch,
    look_up,
    source_key,
)
from modelwheel.source.git import fetching as git_module
from modelwheel.source.git import repository as git_repository
from modelwheel.source.git.repository import Remote
from modelwheel.spec import GitSource
from modelwheel.store.store import Store
from modelwheel.util.processes.process import Ceiling
from tests.support.repositories import OddRepository, isolate_git
from tests.support.sources import (
    MODEL,
    POINTER,
    TREE,
    Handler,
    closed_port,
    directory_source,
    git_source,
    read,
    refusal,
    serve,
    write,
)

_SECONDS = 120
"""After this long, what should end at once does not end at all."""


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's git configuration; tests may add to it."""
    path = tmp_path / "gitconfig"
    isolate_git(monkeypatch, path)
    return path


def in_model(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"test/model/{name}": content for name, content in files.items()}


@pytest.fixture
def repository(tmp_path: Path) -> OddRepository:
    return OddRepository(tmp_path / "data")


@pytest.fixture
def commit(repository: OddRepository) -> str:
    """The commit to fetch: neither the first nor the last."""
    repository.commit({"README": b"first"})
    commit = repository.commit({**in_model(MODEL), "other/large": b"elsewhere" * 1000})
    repository.commit(in_model({"saved_model.pb": b"newer"}))
    return commit


# What arrives


def check(model: FetchedModel, commit: str) -> None:
    assert read(model.directory) == MODEL
    assert model.tree_sha256 == TREE
    assert model.commit == commit


@pytest.mark.parametrize("form", ["{}", "file://{}", "{}/.git"])
@pytest.mark.parametrize("filter_", ["true", "false"])
def test_a_pinned_commit_arrives(
    repository: OddRepository, commit: str, store: Store, form: str, filter_: str
) -> None:
    repository.git("config", "uploadpack.allowFilter", filter_)
    url = form.format(repository.directory)
    source = git_source(url, commit, "test/model", TREE)
    model = fetch(source, store)
    check(model, commit)
    assert model.key == source_key(source)
    assert model.provenance == {
        "kind": "git",
        "url": url,
        "commit": commit,
        "path": "test/model",
        "tree_sha256": TREE,
    }


@pytest.mark.parametrize("path", ["test/model", "test/model/", "./test/model"])
def test_spellings_of_a_path(
    repository: OddRepository, commit: str, store: Store, path: str
) -> None:
    source = GitSource(git=str(repository.directory), commit=commit, path=path)
    check(fetch(source, store), commit)


def test_the_root_of_a_repository(repository: OddRepository, store: Store) -> None:
    commit = repository.commit(MODEL)
    for path in ("", "."):
        check(fetch(git_source(str(repository.directory), commit, path), store), commit)


def test_only_the_pinned_commit_and_path_are_transferred(
    repository: OddRepository, commit: str, tmp_path: Path
) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    scratch, target = tmp_path / "scratch", tmp_path / "target"
    scratch.mkdir()
    target.mkdir()
    remote = Remote(str(repository.directory))
    git_module.fetch_tree(remote, commit, "test/model", target, scratch, Transfer(60))
    fetched = ["git", f"--git-dir={scratch / 'commit.git'}"]
    everything = [*fetched, "rev-list", "--objects", "--missing=print", "--all", commit]
    listing = subprocess.run(everything, capture_output=True, check=True, text=True).stdout.split()
    assert len([word for word in listing if word.startswith("?")]) == 2  # README, other/large
    history = subprocess.run([*fetched, "rev-list", commit], capture_output=True, check=True)
    assert history.stdout.split() == [commit.encode()]


def test_the_files_are_transferred_in_one_go(
    repository: OddRepository,
    commit: str,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(tmp_path / "trace"))
    fetch(git_source(str(repository.directory), commit, "test/model"), store)
    events = map(json.loads, (tmp_path / "trace").read_text().splitlines())
    started = [event["argv"] for event in events if event["event"] == "start"]
    servers = [argv for argv in started if "upload-pack" in " ".join(argv)]
    assert len(servers) == 2  # one for the commit, one for all its files


def test_git_redirects_urls_as_the_user_configured(
    repository: OddRepository, commit: str, store: Store, configuration: Path
) -> None:
    with configuration.open("a") as file:
        file.write(f'[url "{repository.directory}"]\n insteadOf = https://example.org/data.git\n')
    model = fetch(git_source("https://example.org/data.git", commit, "test/model"), store)
    check(model, commit)
    assert model.provenance["url"] == "https://example.org/data.git"


def test_a_relative_url_is_relative_to_the_caller(
    repository: OddRepository, commit: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.directory.parent)
    check(fetch(git_source("./data", commit, "test/model"), store), commit)


def test_repositories_with_sha256_ids(tmp_path: Path, store: Store) -> None:
    repository = OddRepository(tmp_path / "data", "--object-format=sha256")
    commit = repository.commit(in_model(MODEL))
    assert len(commit) == 64
    check(fetch(git_source(str(repository.directory), commit, "test/model"), store), commit)


def test_what_was_fetched_once_is_not_fetched_again(
    repository: OddRepository, commit: str, store: Store
) -> None:
    source = git_source(str(repository.directory), commit, "test/model")
    first = fetch(source, store)
    shutil.rmtree(repository.directory)
    check(fetch(source, Store(store.root)), commit)
    first.directory.joinpath("saved_model.pb").chmod(0o644)
    first.directory.joinpath("saved_model.pb").write_bytes(b"damaged")
    # What somebody damages is never handed out again: it would be fetched anew.
    assert "no git repository at" in refusal(source, Store(store.root))


def test_the_tree_is_known_once_it_was_fetched(
    repository: OddRepository, commit: str, store: Store, tmp_path: Path
) -> None:
    source = git_source(str(repository.directory), commit, "test/model")
    assert look_up(source, store).tree_sha256 is None
    fetched = fetch(source, store)
    known = look_up(source, store)
    assert known.tree_sha256 == TREE
    assert (known.key, known.provenance) == (fetched.key, fetched.provenance)
    assert look_up(directory_source(write(tmp_path / "model", MODEL)), store).tree_sha256 == TREE


def test_a_fetched_model_is_read_only_and_goes_with_the_store(
    repository: OddRepository, commit: str, store: Store
) -> None:
    directory = fetch(git_source(str(repository.directory), commit, "test/model"), store).directory
    assert {path.stat().st_mode & 0o777 for path in directory.rglob("*.*")} == {0o444}
    store.close()
    assert not directory.exists()


@pytest.mark.parametrize("by_commit", [True, False])
def test_nothing_of_the_repository_or_the_configuration_is_run(
    repository: OddRepository,
    store: Store,
    configuration: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    by_commit: bool,
) -> None:
    marker = tmp_path / "marker"
    attributes = b"* filter=evil export-subst ident text eol=crlf\nsaved_model.pb export-ignore\n"
    commit = repository.commit({**in_model(MODEL), ".gitattributes": attributes})
    hooks = tmp_path / "templates" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {marker}\n")
        (hooks / name).chmod(0o755)
    with configuration.open("a") as file:
        file.write(f'[filter "evil"]\n smudge = touch {marker}\n required = true\n')
        file.write(f"[init]\n templateDir = {hooks.parent}\n[core]\n hooksPath = {hooks}\n")
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(hooks.parent))
    repository.git("-c", "core.hooksPath=/dev/null", "update-server-info")
    with serve(repository.directory) as address:
        url = str(repository.directory) if by_commit else f"http://{address}/.git"
        check(fetch(git_source(url, commit, "test/model"), store), commit)
    assert not marker.exists()


def test_a_git_hook_may_run_us(
    repository: OddRepository,
    commit: str,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    foreign = OddRepository(tmp_path / "foreign")
    before = read(foreign.directory)
    for variable in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"):
        monkeypatch.setenv(variable, str(foreign.directory / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(foreign.directory / ".git" / "index"))
    check(fetch(git_source(str(repository.directory), commit, "test/model"), store), commit)
    assert read(foreign.directory) == before


def test_replaced_objects_do_not_count(
    repository: OddRepository, commit: str, store: Store
) -> None:
    repository.git("replace", commit, "HEAD")
    check(fetch(git_source(str(repository.directory), commit, "test/model"), store), commit)


# Servers


class Forbidding(Handler):
    """Wants a password and accepts none."""

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic realm=x")
        self.end_headers()


def test_a_server_that_gives_out_branches_only(
    repository: OddRepository, commit: str, store: Store
) -> None:
    repository.git("update-server-info")  # git's plain-file protocol: no commit by its id
    with serve(repository.directory) as address:
        url = f"http://{address}/.git"
        check(fetch(git_source(url, commit, "test/model"), store), commit)
        unknown = refusal(git_source(url, "1" * 40), store)
    assert f"has no commit {'1' * 40}" in unknown


def test_an_unreachable_host(store: Store) -> None:
    url = f"http://127.0.0.1:{closed_port()}/x"
    assert f"cannot reach the host of {url}" in refusal(git_source(url, "1" * 40), store)


def test_a_silent_host(store: Store) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = f"git://127.0.0.1:{server.getsockname()[1]}/x"
        message = refusal(git_source(url, "1" * 40), store, timeout=0.5)
    assert f"fetching {url} took longer than 0.5 s" in message


def test_a_host_that_wants_a_password(store: Store, tmp_path: Path) -> None:
    with serve(tmp_path, Forbidding) as address:
        message = refusal(git_source(f"http://{address}/x", "1" * 40), store)
    assert "access to" in message
    assert "credential helper" in message


def test_credentials_reach_no_message_log_or_file(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serve(tmp_path, Forbidding) as address:
        url = f"http://canary:canary@{address}/x?canary"
        message = refusal(git_source(url, "1" * 40), store)
    message += refusal(git_source(f"http://canary@127.0.0.1:{closed_port()}/", "1" * 40), store)
    message += refusal(git_source("ext::https://canary@x/", "1" * 40), store)
    assert "canary" not in message + caplog.text
    assert not any(b"canary" in content for content in read(store.root).values())


def test_credentials_reach_no_record(
    repository: OddRepository, commit: str, store: Store, configuration: Path
) -> None:
    url = "https://canary:canary@example.org/data"
    with configuration.open("a") as file:
        file.write(f'[url "{repository.directory}"]\n insteadOf = {url}\n')
    model = fetch(git_source(url, commit, "test/model"), store)
    assert model.provenance["url"] == "https://***@example.org/data"
    assert not any(b"canary" in content for content in read(store.root).values())
    # Another user's credentials give the same key.
    assert model.key == source_key(git_source("https://x@example.org/data", commit, "test/model"))


# What is refused


def test_an_unknown_commit(repository: OddRepository, commit: str, store: Store) -> None:
    unknown = commit[:-1] + ("0" if commit[-1] != "0" else "1")
    message = refusal(git_source(str(repository.directory), unknown, "test/model"), store)
    assert f"has no commit {unknown}; push it, or pin a commit" in message


def test_a_tag_object_is_not_a_commit(repository: OddRepository, commit: str, store: Store) -> None:
    repository.git("tag", "--annotate", "--message=x", "v1", commit)
    tag = repository.git("rev-parse", "v1")
    message = refusal(git_source(str(repository.directory), tag, "test/model"), store)
    assert "is it a tag object" in message


def test_a_missing_path_names_the_nearest(
    repository: OddRepository, commit: str, store: Store
) -> None:
    message = refusal(git_source(str(repository.directory), commit, "test/modle"), store)
    assert (
        f"no file or directory 'test/modle' in commit {commit}; did you mean 'test/model'"
        in message
    )


def test_a_directory_that_is_no_saved_model(
    repository: OddRepository, commit: str, store: Store
) -> None:
    message = refusal(git_source(str(repository.directory), commit, "test"), store)
    assert "is not a SavedModel: did you mean 'model' in it?" in message
    message = refusal(git_source(str(repository.directory), commit, "other"), store)
    assert "it has no saved_model.pb; there is 'large'" in message
    text = repository.commit({"saved_model.pbtxt": b""})
    assert "save it in binary" in refusal(git_source(str(repository.directory), text), store)


def test_another_tree_than_the_pinned_one(
    repository: OddRepository, commit: str, store: Store
) -> None:
    source = git_source(str(repository.directory), commit, "test/model", "0" * 64)
    message = refusal(source, store)
    assert f"expected tree SHA-256 {'0' * 64}, got {TREE}" in message
    assert "the data changed or the pin is wrong" in message


def test_there_is_no_repository(tmp_path: Path, store: Store) -> None:
    for url in (str(tmp_path), f"{tmp_path}/nowhere"):
        assert f"no git repository at {url}" in refusal(git_source(url, "1" * 40), store)


def test_a_missing_git_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "install 'git'" in refusal(git_source("x", "1" * 40), store)


def test_no_url_is_an_option_or_a_command(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext")
    marker = tmp_path / "marker"
    for url in (
        f"--upload-pack=touch {marker}",
        f"ext::touch {marker}",
        f"$(touch {marker})",
        f"ssh://-oProxyCommand=touch {marker}/x",
        f"-u touch {marker};:x",
    ):
        refusal(git_source(url, "1" * 40), store)
    assert not marker.exists()


def test_a_pack_that_unpacks_to_gigabytes_meets_a_limit(
    repository: OddRepository, commit: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux can lower the limits of a program that runs")
    monkeypatch.setattr(git_repository, "_CEILING", Ceiling(memory_bytes=1 << 30, file_bytes=1000))
    message = refusal(git_source(str(repository.directory), commit, "test/model"), store)
    assert "git" in message


def test_lfs_pointers(repository: OddRepository, store: Store) -> None:
    commit = repository.commit(in_model(MODEL | {"variables/variables.index": POINTER}))
    message = refusal(git_source(str(repository.directory), commit, "test/model"), store)
    assert "has files in Git LFS that are not on this machine" in message
