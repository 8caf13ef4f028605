"""The tools of the tests: those of this environment are found without PATH."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from tests.support.tools import cmake, find_tool


@pytest.mark.parametrize("name", ["cmake", "ctest", "ninja"])
def test_the_environment_comes_before_path(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / name
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(find_tool(name)).parent == Path(sysconfig.get_path("scripts"))


def test_a_project_is_configured_with_nothing_on_path_but_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(empty LANGUAGES NONE)\n"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    cmake("-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja")
    assert (tmp_path / "build" / "build.ninja").is_file()
