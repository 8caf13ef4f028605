"""The objects that extensions have in common: made from the same files as each extension."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from modelwheel.packaging.objects import objects_key, objects_settings
from modelwheel.packaging.template import (
    MODEL_OVERLAYS,
    OBJECTS_OVERLAYS,
    RUNTIME_OVERLAYS,
    combine_overlays,
    list_overlay,
    render,
)

ANY_PROGRAM = shlex.quote(Path(sys.executable).as_posix())
"""Stands for a compiler: it has a version."""


@pytest.mark.parametrize("overlays", [MODEL_OVERLAYS["extension"], RUNTIME_OVERLAYS])
def test_they_are_compiled_from_the_files_of_every_extension(overlays: tuple[str, ...]) -> None:
    own = {place for place, _ in list_overlay("objects")}
    compiled = combine_overlays(OBJECTS_OVERLAYS).items()
    project = combine_overlays(overlays)
    assert {place for place, path in compiled if project.get(place) != path} == own


def test_their_project_knows_no_model(tmp_path: Path) -> None:
    # Every variable of a template that is not a fact would be undefined here, which is an error.
    render(combine_overlays(OBJECTS_OVERLAYS), {}, tmp_path)
    assert "MODEL_MODULE" not in (tmp_path / "cmake" / "bindings.cmake").read_text()
    assert "include(cmake/bindings.cmake)" in (tmp_path / "CMakeLists.txt").read_text()


def test_cmake_gets_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert objects_settings(Path("objects")) == {
        "cmake.define.MODELWHEEL_OBJECTS": f"{Path.cwd().as_posix()}/objects"
    }


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CPLUS_INCLUDE_PATH", "/elsewhere"),
        ("MACOSX_DEPLOYMENT_TARGET", "12.0"),
        ("CXX", f"{ANY_PROGRAM} -I"),
    ],
)
def test_what_the_compiler_is_told_is_in_the_key(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    for name in ("CC", "CXX"):
        monkeypatch.setenv(name, ANY_PROGRAM)
    before = objects_key()
    assert before == objects_key()
    monkeypatch.setenv(variable, value)
    assert before != objects_key()
