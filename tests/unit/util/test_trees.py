"""What is read of a directory that others wrote."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from modelwheel.util import trees
from modelwheel.util.names import UnsafePathError
from modelwheel.util.trees import digest_tree, open_tree, read_regular
from tests.support.portability import both_systems

pytestmark = pytest.mark.usefixtures(both_systems.__name__)


def test_a_tree_is_read_in_full(tmp_path: Path) -> None:
    (tmp_path / "b" / "empty").mkdir(parents=True)
    (tmp_path / "b" / "x").write_bytes(b"1")
    (tmp_path / "a").write_bytes(b"22")
    assert {name: file.size for name, file in digest_tree(tmp_path).items()} == {"a": 2, "b/x": 1}


NAMED_PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
SOCKETS = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets here")


def _add_link_to_file(directory: Path) -> None:
    (directory / "odd").symlink_to("/etc/passwd")


def _add_link_to_directory(directory: Path) -> None:
    (directory / "odd").symlink_to("/etc")


def _add_dangling_link(directory: Path) -> None:
    (directory / "odd").symlink_to("nowhere")


def _add_pipe(directory: Path) -> None:
    os.mkfifo(directory / "odd")


def _add_socket(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(directory / "odd"))


@pytest.mark.parametrize(
    ("add", "kind"),
    [
        (_add_link_to_file, "symbolic link"),
        (_add_link_to_directory, "symbolic link"),
        (_add_dangling_link, "symbolic link"),
        pytest.param(_add_pipe, "pipe", marks=NAMED_PIPES),
        pytest.param(_add_socket, "socket", marks=SOCKETS),
    ],
)
def test_a_tree_holds_plain_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, add: object, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)  # socket names are short
    (tmp_path / "sub").mkdir()
    assert callable(add)
    add(tmp_path / "sub")
    with pytest.raises(UnsafePathError, match=f"odd.*{kind}"):
        digest_tree(tmp_path)


def test_a_link_put_in_place_of_a_listed_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    outside = tmp_path.parent / f"{tmp_path.name}-secret"
    outside.write_bytes(b"secret")
    tree = open_tree(tmp_path)
    assert next(tree)[0] == "a"
    (tmp_path / "b").unlink()
    (tmp_path / "b").symlink_to(outside)
    with pytest.raises(UnsafePathError, match="symbolic link"):
        next(tree)


@NAMED_PIPES
def test_a_link_or_pipe_put_there_after_the_check_is_not_followed(
    tmp_path: Path, both_systems: str
) -> None:
    if both_systems == "like-windows":
        pytest.skip("Windows cannot open files relative to an open directory")
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="symbolic link"):
            trees._open_at(descriptor, "link", tmp_path / "link")
        with pytest.raises(UnsafePathError, match="pipe"):
            trees._open_at(descriptor, "pipe", tmp_path / "pipe")
    finally:
        os.close(descriptor)


def test_a_link_put_there_while_a_file_is_opened_by_its_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, outside = tmp_path / "file", tmp_path / "outside"
    file.write_bytes(b"1")
    outside.write_bytes(b"secret")
    open_file = Path.open

    def exchange_and_open(path: Path, *args: object) -> object:
        path.unlink()
        path.symlink_to(outside)
        return open_file(path, *args)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", exchange_and_open)
    with pytest.raises(UnsafePathError, match="'file' is a symbolic link"):
        trees._open_path("file", file)


def test_a_file_exchanged_while_it_is_opened_by_its_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_bytes(b"1")
    other.write_bytes(b"2")
    open_file = Path.open

    def exchange_and_open(path: Path, *args: object) -> object:
        other.replace(path)
        return open_file(path, *args)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", exchange_and_open)
    with pytest.raises(UnsafePathError, match="'file' was exchanged"):
        trees._open_path("file", file)


def test_a_junction_is_refused_although_windows_calls_it_a_directory() -> None:
    status = SimpleNamespace(st_mode=stat.S_IFDIR | 0o777, st_reparse_tag=0xA0000003)
    with pytest.raises(UnsafePathError, match="'sub' is a junction"):
        trees._require_kind("sub", cast("os.stat_result", status), directory=True)


def test_a_directory_exchanged_for_a_link_is_not_entered(tmp_path: Path) -> None:
    inside, outside = tmp_path / "tree", tmp_path / "outside"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (inside / "a").write_bytes(b"1")
    tree = open_tree(inside)
    assert next(tree)[0] == "a"
    (inside / "sub").rmdir()
    (inside / "sub").symlink_to(outside)
    assert list(tree) == []


@pytest.mark.parametrize(
    "add",
    [_add_link_to_file, _add_dangling_link, pytest.param(_add_pipe, marks=NAMED_PIPES)],
)
def test_only_a_regular_file_is_read(tmp_path: Path, add: Callable[[Path], None]) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert [read_regular(str(tmp_path / "file"), limit) for limit in (4, 5, 99)] == [
        b"1234",
        b"12345",
        b"12345",
    ]
    add(tmp_path)
    with pytest.raises((UnsafePathError, OSError)):
        read_regular(str(tmp_path / "odd"), 99)
