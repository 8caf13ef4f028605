"""The notices of others whose code is in wheels; of what is compiled into them, only pybind11's licence asks for one."""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest

from modelwheel.packaging.template import RUNTIME_OVERLAYS, combine_overlays, template_directory
from tests.support.projects import render_model

NOTICE = "third_party/pybind11-LICENSE"
_OTHERS = re.compile(r"^\s*#\s*include <(\w+)/", re.MULTILINE)


def test_the_notice_is_that_of_the_installed_pybind11() -> None:
    (path,) = [f for f in distribution("pybind11").files or () if f.name == "LICENSE"]
    kept = template_directory() / "bindings" / NOTICE
    assert kept.read_bytes() == path.read_binary()


@pytest.mark.parametrize(("bindings", "listed"), [("extension", True), ("shared", False)])
def test_wheels_with_an_extension_have_the_notice(
    tmp_path: Path, bindings: str, *, listed: bool
) -> None:
    project = render_model(tmp_path / "project", bindings)
    assert (project / NOTICE).is_file() is listed
    assert (f'"{NOTICE}"' in (project / "pyproject.toml").read_text()) is listed


def test_the_runtime_has_the_notice() -> None:
    assert PurePosixPath(NOTICE) in combine_overlays(RUNTIME_OVERLAYS)
    assert f'"{NOTICE}"' in (template_directory() / "runtime" / "pyproject.toml.in").read_text()


def test_nothing_else_of_others_is_compiled_in() -> None:
    found = {
        name
        for overlay in ("bindings", "model", "extension", "shared", "runtime", "common")
        for path in (template_directory() / overlay).rglob("*")
        if path.suffix in (".c", ".cpp", ".h", ".hpp", ".in")
        and path.name != "tbb.hpp"  # which programs include that are built with TBB themselves
        for name in _OTHERS.findall(path.read_text(encoding="utf-8"))
    }
    assert found <= {"pybind11", "sys"}, "their notices belong into third_party/"
