"""Models that are one file, and files that are fetched with a model: from every kind of source."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from modelwheel.source.fetch import fetch, look_up, source_key
from modelwheel.spec.sources import AnySource, DirectorySource, ExtraFile
from modelwheel.store.store import Store
from tests.support import repositories
from tests.support.sources import (
    MODEL,
    POINTER,
    archive_source,
    directory_source,
    git_source,
    read,
    refusal,
    write,
)


def _field(number: int, content: bytes | int) -> bytes:
    """One field of a message of protobuf."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    size = len(content)
    return bytes([number << 3 | 2, size & 0x7F | 0x80, size >> 7]) + content


def _onnx(*locations: str, name: bytes = b"w") -> bytes:
    """A model with a weight in each of these files, the last of them in a node of a branch."""
    tensors = []
    for location in locations:
        entry = _field(1, b"location") + _field(2, location.encode())
        offset = _field(1, b"offset") + _field(2, b"0")
        tensors.append(_field(8, name) + _field(13, entry) + _field(13, offset) + _field(14, 1))
    inner = _field(5, _field(1, b"value") + _field(5, tensors[-1]))
    branch = _field(5, _field(1, b"then_branch") + _field(6, _field(1, inner)))
    graph = b"".join(_field(5, tensor) for tensor in tensors[:-1]) + _field(1, branch)
    own = _field(13, _field(1, b"location") + _field(2, b"not/external")) + _field(9, bytes(200))
    return _field(1, 8) + _field(7, graph + _field(5, own))


_LOCATIONS = ("net.onnx.data", "parts/w.bin", "../samples.npz", "/etc/passwd", "./bias")
_WEIGHTS = {
    "net/net.onnx": _onnx(*_LOCATIONS),
    "net/net.onnx.data": b"weights",
    "net/parts/w.bin": b"more",
    "net/bias": b"bias",
    "net/other.bin": b"not of the model",
    "net/missing.onnx": _onnx("gone.bin"),
    "net/damaged.onnx": b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x3a\x09",
    "net/cut.onnx": _onnx("net.onnx.data")[:40],
    "net/empty.onnx": b"",
    "one/net.ONNX": _onnx("net.data"),
    "one/net.data": b"weights",
    "one/config.pbtxt": b"text",
    "several/a.onnx": b"a",
    "several/b.keras": b"b",
}

FILES = (
    {
        "data/net/frozen.pb": b"graph",
        "data/net/other.pb": b"another",
        "data/net/config.pbtxt": b"feed",
        "data/config.pbtxt": b"other feed",
        "checkpoints/v2.index": b"index",
        "checkpoints/v2.data-00000-of-00001": b"values",
        "checkpoints/v2.meta": b"not read",
        "checkpoints/v1": b"one file",
        "checkpoints/v1-00000-of-00002": b"first",
        "checkpoints/v1-00001-of-00002": b"second",
        "samples.npz": b"samples",
    }
    | {f"saved/{name}": content for name, content in MODEL.items()}
    | _WEIGHTS
)

CONFIG, SAMPLES = ExtraFile("data/net/config.pbtxt"), ExtraFile("samples.npz")

Make = Callable[[str], AnySource]


def _archive(tmp_path: Path, files: dict[str, bytes]) -> Path:
    path = tmp_path / "archive.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture(params=["git", "archive", "directory"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A source of one kind with a path in `FILES`."""
    if request.param == "git":
        repositories.isolate_git(monkeypatch, tmp_path / "gitconfig")
        repository = repositories.Repository(tmp_path / "repository")
        commit = repository.commit(FILES)
        return lambda path: git_source(str(repository.directory), commit, path)
    if request.param == "archive":
        archive = _archive(tmp_path, FILES)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        return lambda path: archive_source(archive.as_uri(), digest, path)
    root = write(tmp_path / "directory", FILES)
    return lambda path: DirectorySource.model_construct(directory=str(root), path=path, sha256=None)


def test_the_tree_of_a_file_is_that_file(make: Make, store: Store) -> None:
    model = fetch(make("data/net/frozen.pb"), store)
    assert read(model.directory) == {"frozen.pb": b"graph"}
    line = f"{hashlib.sha256(b'graph').hexdigest()} 5 frozen.pb\n"
    assert model.tree_sha256 == hashlib.sha256(line.encode()).hexdigest()
    assert look_up(make("data/net/frozen.pb"), store).tree_sha256 == model.tree_sha256
    again = fetch(make("data/net/frozen.pb"), store)
    assert (again.key, read(again.directory)) == (model.key, read(model.directory))


def test_extra_files_are_at_the_top(make: Make, store: Store) -> None:
    source = make("data/net/frozen.pb").with_extras(CONFIG, SAMPLES)
    model = fetch(source, store)
    expected = {"frozen.pb": b"graph", "config.pbtxt": b"feed", "samples.npz": b"samples"}
    assert read(model.directory) == expected
    assert model.key == source_key(source) != source_key(make("data/net/frozen.pb"))
    saved = fetch(make("saved").with_extras(SAMPLES), store)
    assert read(saved.directory) == MODEL | {"samples.npz": b"samples"}


