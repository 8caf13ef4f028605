"""File names that are refused, and what is read of a directory."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.util import files
from modelwheel.util.files import (
    UnsafePathError,
    check_names,
    digest_tree,
    name_problem,
    open_tree,
    write_atomically,
)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "empty"),
        ("/etc/passwd", "absolute"),
        ("C:/x", "absolute"),
        ("../x", "'..'"),
        ("a/../../x", "'..'"),
        ("a\\..\\x", "backslash"),
        ("a\0b", "control character"),
        ("a\nb", "control character"),
        ("a//b", "empty or '.'"),
        ("./a", "empty or '.'"),
        ("a/", "empty or '.'"),
        ("\udcff", "UTF-8"),
        ("a" * 256, "component longer"),
        ("/".join(["abcdefg"] * 129), "longer than 1024"),
    ],
)
def test_unfit_names(name: str, problem: str) -> None:
    assert problem in (name_problem(name) or "")


@given(st.text(alphabet=st.sampled_from("ab./\\:\0~ \u00e9"), max_size=12))
def test_a_fit_name_stays_below_its_directory(name: str) -> None:
    if name_problem(name) is None:
        joined = os.path.normpath(os.path.join("/root/directory", name))  # noqa: PTH118
        assert joined == f"/root/directory/{name}"


@pytest.mark.parametrize(
    "names",
    [
        ("a", "a"),
        ("Weights", "weights"),
        ("A/x", "a/y"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("a/b", "A"),
        ("\u00e9", "e\u0301"),
        ("stra\u00dfe", "STRASSE"),
    ],
)
def test_names_that_clash(names: tuple[str, ...]) -> None:
    with pytest.raises(UnsafePathError, match="clash"):
        check_names(names)


def test_names_that_do_not_clash() -> None:
    check_names(["a", "b/a", "b/c/a", "ab"])


def test_a_tree_is_read_in_full(tmp_path: Path) -> None:
    (tmp_path / "b" / "empty").mkdir(parents=True)
    (tmp_path / "b" / "x").write_bytes(b"1")
    (tmp_path / "a").write_bytes(b"22")
    assert {name: file.size for name, file in digest_tree(tmp_path).items()} == {"a": 2, "b/x": 1}


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
        (_add_pipe, "pipe"),
        (_add_socket, "socket"),
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


def test_a_link_or_pipe_put_there_after_the_check_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="symbolic link"):
            files._open_regular("link", descriptor, tmp_path / "link")
        with pytest.raises(UnsafePathError, match="pipe"):
            files._open_regular("pipe", descriptor, tmp_path / "pipe")
    finally:
        os.close(descriptor)


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


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    with pytest.raises(TypeError):
        write_atomically(tmp_path / "file", 5)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"
