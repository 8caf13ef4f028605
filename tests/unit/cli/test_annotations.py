"""What a workflow of GitHub reads from the output of commands: a mistake at its file, line and column."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from modelwheel.cli.display.annotations import (
    Annotation,
    annotate,
    of_checked,
    of_error,
    of_findings,
)
from modelwheel.engine.check_models import CheckedModel
from modelwheel.errors import UnsupportedModelError
from modelwheel.model.findings import Finding
from tests.support.commands import Modelwheel, write_tiny_spec
from tests.support.hostile_text import EVERYTHING


def commands(text: str) -> list[str]:
    """The lines that GitHub takes for commands."""
    return [line for line in text.splitlines() if re.match(r"\s*::|.*##\[", line)]


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout with a spec that has two mistakes."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    specs = tmp_path / "model_specs"
    specs.mkdir()
    path = write_tiny_spec(specs)
    path.write_text("model:\n  name: Tiny\n  version: '1'\n  speed: 100%\n")
    return tmp_path


@pytest.mark.parametrize("command", [("check", "--spec-only"), ("plan",), ("build",), ("compile",)])
def test_each_mistake_in_a_spec_is_at_its_place(
    modelwheel: Modelwheel,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    # From another directory: paths are those of the repository.
    monkeypatch.chdir(checkout / "model_specs")
    done = modelwheel(*command, "tiny.yaml", code=3, GITHUB_ACTIONS="true")
    first, second = commands(done.err)
    assert first.startswith(
        "::error file=model_specs/tiny.yaml,line=2,col=9,title=spec::model.name: "
    )
    assert second.startswith("::error file=model_specs/tiny.yaml,line=4,col=3,title=spec::")
    assert "tiny.yaml:2:9: model.name: " in done.err  # for people, as ever
    assert not commands(modelwheel(*command, "tiny.yaml", code=3).err)


def test_standard_output_stays_json(
    modelwheel: Modelwheel, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    done = modelwheel(
        "check", "model_specs", "--spec-only", "--json", code=3, GITHUB_ACTIONS="true"
    )
    assert len(done.json["problems"]) == len(commands(done.err)) == 2


def test_a_mistake_in_the_configuration(
    modelwheel: Modelwheel, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout / "model_specs")
    (checkout / "modelwheel.toml").write_text("# addresses\n[index]\nurl = 3\n")
    (command,) = commands(modelwheel("config", code=2, GITHUB_ACTIONS="true").err)
    assert command == (
        "::error file=modelwheel.toml,line=3,title=modelwheel::"
        "index.url: must be text in quotation marks, got 3"
    )


def test_an_error_without_a_place_is_on_the_page_of_the_run(modelwheel: Modelwheel) -> None:
    (command,) = commands(modelwheel("check", "absent.yaml", code=3, GITHUB_ACTIONS="true").err)
    assert command.startswith("::error title=modelwheel::no spec 'absent.yaml'")


def test_a_missing_licence_is_a_warning(
    modelwheel: Modelwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    write_tiny_spec(tmp_path)
    monkeypatch.chdir(tmp_path)
    (command,) = commands(
        modelwheel("check", "tiny.yaml", "--spec-only", GITHUB_ACTIONS="true").err
    )
    assert command.startswith(
        "::warning file=tiny.yaml,line=1,title=tiny::the licence of the weights is not stated"
    )


def test_characters_that_mean_something_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "a,b:c%.yaml"
    file.touch()
    annotation = Annotation("error", "50 %:\na, b\r\n::end::", "one: two, 3 %", file, 1, 2)
    assert annotation.command() == (
        f"::error file={str(tmp_path).replace(':', '%3A')}/a%2Cb%3Ac%25.yaml,line=1,col=2,"
        "title=one%3A two%2C 3 %25::50 %25:%0Aa, b%0A\\x3a:end::"
    )


def test_no_text_can_be_a_command_of_its_own() -> None:
    text = Annotation("warning", EVERYTHING, EVERYTHING, Path(EVERYTHING)).command()
    assert len(text.splitlines()) == 1
    assert text.startswith("::warning file=")
    assert "##[" not in text


def test_a_refused_model_is_at_its_spec(tmp_path: Path) -> None:
    spec = write_tiny_spec(tmp_path)
    error = UnsupportedModelError(f"{spec}:2:9: wrong signature\nXLA has no X\nXLA has no Y")
    findings = (
        Finding("warning", "tables", "3 of 9 rows are compared"),
        Finding("note", "range", "takes 0 <= x < 9", field=("verify",), place=f"{spec}:4:1"),
    )
    model = CheckedModel("tiny-1", "tiny", "key", error, None, findings, path=spec)
    found = list(of_checked([model]))
    assert [(one.severity, one.line, one.column, one.message) for one in found] == [
        ("error", 2, 9, "wrong signature"),
        ("error", 1, None, "XLA has no X\nXLA has no Y"),
        ("warning", 1, None, "3 of 9 rows are compared"),
        ("notice", 4, 1, "takes 0 <= x < 9"),
    ]
    assert {one.file for one in found} == {spec}


def test_only_files_that_exist_are_places() -> None:
    (found,) = of_error("absent.yaml:1:2: is wrong")
    assert (found.file, found.message) == (None, "absent.yaml:1:2: is wrong")
    (found,) = of_findings("net", [Finding("error", "x", "wrong", place="absent.yaml:1:2")])
    assert (found.file, found.message, found.title) == (None, "absent.yaml:1:2: wrong", "net")


def test_thousands_of_mistakes_are_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    annotate(Annotation("error", f"mistake {n}") for n in range(1000))
    assert len(commands(capsys.readouterr().err)) == 50
