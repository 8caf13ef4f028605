"""What a machine lacks, and the one sentence about it on each system."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from modelwheel import prerequisites
from modelwheel.prerequisites import explain, find_missing

PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without compiler, headers and git."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))


@pytest.mark.usefixtures("bare")
def test_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert explain(find_missing()) == (
        f"this machine lacks Python's headers ({tmp_path}/Python.h), a C++17 compiler (c++) and git; "
        f"on Debian and Ubuntu: apt install {PYTHON}-dev g++ git"
    )


@pytest.mark.usefixtures("bare")
def test_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert explain(find_missing()).endswith(
        "; install Python from python.org and xcode-select --install"
    )


@pytest.mark.usefixtures("bare")
def test_on_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("PROGRAMFILES(X86)", str(tmp_path))
    (missing,) = [each for each in find_missing() if "compiler" in each.what]
    assert missing.what == "a C++17 compiler (Visual Studio)"
    assert missing.fix is not None
    assert "Build Tools for Visual Studio" in missing.fix


@pytest.mark.parametrize(("answer", "found"), [("C:/VS/2022", True), ("", False)])
def test_visual_studio_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, *, found: bool
) -> None:
    """It prints the paths of the installations that have C++, or nothing."""
    vswhere = tmp_path / "Microsoft Visual Studio" / "Installer" / "vswhere.exe"
    vswhere.parent.mkdir(parents=True)
    vswhere.write_text(f"#!/bin/sh\necho '{answer}'\n")
    vswhere.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setenv("PROGRAMFILES(X86)", str(tmp_path))
    assert prerequisites.has_visual_studio() == found


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=200_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    missing = prerequisites.check_disk(10**9, tmp_path / "not" / "there")
    assert missing is not None
    assert missing.what == f"1.0 GB of free disk space in {tmp_path} (it has 0.2 GB)"
    assert prerequisites.check_disk(10**8, tmp_path) is None


def test_make_runs_it_with_a_bare_python() -> None:
    """Isolated from site-packages, as the system's Python is before anything is installed."""
    directory = Path(prerequisites.__file__).parents[1]
    script = f"import sys; sys.path.insert(0, {str(directory)!r}); import modelwheel.prerequisites"
    subprocess.run([sys.executable, "-I", "-S", "-c", script], check=True)