def test_an_extra_file_of_the_model_itself_is_not_another_one(make: Make, store: Store) -> None:
    extra = ExtraFile("saved/variables/variables.index")
    found = read(fetch(make("saved").with_extras(extra), store).directory)
    assert found == MODEL | {"variables.index": b"index"}
    extra = ExtraFile("saved/saved_model.pb")
    assert read(fetch(make("saved").with_extras(extra), store).directory) == MODEL


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("v2", {"v2.index", "v2.data-00000-of-00001"}),
        ("v1", {"v1", "v1-00000-of-00002", "v1-00001-of-00002"}),
    ],
)
def test_a_checkpoint_is_all_of_its_files(
    make: Make, store: Store, prefix: str, names: set[str]
) -> None:
    checkpoint = ExtraFile(f"checkpoints/{prefix}", is_checkpoint=True)
    model = fetch(make("data/net/frozen.pb").with_extras(checkpoint), store)
    assert set(read(model.directory)) == {"frozen.pb"} | names


def test_mistakes(make: Make, store: Store) -> None:
    file = make("data/net/frozen.pb")
    clash = refusal(file.with_extras(CONFIG, ExtraFile("data/config.pbtxt")), store)
    assert "'data/config.pbtxt'" in clash
    assert "'data/net/config.pbtxt'" in clash
    assert "rename one of them" in clash
    assert "has no file 'data/x.npz'" in refusal(file.with_extras(ExtraFile("data/x.npz")), store)
    missing = ExtraFile("checkpoints/v3", is_checkpoint=True)
    assert "has no checkpoint 'checkpoints/v3'" in refusal(file.with_extras(missing), store)
    assert "data/net/frozen.pb" in refusal(make("data/net/frozn.pb"), store)
    assert "is not a SavedModel" in refusal(make("data/net"), store)
    for name, there in {
        "onnx": "is not an ONNX model: it has no *.onnx",
        "keras": "is a directory; name the Keras file",
    }.items():
        other = make("data/net").model_copy(update={"format": name})
        assert there in refusal(other, store)


def test_a_directory_named_by_its_file(tmp_path: Path, store: Store) -> None:
    write(tmp_path, {"frozen.pb": b"graph", "lfs.pb": POINTER})
    message = refusal(directory_source(tmp_path / "frozen.pb"), store)
    assert "frozen.pb is a file; name its directory, and the file by `path`" in message
    (tmp_path / "link.pb").symlink_to("frozen.pb")
    for name, problem in [("link.pb", "symbolic link"), ("lfs.pb", "is a Git LFS pointer")]:
        source = DirectorySource.model_construct(directory=str(tmp_path), path=name, sha256=None)
        assert problem in refusal(source, store)


def test_the_files_that_an_onnx_file_refers_to(make: Make, store: Store) -> None:
    model = fetch(make("net/net.onnx"), store)
    # What is outside is left to the reader, who refuses it by the weight's name.
    assert {
        name: content for name, content in read(model.directory).items() if "onnx" not in name
    } == {
        "w.bin": b"more",
        "bias": b"bias",
    }
    assert set(read(model.directory)) == {"net.onnx", "net.onnx.data", "w.bin", "bias"}
    known = look_up(make("net/net.onnx"), store)
    assert (known.key, known.tree_sha256) == (model.key, model.tree_sha256)
    assert "has no file 'net/gone.bin'; put it there" in refusal(make("net/missing.onnx"), store)
    for name in ("damaged", "cut", "empty"):
        assert set(read(fetch(make(f"net/{name}.onnx"), store).directory)) == {f"{name}.onnx"}


def test_a_directory_that_holds_one_model(make: Make, store: Store) -> None:
    model = fetch(make("one"), store)
    assert model.file == "net.ONNX"
    assert set(read(model.directory)) == {"net.ONNX", "net.data", "config.pbtxt"}
    assert look_up(make("one"), store).file == "net.ONNX"
    held = make("one").holding(model.file)
    assert (held.model_format, held.file_name, held.is_file) == ("onnx", "net.ONNX", True)
    assert source_key(held) == model.key
    said = refusal(make("several"), store)
    assert "is not a SavedModel and has 2 models: 'a.onnx', 'b.keras'; name one" in said


def test_the_file_of_a_model_where_its_directory_is_expected(tmp_path: Path) -> None:
    write(tmp_path, {"net.onnx": b"graph"})
    for directory in ("net.onnx", str(tmp_path / "net.onnx")):
        source = DirectorySource(directory=directory).resolve(tmp_path)
        assert (source.model_format, source.path) == ("onnx", "net.onnx")
        assert source.location == tmp_path / "net.onnx"


def test_an_archive_where_the_path_is_both_file_and_directory(tmp_path: Path, store: Store) -> None:
    archive = _archive(tmp_path, {"m": b"graph", "m/saved_model.pb": b"graph"})
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    message = refusal(archive_source(archive.as_uri(), digest, "m"), store)
    assert "'m' is a directory and a file" in message
