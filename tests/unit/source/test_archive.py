"""Archives: what is unpacked, and members that are refused."""

from __future__ import annotations

import gzip
import io
import lzma
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelwheel.errors import SourceError
from modelwheel.source import archive, rules
from modelwheel.source.fetch import fetch, source_key
from modelwheel.spec.sources import ArchiveSource
from modelwheel.store.store import Store
from tests.support.sources import (
    MODEL,
    TREE,
    archive_source,
    read,
    refusal,
    serve,
)

REGULAR = {f"pack/model/{name}": content for name, content in MODEL.items()}


def entry(
    name: str, content: bytes = b"", /, **attributes: object
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info, content


def tar(*extra: tuple[tarfile.TarInfo, bytes], prefix: str = "", complete: bool = True) -> bytes:
    """An uncompressed tar file of the model, and of more; `complete` by what marks its end."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as opened:
        folder = tarfile.TarInfo(f"{prefix}pack")
        folder.type = tarfile.DIRTYPE
        opened.addfile(folder)
        for info, content in [entry(prefix + name, data) for name, data in REGULAR.items()]:
            opened.addfile(info, io.BytesIO(content))
        for info, content in extra:
            opened.addfile(info, io.BytesIO(content))
        end = opened.offset
    return file.getvalue() if complete else file.getvalue()[:end]


def tar_gz(*extra: tuple[tarfile.TarInfo, bytes], prefix: str = "") -> bytes:
    # gzip writes the time into its header: two calls must give one hash.
    return gzip.compress(tar(*extra, prefix=prefix), mtime=0)


def tar_xz(*extra: tuple[tarfile.TarInfo, bytes]) -> bytes:
    return lzma.compress(tar(*extra))


def zip_(*extra: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.mkdir("pack") if hasattr(opened, "mkdir") else opened.writestr("pack/", b"")
        for name, content in [*REGULAR.items(), *extra]:
            opened.writestr(name, content)
    return file.getvalue()


def pinned(url: str, content: bytes, path: str = "pack/model") -> ArchiveSource:
    return archive_source(url, sha256(content).hexdigest(), path)


def local(tmp_path: Path, content: bytes, path: str = "pack/model") -> ArchiveSource:
    file = tmp_path / "archive with space"
    file.write_bytes(content)
    return pinned(file.as_uri(), content, path)


# What arrives


@pytest.mark.parametrize(
    "make", [tar_gz, tar_xz, zip_, lambda: tar_gz(prefix="./")], ids=["gz", "xz", "zip", "dot"]
)
def test_an_archive_arrives_over_http(
    tmp_path: Path, store: Store, make: Callable[[], bytes]
) -> None:
    content = make()
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "model.bin").write_bytes(content)
    with serve(tmp_path / "served") as address:
        source = pinned(f"http://{address}/model.bin?download=1", content)
        model = fetch(source, store)
    assert read(model.directory) == MODEL
    assert (model.tree_sha256, model.commit) == (TREE, None)
    assert model.key == source_key(source)
    assert model.provenance == {
        "kind": "archive",
        "url": f"http://{address}/model.bin?***",
        "sha256": source.sha256,
        "path": "pack/model",
        "tree_sha256": TREE,
    }
    # The server is gone: what was fetched once is not fetched again, wherever it came from.
    moved = archive_source("https://example.org/elsewhere", source.sha256, source.path)
    assert read(fetch(moved, Store(store.root)).directory) == MODEL


@pytest.mark.parametrize("make", [tar_gz, tar_xz, zip_])
def test_a_local_archive(tmp_path: Path, store: Store, make: Callable[[], bytes]) -> None:
    assert read(fetch(local(tmp_path, make()), store).directory) == MODEL


def test_permissions_and_owners_in_an_archive_have_no_effect(tmp_path: Path, store: Store) -> None:
    odd = entry("pack/model/assets/odd", b"x", mode=0o6777, uid=12345, gid=12345)
    directory = fetch(local(tmp_path, tar_gz(odd)), store).directory
    status = (directory / "assets" / "odd").stat()
    assert stat.S_IMODE(status.st_mode) == 0o444
    assert status.st_uid == directory.stat().st_uid


def test_what_lies_outside_the_path_is_not_unpacked(tmp_path: Path, store: Store) -> None:
    link = entry("pack/link", type=tarfile.SYMTYPE, linkname="/etc")
    content = tar_gz(link, entry("pack/modelling", b"x"))
    assert read(fetch(local(tmp_path, content), store).directory) == MODEL


# Members that are refused

MEMBERS: dict[str, tuple[dict[str, object], str]] = {
    "symbolic link": (
        {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        "'pack/model/odd' is a symbolic link",
    ),
    "hard link": (
        {"type": tarfile.LNKTYPE, "linkname": "pack/model/saved_model.pb"},
        "'pack/model/odd' is a hard link",
    ),
    "device": ({"type": tarfile.CHRTYPE}, "is a device or pipe"),
    "pipe": ({"type": tarfile.FIFOTYPE}, "is a device or pipe"),
    "unknown": ({"type": b"Z"}, "is of an unknown type"),
    "absolute": ({"name": "/etc/passwd"}, "is an absolute path"),
    "parent": ({"name": "pack/model/../../../x"}, "climbs out"),
    "parent elsewhere": ({"name": "../x"}, "climbs out"),
    "backslash": ({"name": "pack\\..\\x"}, "backslash"),
    "control": ({"name": "pack/model/a\nb"}, "control character"),
    "component": ({"name": f"pack/model/{'x' * 256}"}, "longer than 255"),
    "length": ({"name": "pack/model" + "/abcdefg" * 130}, "longer than 1024"),
    "depth": ({"name": "pack/model" + "/d" * 40}, "more than 32 directories deep"),
    "depth elsewhere": ({"name": "d/" * 40 + "x"}, "more than 32 directories deep"),
    "device of Windows": ({"name": "pack/model/aux.txt"}, "is a device on Windows"),
    "character of Windows": ({"name": "pack/model/a?b"}, "'?', which Windows refuses"),
    "twice": ({"name": "pack/model/saved_model.pb"}, "clash"),
    "case": ({"name": "pack/model/Saved_Model.pb"}, "clash"),
    "case of a directory": ({"name": "pack/model/Variables/x"}, "clash"),
    "file over directory": ({"name": "pack/model/variables"}, "clash"),
    "huge": ({"size": 5 << 30}, "more than"),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_odd_members_of_a_tar_file(tmp_path: Path, store: Store, name: str) -> None:
    attributes, reason = MEMBERS[name]
    content = tar_gz(entry("pack/model/odd", **attributes)) if name != "huge" else _huge_tar()
    message = refusal(local(tmp_path, content), store)
    assert "is refused: " in message
    assert reason in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive with space", "store"]


def _huge_tar() -> bytes:
    info, _ = entry("pack/model/odd")
    info.size = 5 << 30  # declared only: nothing of it is there
    return gzip.compress(tar(complete=False) + info.tobuf())


def test_a_link_on_the_way_to_the_path(tmp_path: Path, store: Store) -> None:
    link = entry("pack/alias", type=tarfile.SYMTYPE, linkname="model")
    message = refusal(local(tmp_path, tar_gz(link), "pack/alias"), store)
    assert "'pack/alias' is a symbolic link" in message


def _zip_entry(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("placeholder")
    info.filename = info.orig_filename = name
    info.external_attr = mode << 16
    return info


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (_zip_entry("pack/model/odd", stat.S_IFLNK | 0o777), "is a symbolic link"),
        (_zip_entry("pack/model/odd", stat.S_IFCHR | 0o777), "is a device or pipe"),
        (_zip_entry("pack/model/odd", stat.S_IFIFO | 0o777), "is a device or pipe"),
        (_zip_entry("/etc/passwd"), "is an absolute path"),
        (_zip_entry("C:/x"), "is an absolute path"),
        (_zip_entry("pack/model/../../../x"), "climbs out"),
        (_zip_entry("../x"), "climbs out"),
        (_zip_entry("..\\x"), "backslash"),
        (_zip_entry("pack/model/a\0b"), "control character"),
        (_zip_entry("\0"), "control character"),
        (_zip_entry("pack/model/Saved_model.pb"), "clash"),
        (_zip_entry("pack/model/variables"), "clash"),
    ],
)
def test_odd_members_of_a_zip_file(
    tmp_path: Path, store: Store, member: zipfile.ZipInfo, reason: str
) -> None:
    message = refusal(local(tmp_path, zip_((member, b"/etc/passwd"))), store)
    assert "is refused: " in message
    assert reason in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive with space", "store"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_in_a_zip_file(tmp_path: Path, store: Store) -> None:
    content = zip_(("pack/model/saved_model.pb", b"the other one"))
    assert "clash" in refusal(local(tmp_path, content), store)


@pytest.mark.parametrize("size", [1, 5 << 30])
def test_a_zip_file_that_lies_about_sizes(tmp_path: Path, store: Store, size: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("pack/model/saved_model.pb", bytes(1000))
        opened.infolist()[0].file_size = size
    message = refusal(local(tmp_path, file.getvalue()), store)
    assert ("damaged" if size == 1 else "more than 4.29 GB") in message


def test_an_encrypted_zip_file(tmp_path: Path, store: Store) -> None:
    content = bytearray(zip_())
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = content.find(signature)
        while at != -1:
            content[at + offset] |= 1
            at = content.find(signature, at + 1)
    assert "encrypted" in refusal(local(tmp_path, bytes(content)), store)


@pytest.mark.parametrize("make", [tar_gz, zip_])
def test_too_many_members(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, make: Callable[..., bytes]
) -> None:
    monkeypatch.setattr(rules, "MAX_MODEL_FILES", 20)
    names = [f"pack/model/{number}" for number in range(17)]
    members = [entry(name) if make is tar_gz else (name, b"") for name in names]
    assert "more than 20 files" in refusal(local(tmp_path, make(*members)), store)


@pytest.mark.parametrize(("module", "place"), [(archive, "pack/other"), (rules, "pack/model")])
def test_too_many_directories(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, module: ModuleType, place: str
) -> None:
    monkeypatch.setattr(module, "MAX_MODEL_DIRECTORIES", 20)
    names = [f"{place}/a{number}/b/c" for number in range(11)]
    message = refusal(local(tmp_path, tar_gz(*map(entry, names))), store)
    assert "more than 20 directories" in message


def test_a_name_that_only_windows_refuses_may_be_elsewhere(tmp_path: Path, store: Store) -> None:
    content = tar_gz(entry("pack/aux.c", b"x"))
    assert read(fetch(local(tmp_path, content), store).directory) == MODEL


def test_a_sparse_file(tmp_path: Path, store: Store) -> None:
    # 198 bytes that would unpack to 3 GiB of zeros.
    sparse = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,1",
              "GNU.sparse.size": str(3 << 30), "GNU.sparse.name": "pack/model/odd"}  # fmt: skip
    info, _ = entry("x", b"1", pax_headers=sparse)
    content = tar(complete=False) + info.tobuf(tarfile.PAX_FORMAT) + b"1".ljust(512, b"\0")
    assert "is a sparse file" in refusal(local(tmp_path, gzip.compress(content)), store)


def test_an_xz_file_that_asks_for_gigabytes(tmp_path: Path, store: Store) -> None:
    huge = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    content = lzma.compress(tar(), filters=huge)
    assert len(content) < 11_000
    assert "emory usage limit exceeded" in refusal(local(tmp_path, content), store)


def test_a_header_that_points_backwards(tmp_path: Path, store: Store) -> None:
    # CVE-2025-8194: tarfile would read the same headers again and again.
    info, _ = entry("x", pax_headers={"size": "-2048"})
    content = tar(complete=False) + info.tobuf(tarfile.PAX_FORMAT)
    message = refusal(local(tmp_path, gzip.compress(content)), store)
    assert "damaged or unsupported archive" in message


def test_a_damaged_header_is_not_the_end(tmp_path: Path, store: Store) -> None:
    header = entry("x")[0].tobuf()
    content = tar(complete=False) + b"y" + header[1:] + tar()  # its checksum is wrong
    message = refusal(local(tmp_path, gzip.compress(content)), store)
    assert "a header is damaged" in message


def test_a_zip_file_with_an_endless_directory(tmp_path: Path, store: Store) -> None:
    content = zip_(*((_zip_entry(f"{number}" + "x" * 60_000), b"") for number in range(80)))
    assert "its directory is too long" in refusal(local(tmp_path, content), store)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_of_zip_without_a_memory_limit(tmp_path: Path, store: Store, method: int) -> None:
    info = _zip_entry("pack/model/odd")
    info.compress_type = method
    message = refusal(local(tmp_path, zip_((info, b"x"))), store)
    assert f"pack/model/odd uses zip compression method {method}" in message


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_header_that_would_fill_the_memory(tmp_path: Path, store: Store, kind: bytes) -> None:
    info, _ = entry("pack/model/odd", type=kind)
    info.size = 64 << 20
    content = gzip.compress(tar(complete=False) + info.tobuf() + bytes(64 << 20), 1)
    assert "a header is too long" in refusal(local(tmp_path, content), store)


def test_many_headers_of_one_member(tmp_path: Path, store: Store) -> None:
    info, _ = entry("x", type=tarfile.GNUTYPE_LONGNAME)
    info.size = 32 << 10
    chain = (info.tobuf() + b"x".ljust(32 << 10, b"\0")) * 100
    message = refusal(local(tmp_path, gzip.compress(tar(complete=False) + chain, 1)), store)
    assert "a header is too long" in message


@pytest.mark.parametrize("make", [gzip.compress, lzma.compress])
def test_several_streams_in_one_file(
    tmp_path: Path, store: Store, make: Callable[[bytes], bytes]
) -> None:
    content = tar()
    split = make(content[:700]) + bytes(8) + make(b"") + make(content[700:]) + bytes(4)
    assert read(fetch(local(tmp_path, split), store).directory) == MODEL


def test_a_chain_of_headers(tmp_path: Path, store: Store) -> None:
    info, _ = entry("x", type=tarfile.GNUTYPE_LONGNAME)
    info.size = 512
    chain = (info.tobuf() + b"x".ljust(512, b"\0")) * 5000
    message = refusal(local(tmp_path, gzip.compress(chain, 1)), store)
    assert "damaged or unsupported" in message


# Paths, formats, damage


def test_a_missing_path_names_the_nearest(tmp_path: Path, store: Store) -> None:
    message = refusal(local(tmp_path, tar_gz(), "pack/modle"), store)
    assert "no file or directory 'pack/modle'; did you mean 'pack/model'" in message
    message = refusal(local(tmp_path, zip_(), ""), store)
    assert "is not a SavedModel: did you mean 'pack/model' in it?" in message


@pytest.mark.parametrize("content", [b"", b"<html>", tar()], ids=["empty", "html", "plain tar"])
def test_other_formats(tmp_path: Path, store: Store, content: bytes) -> None:
    assert "use .tar.gz, .tar.xz or .zip" in refusal(local(tmp_path, content), store)


@pytest.mark.parametrize("make", [tar_gz, tar_xz, zip_])
def test_a_truncated_archive(tmp_path: Path, store: Store, make: Callable[[], bytes]) -> None:
    content = make()
    message = refusal(local(tmp_path, content[: len(content) // 2]), store)
    assert "damaged or unsupported archive" in message


def test_a_zip_file_with_a_damaged_end(tmp_path: Path) -> None:
    content = zip_()
    for position in range(len(content) - 22, len(content)):
        for value in (0, 1, 255):
            damaged = bytearray(content)
            damaged[position] = value
            (tmp_path / "archive").write_bytes(damaged)
            target = Path(tempfile.mkdtemp(dir=tmp_path))
            with suppress(SourceError):  # and nothing else
                archive.extract(tmp_path / "archive", "pack/model", target, "it")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("make", [tar, tar_gz, tar_xz, zip_])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(data=st.data())
def test_damage_is_refused_with_a_sentence(
    tmp_path: Path, make: Callable[[], bytes], data: st.DataObject
) -> None:
    content = bytearray(make())
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    file = tmp_path / "archive"
    file.write_bytes(gzip.compress(content, 1) if make is tar else content)
    target = Path(tempfile.mkdtemp(dir=tmp_path))
    with suppress(SourceError):  # and nothing else
        archive.extract(file, "pack/model", target, "it")
    for path in target.rglob("*"):
        assert path.is_dir() or path.is_file()
        assert not path.is_symlink()
