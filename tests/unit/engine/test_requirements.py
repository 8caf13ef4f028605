"""What a build checks on this machine before it does anything slow."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest

from modelwheel.engine import requirements
from modelwheel.engine.planning.plan import PlannedStep, State
from modelwheel.engine.requirements import require_for_build
from modelwheel.engine.steps import Goal
from modelwheel.errors import EnvironmentProblemError
from modelwheel.request import Request, make_request
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from tests.support.commands import Modelwheel

SPEC = """\
model: {{name: tiny, version: "1.0.0"}}
source: {{directory: model}}
targets: [x86-64, armv8-a]
package: {{bindings: {bindings}}}
"""


def write_spec(directory: Path, bindings: str = "extension") -> Path:
    (directory / "model").mkdir()
    (directory / "model" / "saved_model.pb").write_bytes(b"graph")
    path = directory / "tiny.yaml"
    path.write_text(SPEC.format(bindings=bindings))
    return path


@pytest.fixture
def no_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sysconfig.get_path
    monkeypatch.setattr(
        sysconfig, "get_path", lambda name: str(tmp_path) if name == "include" else real(name)
    )


def plan_of(monkeypatch: pytest.MonkeyPatch, **states: State) -> None:
    """Has a build consist of steps of these kinds."""

    def plan(request: Request, store: Store, goal: Goal) -> list[PlannedStep]:  # noqa: ARG001
        return [PlannedStep(kind, kind, state, None) for kind, state in states.items()]

    monkeypatch.setattr(requirements, "plan", plan)


def require(directory: Path, bindings: str = "extension", goal: Goal = "wheel") -> None:
    request = make_request(load_spec(write_spec(directory, bindings)))
    require_for_build([request], Store(directory / "cache"), goal, directory / "dist")


@pytest.mark.usefixtures("no_headers")
def test_headers_for_an_extension(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblemError, match=r"lacks Python's headers .*: apt install"):
        require(tmp_path)


@pytest.mark.usefixtures("no_headers")
def test_a_wheel_with_shared_bindings_needs_no_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_of(monkeypatch, wheel="run", runtime="cached")
    require(tmp_path, "shared")


@pytest.mark.usefixtures("no_headers")
def test_the_runtime_needs_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_of(monkeypatch, wheel="run", runtime="run")
    with pytest.raises(EnvironmentProblemError, match="headers"):
        require(tmp_path, "shared")


def test_compiler_and_headers_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_headers: None,  # noqa: ARG001
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(
        EnvironmentProblemError, match=r"headers .* and a C\+\+17 compiler .*-dev g\+\+$"
    ):
        require(tmp_path)


def test_a_source_distribution_needs_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    require(tmp_path, goal="sdist")


def test_what_is_cached_needs_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_headers: None,  # noqa: ARG001
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: pytest.fail("the disk was looked at"))
    plan_of(monkeypatch, compile="cached", wheel="cached", runtime="cached")
    require(tmp_path)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(EnvironmentProblemError, match=r"1\.0 GB of free disk space"):
        require(tmp_path, goal="sdist")


@pytest.mark.parametrize("command", ["build", "tune"])
def test_commands_say_it_first(tmp_path: Path, command: str) -> None:
    modelwheel = Modelwheel(tmp_path / "cache")
    spec = write_spec(tmp_path)
    done = modelwheel(
        command, spec, code=EnvironmentProblemError.exit_code, PATH="/nowhere", CXX=""
    )
    assert done.err.startswith("error: this machine lacks a C++17 compiler (c++); ")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "dist").exists()


def test_the_runtime_says_it_first(tmp_path: Path) -> None:
    modelwheel = Modelwheel(tmp_path / "cache")
    done = modelwheel(
        "runtime", "--wheel", "--out", tmp_path / "dist",
        code=EnvironmentProblemError.exit_code, PATH="/nowhere", CXX="",
    )  # fmt: skip
    assert "a C++17 compiler" in done.err
