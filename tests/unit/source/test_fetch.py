"""Local directories, the tree hash, and malformed sources."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pytest

from modelwheel.errors import SourceError, StoreError
from modelwheel.source.fetch import fetch, source_key, tree_sha256
from modelwheel.spec.sources import DirectorySource
from modelwheel.store.store import Store
from tests.support.portability import IS_WINDOWS, both_systems
from tests.support.sources import (
    MODEL,
    POINTER,
    TREE,
    archive_source,
    directory_source,
    read,
    refusal,
    write,
)

pytestmark = pytest.mark.usefixtures(both_systems.__name__)


def test_the_tree_hash_is_what_the_shell_lines_give(tmp_path: Path) -> None:
    files = {**MODEL, "a b/\u00e9": b"1", "B": b"2", "a-c": b"3", "a/c": b"4", "\U0001f600": b"5"}
    write(tmp_path, files)
    (tmp_path / "empty").mkdir()
    lines = source_documentation().split("In a shell:\n")[1].replace("cd saved_model", "")
    done = subprocess.run(["bash", "-c", lines], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode().split()[0] == tree_sha256(tmp_path)


def source_documentation() -> str:
    from modelwheel.source import fetch as source

    assert source.__doc__ is not None
    return source.__doc__


def test_a_local_directory(tmp_path: Path, store: Store) -> None:
    source = directory_source(write(tmp_path / "model", MODEL), TREE)
    model = fetch(source, store)
    assert read(model.directory) == MODEL
    assert (model.tree_sha256, model.commit) == (TREE, None)
    assert model.key == source_key(source)
    assert str(tmp_path) not in str(model.provenance)  # two places give the same wheel
    assert list(store.root.glob("blobs/*")) == []


def test_a_change_during_the_build_does_not_matter(tmp_path: Path, store: Store) -> None:
    source = directory_source(write(tmp_path / "model", MODEL))
    model = fetch(source, store)
    write(tmp_path / "model", {"saved_model.pb": b"changed"})
    (tmp_path / "model" / "assets" / "empty").unlink()
    assert read(model.directory) == MODEL
    again = fetch(source, store)
    assert again.key == source_key(source) != model.key
    assert "expected tree SHA-256" in refusal(directory_source(source.location, TREE), store)


def test_a_linked_directory_is_followed_but_no_link_in_it(tmp_path: Path, store: Store) -> None:
    real = write(tmp_path / "real", MODEL)
    (tmp_path / "model").symlink_to("real")
    assert read(fetch(directory_source(tmp_path / "model"), store).directory) == MODEL
    (real / "odd").symlink_to("/etc/passwd")
    message = refusal(directory_source(tmp_path / "model"), store)
    assert "'odd' is a symbolic link, not a regular file" in message
    with pytest.raises(SourceError, match="symbolic link"):
        source_key(directory_source(tmp_path / "model"))


def test_directories_that_are_not_there(tmp_path: Path, store: Store) -> None:
    write(tmp_path, {"saved_model/saved_model.pb": b"", "file": b""})
    near = refusal(directory_source(tmp_path / "save_model"), store)
    assert f"did you mean '{tmp_path}/saved_model'?" in near
    assert "correct the path" in refusal(directory_source(tmp_path / "x" / "y"), store)
    assert "is a file" in refusal(directory_source(tmp_path / "file"), store)
    assert "there is nothing" in refusal(directory_source(make_empty(tmp_path / "empty")), store)


def foreign(tmp_path: Path, name: str, sha256: str | None = None) -> DirectorySource:
    """A directory as a spec names it that is in another checkout than the directory is."""
    spec = tmp_path / "checkout" / "model_specs"
    spec.mkdir(parents=True, exist_ok=True)
    (tmp_path / "checkout" / ".git").touch()
    return DirectorySource(directory=f"../../{name}", sha256=sha256).resolve(spec)


def test_what_is_in_a_directory_outside_the_checkout_is_not_told(
    tmp_path: Path, store: Store
) -> None:
    private = write(tmp_path / "private", {"secret-name": b"x"})
    assert "secret-name" in refusal(directory_source(private), store)  # the user typed it
    assert "secret-name" not in refusal(foreign(tmp_path, "private"), store)
    assert "correct the path" in refusal(foreign(tmp_path, "privat"), store)
    write(private, MODEL)
    mismatch = refusal(foreign(tmp_path, "private", "0" * 64), store)
    assert "which it does not have" in mismatch
    assert tree_sha256(private) not in mismatch
    (private / "secret-link").symlink_to("/")
    assert "secret-link" not in refusal(foreign(tmp_path, "private"), store)
    inside = write(tmp_path / "checkout" / "inside", {"own-name": b"x"})
    assert "own-name" in refusal(foreign(tmp_path, f"checkout/{inside.name}"), store)


def test_a_directory_is_judged_before_it_is_copied_or_hashed(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr("modelwheel.source.directory.digest_stream", fail)
    home = write(tmp_path / "home", {"a": b"x"})
    assert "is not a SavedModel" in refusal(directory_source(home), store)
    with (home / "large").open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(SourceError, match=r"more than 4\.29 GB"):
        fetch(directory_source(home), store)
    with pytest.raises(SourceError, match=r"more than 4\.29 GB"):
        source_key(directory_source(home))


def test_lfs_pointers(tmp_path: Path, store: Store) -> None:
    model = write(tmp_path / "model", MODEL | {"variables/variables.index": POINTER})
    message = refusal(directory_source(model), store)
    assert "'variables/variables.index' is a Git LFS pointer" in message


def make_empty(directory: Path) -> Path:
    directory.mkdir()
    return directory


@pytest.mark.skipif(IS_WINDOWS, reason="Windows has no permissions of this kind")
def test_an_unreadable_file_is_named() -> None:
    with tempfile.TemporaryDirectory() as place:  # where another user may look
        Path(place).chmod(0o777)
        model = write(Path(place) / "model", MODEL)
        (model / "saved_model.pb").chmod(0)
        store = Store(Path(place) / "store")
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        try:
            message = refusal(directory_source(model), store)
        finally:
            store.close()
            if is_root:
                os.seteuid(0)
    assert f"cannot read {model / 'saved_model.pb'}: Permission denied" in message


def test_too_many_files_are_refused(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelwheel.source.rules.MAX_MODEL_FILES", 20)
    model = write(tmp_path / "model", MODEL)
    for number in range(17):
        (model / str(number)).touch()
    assert "more than 20 files" in refusal(directory_source(model), store)


def test_a_model_in_a_read_only_store_is_fetched_without_a_lock(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.zip"
    with zipfile.ZipFile(model, "w") as archive:
        for name, content in MODEL.items():
            archive.writestr(name, content)
    source = archive_source(model.as_uri(), hashlib.sha256(model.read_bytes()).hexdigest())
    first = fetch(source, store)
    model.unlink()

    def refuse(*_: object) -> None:
        raise StoreError("the file system is read-only")

    monkeypatch.setattr(Store, "lock", refuse)
    again = fetch(source, Store(store.root))
    assert (again.key, read(again.directory)) == (first.key, MODEL)
