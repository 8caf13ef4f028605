"""The audit of wheels as they are built, and of one whose code was compiled for the wrong CPU level."""

from __future__ import annotations

import base64
import hashlib
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from modelwheel.audit import GATES
from modelwheel.audit.opened import open_wheel
from modelwheel.errors import AuditError
from tests.support.commands import Modelwheel, run
from tests.support.tools import cmake
from tests.support.wheels import LEVELS, SPECS, Built

pytestmark = pytest.mark.slow


def test_wheels_are_accepted(modelwheel: Modelwheel, built: Built) -> None:
    """Here they promise nothing about the C library, which `auditwheel repair` adds."""
    results = modelwheel("audit", "--json", *[built.wheel(name) for name in SPECS]).json
    assert len(results) == len(SPECS)
    for result in results:
        assert result["accepted"], result
        assert result["gates"] == list(GATES)
        (note,) = result["findings"]
        assert note["severity"] == "note"
        assert "guarantees nothing about the C library" in note["text"]


def test_refusals_are_told_in_sentences(
    modelwheel: Modelwheel, built: Built, tmp_path: Path
) -> None:
    wheel = built.wheel("mlp")
    renamed = Path(shutil.copy(wheel, tmp_path / wheel.name.replace("linux_x86_64", "win_amd64")))
    done = modelwheel("audit", wheel, renamed, code=AuditError.exit_code)
    assert done.out.startswith(f"accepted {wheel.name} (")
    assert f"\nrefused {renamed.name} (" in done.out
    assert "which requires PE for x86_64; compile it for that target" in done.out
    assert done.err == f"error: failed the audit: {renamed.name} [MW840]\n"


@pytest.mark.skipif("x86-64-v3" not in LEVELS, reason="only x86-64 has several levels by default")
def test_code_for_the_wrong_level_is_refused(built: Built, tmp_path: Path) -> None:
    """One level's file with the flags of a higher one, and one file that all levels share."""
    project = Path(shutil.copytree(built.project("mlp"), tmp_path / "project"))
    replace(project / "cmake" / "levels.cmake", "-march=x86-64)", "-march=x86-64-v3)")
    with (project / "cmake" / "library.cmake").open("a") as file:
        file.write(
            "set_source_files_properties(src/batching.cpp PROPERTIES COMPILE_OPTIONS -mavx2)\n"
        )
    library = build_library(project, tmp_path / "build")
    member = "model_mlp/lib/libmodel_mlp.so"
    wheel = with_member(built.wheel("mlp"), member, library.read_bytes(), tmp_path)
    found = [str(finding) for finding in GATES["instruction sets"](open_wheel(wheel))]
    assert all(sentence.startswith(f"{member}: ") for sentence in found)
    level = [sentence for sentence in found if "runs on the level x86-64 " in sentence]
    shared = [sentence for sentence in found if "runs on every CPU " in sentence]
    assert level
    assert shared
    for sentence in (*level, *shared):
        assert "the function at 0x" in sentence
        assert "(AVX)" in sentence or "(FMA)" in sentence or "(AVX2)" in sentence
        assert ", first at 0x" in sentence
        assert "compile its source for the right level" in sentence


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def build_library(project: Path, directory: Path) -> Path:
    """Builds the library of a project and strips it as an installation does."""
    pybind11 = run(sys.executable, "-m", "pybind11", "--cmakedir").out.strip()
    cmake("-S", project, "-B", directory, "-DCMAKE_BUILD_TYPE=Release", "-G", "Ninja",
          f"-Dpybind11_DIR={pybind11}", f"-DPython_EXECUTABLE={sys.executable}")  # fmt: skip
    cmake("--build", directory, "--target", "model_mlp")
    library = directory / "libmodel_mlp.so"
    run("strip", library)
    return library


def with_member(wheel: Path, name: str, content: bytes, directory: Path) -> Path:
    """The same wheel with another file in it."""
    changed = directory / wheel.name
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w") as new:
        for member in old.infolist():
            data = content if member.filename == name else old.read(member)
            if member.filename.endswith("/RECORD"):
                lines = data.decode().splitlines()
                entry = f"{name},sha256={digest},{len(content)}"
                lines = [entry if line.startswith(f"{name},") else line for line in lines]
                data = "\n".join([*lines, ""]).encode()
            new.writestr(member, data)
    return changed
