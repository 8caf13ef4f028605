"""The places that hold a store's files keep one contract."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modelwheel import extras
from modelwheel.errors import EnvironmentProblemError, StoreError, UsageError
from modelwheel.store.backends import objects
from modelwheel.store.backends.base import Backend, WrongSizeError
from modelwheel.store.backends.directory import DirectoryBackend, _rename_to_new
from modelwheel.store.backends.objects import ObjectBackend
from modelwheel.store.scratch import ScratchSpace
from modelwheel.util.places import is_url
from tests.support.object_stores import serve_objects, share_clients


@pytest.fixture(scope="module", params=["directory", "s3", "gs", "abfs"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a place for stores."""
    if request.param == "directory":
        yield str(tmp_path_factory.mktemp("stores"))
        return
    with serve_objects(request.param) as url, pytest.MonkeyPatch.context() as patch:
        share_clients(patch)
        yield url


@pytest.fixture
def backend(place: str) -> Backend:
    address = f"{place}/{uuid.uuid4().hex}"
    return ObjectBackend(address) if is_url(address) else DirectoryBackend(Path(address))


def test_a_file_is_written_once(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"other")
    assert backend.create("blobs/ab/abc", b"content")
    assert not backend.create("blobs/ab/abc", tmp_path / "other")
    assert backend.read("blobs/ab/abc") == b"content"
    backend.write("blobs/ab/abc", b"third")
    assert backend.read("blobs/ab/abc") == b"third"


def test_one_of_many_writers_wins(backend: Backend) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: backend.create("claims/k.1", b"%d" % n * 1000), range(8)))
    assert won.count(True) == 1
    assert backend.read("claims/k.1") == b"%d" % won.index(True) * 1000


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # of libraries
def test_a_large_file_is_written_in_parts(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_UPLOAD_PART", 5 << 20)  # no less is taken by S3
    content = bytes(range(256)) * (11 << 12)
    (tmp_path / "large").write_bytes(content)
    (tmp_path / "other").write_bytes(content[::-1])
    assert backend.create("blobs/ab/large", tmp_path / "large")
    assert not backend.create("blobs/ab/large", tmp_path / "other")
    copy = tmp_path / "copy"
    copy.write_bytes(content[: 9 << 20])
    backend.fetch("blobs/ab/large", copy, len(content))
    assert copy.read_bytes() == content


def test_what_is_not_there(backend: Backend, tmp_path: Path) -> None:
    backend.remove("leases/a.json")
    assert backend.stat("leases/a.json") is None
    assert list(backend.list("leases/")) == []
    with pytest.raises(FileNotFoundError):
        backend.read("leases/a.json")
    with pytest.raises(FileNotFoundError):
        backend.fetch("leases/a.json", tmp_path / "copy", 5)


def test_listings_are_by_the_beginning_of_names(backend: Backend) -> None:
    for name in ("actions/ab/1.json", "actions/ac/2.json", "blobs/ab/3"):
        backend.create(name, name.encode())
    assert {entry.name for entry in backend.list("actions/")} == {
        "actions/ab/1.json",
        "actions/ac/2.json",
    }
    assert [entry.name for entry in backend.list("actions/ac/2")] == ["actions/ac/2.json"]
    (entry,) = backend.list("blobs/")
    assert entry == backend.stat("blobs/ab/3")
    assert entry.size == len("blobs/ab/3")
    assert abs(entry.modified - backend.now()) < 60


def test_the_tag_follows_the_content(backend: Backend) -> None:
    def tag() -> str:
        entry = backend.stat("leases/a.json")
        assert entry is not None
        return entry.tag

    backend.write("leases/a.json", b"one")
    before = tag()
    assert tag() == before
    backend.write("leases/a.json", b"three")
    assert tag() != before


def test_a_download_goes_on_where_it_stopped(backend: Backend, tmp_path: Path) -> None:
    backend.create("blobs/ab/abc", b"beginning and end")
    copy = tmp_path / "copy"
    copy.write_bytes(b"BEGINNING")
    backend.fetch("blobs/ab/abc", copy, 17)
    assert copy.read_bytes() == b"BEGINNING and end"
    copy.unlink()
    with pytest.raises(WrongSizeError, match="is damaged: it has 17 bytes, not 99"):
        backend.fetch("blobs/ab/abc", copy, 99)


def test_names_cannot_lead_out_of_the_store(backend: Backend) -> None:
    actions: list[Callable[[str], object]] = [
        backend.read,
        backend.stat,
        backend.remove,
        lambda name: backend.write(name, b""),
        lambda name: backend.create(name, b""),
    ]
    for name in ("../x", "/etc/passwd", "blobs/../../x", "blobs//x", "C:/x", "blobs/a\\..\\b"):
        for action in actions:
            with pytest.raises(StoreError, match="not the name of a file of a store"):
                action(name)


def test_links_in_a_directory_are_not_followed(tmp_path: Path) -> None:
    backend = DirectoryBackend(tmp_path / "store")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "store" / "blobs").mkdir(parents=True)
    try:
        (tmp_path / "store" / "blobs" / "link").symlink_to(tmp_path / "secret")
        (tmp_path / "store" / "actions").symlink_to(tmp_path)
    except OSError:
        pytest.skip("this user cannot make symbolic links")
    assert list(backend.list("blobs/")) == list(backend.list("actions/")) == []
    with pytest.raises(StoreError):
        backend.read("blobs/link")


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    for name in "ab":
        (tmp_path / name).write_text(name)
    assert _rename_to_new(tmp_path / "a", tmp_path / "new")
    assert not _rename_to_new(tmp_path / "b", tmp_path / "new")
    assert (tmp_path / "new").read_text() == "a"


def test_a_directory_that_cannot_be_written_has_a_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ScratchSpace, "make_directory", refuse)
    assert abs(DirectoryBackend(tmp_path / "store").now() - time.time()) < 60


def test_a_backend_is_pickled_by_its_address(place: str) -> None:
    address = f"{place}/{uuid.uuid4().hex}"
    backend = ObjectBackend(address) if is_url(address) else DirectoryBackend(Path(address))
    backend.create("blobs/ab/abc", b"content")
    other: Backend = pickle.loads(pickle.dumps(backend))
    assert other.address == address
    assert other.read("blobs/ab/abc") == b"content"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.org/store", "must be a directory, or one of s3://BUCKET/PREFIX, gs://"),
        ("s3:///store", "must be a directory, or one of s3://BUCKET/PREFIX, gs://"),
        ("s3://key:canary@bucket/store", "credentials come from the environment"),
    ],
)
def test_addresses_that_are_none(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        ObjectBackend(url)
    assert "canary" not in str(raised.value)


def test_what_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "missing", lambda extra: {"abfs": ["adlfs"]}.get(extra, []))
    with pytest.raises(EnvironmentProblemError, match=r"pip install 'modelwheel\[abfs\]'"):
        ObjectBackend("abfs://container/store")
