"""Files and directories on the command line, as wheels and source distributions."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.errors import UsageError
from modelwheel.wheelfile.collect import (
    SDIST,
    find_distributions,
    find_model_wheels,
    find_wheels,
)

FILES = (
    "model_b-1-py3-none-any.whl",
    "model_a-1-py3-none-any.whl",
    "model_a-1-py3-none-any.whl.report.json",
    "model_a-1-py3-none-any.whl.bench.json",
    "modelwheel_runtime-1-py3-none-any.whl",
    "model_a-1.tar.gz",
    "SHA256SUMS",
    "notes.txt",
)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    directory = tmp_path / "dist"
    (directory / "model_c-1-py3-none-any.whl").mkdir(parents=True)
    for name in FILES:
        (directory / name).touch()
    return directory


def names(found: list[Path]) -> list[str]:
    return [path.name.partition("-")[0] for path in found]


def test_directories(dist: Path) -> None:
    assert names(find_wheels([dist])) == ["model_a", "model_b", "modelwheel_runtime"]
    assert names(find_model_wheels([dist])) == ["model_a", "model_b"]
    assert find_distributions([dist], (SDIST,)) == [dist / "model_a-1.tar.gz"]
    assert len(find_distributions([dist])) == 4


def test_files_are_taken_in_their_order_and_once(dist: Path) -> None:
    second, first = dist / FILES[0], dist / FILES[1]
    assert find_wheels([second, first, second]) == [second, first]
    assert names(find_wheels([second, dist])) == ["model_b", "model_a", "modelwheel_runtime"]


def test_what_a_shell_makes_of_a_star(dist: Path) -> None:
    """`publish dist/*` names reports and checksums too."""
    given = sorted(path for path in dist.iterdir() if path.is_file() and path.suffix != ".txt")
    assert len(find_distributions(given)) == 4


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("absent", "absent: no such file or directory"),
        ("dist/notes.txt", "notes.txt: not a .whl file or a directory of them"),
        ("dist/model_a-1.tar.gz", "not a .whl file"),
        ("empty", "empty: the directory has no .whl files"),
        ("dist/SHA256SUMS", "no .whl files were given"),
    ],
)
def test_other_paths_are_refused(dist: Path, path: str, said: str) -> None:
    (dist.parent / "empty").mkdir()
    with pytest.raises(UsageError) as caught:
        find_wheels([dist.parent / path])
    assert said in str(caught.value)


def test_a_directory_may_be_empty_where_that_is_said(tmp_path: Path) -> None:
    assert find_model_wheels([tmp_path], may_be_empty=True) == []
