"""What keys ask this machine for is looked up again exactly when it may have changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from modelwheel.packaging import backend, template
from modelwheel.packaging.backend import build_environment
from modelwheel.packaging.template import template_digest
from modelwheel.util.processes.process import Completed, run
from modelwheel.util.remembering import Remembered, installed_version, mark_of, one_moment


def test_a_file_that_changes_changes_its_mark(tmp_path: Path) -> None:
    file, missing = tmp_path / "file", tmp_path / "missing"
    file.write_text("one")
    paths = [str(file), str(missing)]
    before = mark_of(paths)
    assert mark_of(paths) == before
    other = tmp_path / "other"
    other.write_text("two")  # as long as before, and perhaps in the same tick of the clock
    other.replace(file)
    replaced = mark_of(paths)
    assert replaced != before
    missing.touch()
    assert mark_of(paths) != replaced


def test_an_answer_is_looked_up_once_for_each_mark() -> None:
    answers, calls = Remembered[int](), iter(range(9))
    marks = iter((1, 1, 2, 2, 1))
    found = [answers.get("a", lambda: next(marks), lambda: next(calls)) for _ in range(5)]
    assert found == [0, 0, 1, 1, 2]
    assert answers.get("b", lambda: 1, lambda: next(calls)) == 3


def test_within_one_moment_nothing_is_looked_at_twice() -> None:
    answers, looked = Remembered[int](), []

    def mark() -> int:
        looked.append("mark")
        return len(looked)

    with one_moment():
        assert {answers.get(question, mark, lambda: 7) for question in "aabb"} == {7}
    assert looked == ["mark", "mark"]
    answers.get("a", mark, lambda: 8)
    assert looked == ["mark"] * 3


def test_another_version_of_a_package_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    for version in ("1.0", "2.0"):
        for old in tmp_path.iterdir():
            (old / "METADATA").unlink()
            old.rmdir()
        made = tmp_path / f"hundreds-{version}.dist-info"
        made.mkdir()
        (made / "METADATA").write_text(f"Name: hundreds\nVersion: {version}\n")
        assert installed_version("hundreds") == version


def test_another_compiler_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def count(command: list[str]) -> Completed:
        started.append(command)
        return run(command)

    monkeypatch.setattr(backend, "run", count)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in ("cc", "c++"):
        _write_compiler(tmp_path / name, "compiler 1")
    assert build_environment("shared")["cxx"] == "compiler 1"
    assert build_environment("shared")["cxx"] == "compiler 1"
    assert len(started) == 2
    (tmp_path / "c++").unlink()
    _write_compiler(tmp_path / "c++", "compiler 2")
    assert build_environment("shared")["cxx"] == "compiler 2"
    monkeypatch.setenv("CXX", "c++ -static")
    assert build_environment("shared")["cxx"] == "compiler 2 -static"


def _write_compiler(path: Path, version: str) -> None:
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)


def test_another_file_of_the_template_is_noticed(tmp_path: Path) -> None:
    files = {place: tmp_path / place.name for place, _ in template.list_overlay("kernels")}
    for path in files.values():
        path.write_text("one")
    before = template_digest(files)
    assert template_digest(files) == before
    next(iter(files.values())).write_text("other")
    assert template_digest(files) != before
