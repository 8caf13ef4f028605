"""Unpacking model source distributions: whole ones, and those that are not."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from modelwheel.errors import WheelError
from modelwheel.packaging.checksums import CHECKSUMS, write_checksums
from modelwheel.packaging.sdist import unpack


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "model_a-1.0.0"
    (directory / "weights").mkdir(parents=True)
    (directory / "weights" / "a.bin").write_bytes(bytes(1000))
    (directory / "CMakeLists.txt").write_text("project(a)\n")
    write_checksums(directory)
    return directory


def pack(project: Path) -> Path:
    sdist = project.with_name("model_a-1.0.0.tar.gz")
    with tarfile.open(sdist, "w:gz") as archive:
        archive.add(project, project.name)
    return sdist


def refuse(sdist: Path, directory: Path) -> str:
    directory.mkdir()
    with pytest.raises(WheelError) as caught:
        unpack(sdist, directory)
    return str(caught.value)


def test_a_whole_one_is_unpacked(project: Path, tmp_path: Path) -> None:
    (project / "PKG-INFO").write_text("Name: model-a\n")  # which the backend adds
    (tmp_path / "out").mkdir()
    unpacked = unpack(pack(project), tmp_path / "out")
    assert unpacked == tmp_path / "out" / "model_a-1.0.0"
    assert (unpacked / "weights" / "a.bin").read_bytes() == bytes(1000)


def test_checksums_are_those_of_sha256sum(project: Path) -> None:
    lines = (project / CHECKSUMS).read_text().splitlines()
    digest = "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53"
    assert lines[1] == f"{digest}  weights/a.bin"
    assert [line.split("  ")[1] for line in lines] == ["CMakeLists.txt", "weights/a.bin"]


def test_a_changed_byte(project: Path, tmp_path: Path) -> None:
    (project / "weights" / "a.bin").write_bytes(bytes(999) + b"\1")
    assert "weights/a.bin is missing or is not the file" in refuse(pack(project), tmp_path / "out")


def test_a_missing_file(project: Path, tmp_path: Path) -> None:
    (project / "CMakeLists.txt").unlink()
    assert "CMakeLists.txt is missing" in refuse(pack(project), tmp_path / "out")


def test_a_file_that_nobody_named(project: Path, tmp_path: Path) -> None:
    (project / "setup.py").write_text("import os\n")
    assert f"{CHECKSUMS} does not name setup.py" in refuse(pack(project), tmp_path / "out")


def test_one_that_is_not_there(tmp_path: Path) -> None:
    sdist = tmp_path / "model_a.tar.gz"
    said = refuse(sdist, tmp_path / "out")
    assert said == f"cannot unpack {sdist}: No such file or directory; download or make it again"


def test_a_truncated_archive(project: Path, tmp_path: Path) -> None:
    sdist = pack(project)
    sdist.write_bytes(sdist.read_bytes()[:-80])
    assert "cannot unpack" in refuse(sdist, tmp_path / "out")


def test_what_leads_out_of_the_directory(project: Path, tmp_path: Path) -> None:
    sdist = pack(project)
    with tarfile.open(sdist, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    assert "cannot unpack" in refuse(sdist, tmp_path / "out")
    assert not (tmp_path / "outside").exists()


def test_another_kind_of_sdist(project: Path, tmp_path: Path) -> None:
    (project / CHECKSUMS).unlink()
    assert "is not a model source distribution" in refuse(pack(project), tmp_path / "out")
