"""Wheels of a release up to the moment when a container would start: what is asked for, what is refused."""

from __future__ import annotations

import os
import shlex
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from modelwheel.errors import EnvironmentProblemError, UsageError, WheelError
from modelwheel.packaging.checksums import CHECKSUMS, write_checksums
from modelwheel.packaging.runtime import NEEDED_SDIST, build_runtime, write_project
from modelwheel.platforms import PYTHONS
from modelwheel.release.cibuildwheel import (
    Selection,
    build_wheels,
    find_identifiers,
    require_cibuildwheel,
    select,
)
from modelwheel.release.outcome import Outcome
from modelwheel.util.python import module_command
from modelwheel.util.records import as_json
from tests.support.commands import Modelwheel

pytest.importorskip("cibuildwheel", reason="the extra `release` is not installed")

MACOS = Selection("macos", ("cp312-macosx_arm64",))
"""What needs no container engine, and stops here all the same: cibuildwheel wants a Mac for it."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CIBW_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution with the configuration that all of them have."""
    return build_runtime("sdist", tmp_path_factory.mktemp("runtime"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The same, pretending to hold the machine code of a model."""
    directory = tmp_path / "model_a-1.0.0"
    directory.mkdir()
    write_project(directory)
    for platform in ("linux-x86_64", "macos-arm64"):
        (directory / "platforms" / platform).mkdir(parents=True)
        (directory / "platforms" / platform / "manifest.json").write_text("{}")
    (directory / CHECKSUMS).unlink()
    write_checksums(directory)
    return directory


def pack(project: Path, name: str = "model_a-1.0.0.tar.gz") -> Path:
    sdist = project.with_name(name)
    with tarfile.open(sdist, "w:gz") as archive:
        archive.add(project, project.name)
    return sdist


def build(sdists: Sequence[Path], selection: Selection, out: Path) -> tuple[list[Outcome], str]:
    lines: list[str] = []
    outcomes = list(build_wheels(sdists, selection, out, lines.append))
    assert list(out.iterdir()) == []  # each of these builds fails
    return outcomes, "\n".join(lines)


# --- what is selected -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "identifiers", "selection"),
    [
        ("macos", [], Selection("macos")),
        (None, ["cp312-win_amd64"], Selection("windows", ("cp312-win_amd64",))),
        ("macos", ["cp312-macosx_arm64"], Selection("macos", ("cp312-macosx_arm64",))),
        (
            None,
            ["cp310-manylinux_x86_64 cp314t-musllinux_aarch64", "cp310-manylinux_x86_64"],
            Selection("linux", ("cp310-manylinux_x86_64", "cp314t-musllinux_aarch64")),
        ),
    ],
)
def test_what_is_asked_for(
    system: str | None, identifiers: list[str], selection: Selection
) -> None:
    assert select(system, identifiers) == selection


def test_this_machine_is_meant_by_default() -> None:
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")
    assert select(None, []) == Selection(system)


@pytest.mark.parametrize(
    ("system", "identifiers", "sentence"),
    [
        ("macos", ["cp312-win_amd64"], "builds for one system, not for macos, windows"),
        (
            None,
            ["cp312-win_amd64", "cp312-macosx_arm64"],
            "builds for one system, not for macos, windows",
        ),
        (None, ["cp312"], "'cp312' is not a build identifier of cibuildwheel"),
        (None, ["cp312-linux_x86_64"], "an example is cp312-manylinux_x86_64"),
        ("solaris", [], "choose from linux, macos, windows"),
    ],
)
def test_what_nobody_can_build(system: str | None, identifiers: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        select(system, identifiers)


@pytest.mark.parametrize(
    ("system", "tags"),
    [
        ("linux", ("manylinux", "musllinux")),
        ("macos", ("macosx",)),
        ("windows", ("win",)),
    ],
)
def test_every_source_distribution_says_what_wheels_it_wants(
    runtime: Path, system: str, tags: tuple[str, ...]
) -> None:
    found = find_identifiers(runtime, select(system, []), os.environ)
    assert {name.rpartition("_")[0].partition("_")[0] for name in found} == {
        f"{python}-{tag}" for tag in tags for python in PYTHONS
    }
    assert len(found) == len(tags) * len(PYTHONS)  # one architecture: that of the machine


def test_identifiers_reach_past_this_machine(runtime: Path) -> None:
    selection = select("linux", ["cp312-musllinux_aarch64", "cp315-manylinux_x86_64"])
    environment = {**os.environ, **selection.environment, "CIBW_SKIP": ""}
    found = find_identifiers(runtime, selection, environment)
    assert set(found) == set(selection.identifiers)


def test_an_identifier_that_does_not_exist(runtime: Path) -> None:
    selection = select(None, ["cp312-manylinux_x86_46"])
    with pytest.raises(UsageError, match="did you mean one of cp312-manylinux_x86_64"):
        find_identifiers(runtime, selection, {**os.environ, **selection.environment})


def test_nothing_is_selected(runtime: Path) -> None:
    with pytest.raises(WheelError, match="no wheel is selected for linux; check CIBW_BUILD"):
        find_identifiers(runtime, select("linux", []), {**os.environ, "CIBW_SKIP": "*"})


def test_a_setting_that_cibuildwheel_refuses(runtime: Path) -> None:
    with pytest.raises(WheelError, match=r"(?s)runtime-.*: cibuildwheel failed:.*vax"):
        find_identifiers(runtime, select("linux", []), {**os.environ, "CIBW_ARCHS": "vax"})


# --- what is refused before anything is built -----------------------------------------------------


def test_a_file_that_is_not_what_the_checksums_say(project: Path, tmp_path: Path) -> None:
    (project / "CMakeLists.txt").write_text("message(hello)\n")
    ((outcome,), said) = build([pack(project)], MACOS, tmp_path / "out")
    assert "CMakeLists.txt is missing or is not the file" in str(outcome.error)
    assert said == ""


def test_machine_code_for_another_platform(project: Path, tmp_path: Path) -> None:
    selection = select(None, ["cp312-macosx_x86_64"])
    ((outcome,), said) = build([pack(project)], selection, tmp_path / "out")
    assert str(outcome.error) == (
        "model_a-1.0.0.tar.gz has no machine code for macos-x86_64, which cp312-macosx_x86_64 requires; "
        "it was compiled for linux-x86_64, macos-arm64. Compile it again with "
        "`modelwheel compile --platform macos-x86_64`"
    )
    assert said == ""


@pytest.mark.skipif(sys.platform == "darwin", reason="here the build would begin")
def test_each_failure_is_its_own(project: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.tar.gz"
    outcomes, said = build([missing, pack(project)], MACOS, tmp_path / "out")
    first, second = (str(outcome.error) for outcome in outcomes)
    assert first.startswith(f"cannot unpack {missing}: ")
    assert "Traceback" not in second
    assert second.startswith("model_a-1.0.0.tar.gz: ")
    assert "cibuildwheel version" in said
    assert [outcome["wheels"] for outcome in as_json(outcomes)] == [[], []]


@pytest.mark.skipif(sys.platform == "darwin", reason="here the build would begin")
def test_settings_of_the_caller_stay_in_force(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, said = build([pack(project)], MACOS, tmp_path / "out")
    assert shlex.join((*module_command("modelwheel"), "audit")) + " {wheel}" in said
    assert "build_frontend: build[uv]" in said
    monkeypatch.setenv("CIBW_AUDIT_COMMAND", "my-audit {wheel}")
    monkeypatch.setenv("CIBW_BUILD_FRONTEND", "build")
    _, said = build([pack(project)], MACOS, tmp_path / "out")
    assert "my-audit {wheel}" in said
    assert "build[uv]" not in said
    assert "modelwheel audit" not in said


@pytest.mark.skipif(sys.platform == "darwin", reason="here the build would begin")
def test_the_runtime_that_came_along_is_tested_with(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name, where environments of uv have no pip: not the newest that an index has."""
    needed = project / NEEDED_SDIST
    needed.parent.mkdir()
    needed.write_bytes(b"a copy")
    (project / CHECKSUMS).unlink()
    write_checksums(project)
    command = f"uv pip install {{project}}/{NEEDED_SDIST}"
    _, said = build([pack(project)], MACOS, tmp_path / "out")
    assert command in said
    monkeypatch.setenv("CIBW_BUILD_FRONTEND", "build")
    _, said = build([pack(project)], MACOS, tmp_path / "out")
    assert command not in said


# --- what this machine lacks ----------------------------------------------------------------------


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cibuildwheel", None)
    with pytest.raises(EnvironmentProblemError, match=r'pip install "modelwheel\[release\]"'):
        require_cibuildwheel()


# --- the command ----------------------------------------------------------------------------------


def test_the_command_says_what_became_of_each(project: Path, tmp_path: Path) -> None:
    command = Modelwheel(tmp_path / "cache")
    options = ("--only", "cp312-macosx_x86_64", "--out", tmp_path / "out", "--json")
    done = command("wheel", pack(project), *options, code=WheelError.exit_code)
    (outcome,) = done.json
    assert outcome["wheels"] == []
    assert "no machine code for macos-x86_64" in outcome["error"]
    assert "error: model_a-1.0.0.tar.gz has no machine code" in done.err
    command("wheel", pack(project), "--only", "cp312", code=UsageError.exit_code)
