"""`modelwheel init`: what it writes into an empty directory, and what it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelwheel import __version__
from modelwheel.config import Mode, load_config
from modelwheel.errors import RepositoryError
from modelwheel.platforms import WHEEL_PLATFORMS
from modelwheel.repository.begin import answer, begin
from modelwheel.repository.files import Answers, Service, files_of
from modelwheel.repository.record import RECORD
from modelwheel.spec import load_spec
from modelwheel.spec.schema import schema_text
from tests.support.commands import COMMAND, parse, run
from tests.support.repositories import Repository, isolate_git
from tests.support.workflows import EXPRESSION

MODES: tuple[Mode, ...] = ("github", "pypi", "token")
SERVICES: tuple[tuple[Service, ...], ...] = (("github",), ("gitlab",), ("github", "gitlab"))


def answers(services: tuple[Service, ...] = ("github",), mode: Mode = "github") -> Answers:
    return Answers(title="models", services=services, mode=mode, slug="org/models")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("services", SERVICES)
def test_every_word_is_filled_in(services: tuple[Service, ...], mode: Mode) -> None:
    for file in files_of(answers(services, mode)):
        assert "%%" not in file.text
        assert file.text.endswith("\n")
        assert not file.text.endswith("\n\n")


def test_workflows_are_short_and_call_this_version(tmp_path: Path) -> None:
    begin(tmp_path, answers())
    files = sorted((tmp_path / ".github" / "workflows").iterdir())
    assert len(files) == 5
    for path in files:
        workflow: dict[Any, Any] = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {}
        for job in workflow["jobs"].values():
            where, _, version = job["uses"].partition("@")
            assert where.startswith("modelwheel/modelwheel/.github/workflows/")
            assert version == f"v{__version__}"
            assert "steps" not in job
        said = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        assert len(said) <= (50 if path.name == "release.yml" else 25)  # it has options, by hand


@pytest.mark.parametrize("mode", MODES)
def test_the_configuration_is_read(tmp_path: Path, mode: Mode) -> None:
    begin(tmp_path, answers(mode=mode))
    config = load_config(tmp_path)
    assert config.release.mode == mode
    assert config.release.repository == "org/models"
    assert config.build.platforms == tuple(WHEEL_PLATFORMS)
    assert config.build.bindings == "shared"
    # The addresses of an index are to be filled in; GitHub and PyPI are known.
    assert ("# upload = " in (tmp_path / "modelwheel.toml").read_text()) == (mode == "token")


def test_the_example_is_a_spec_with_shared_bindings(tmp_path: Path) -> None:
    begin(tmp_path, answers())
    spec = load_spec(tmp_path / "model_specs" / "example.yaml")
    assert spec.package.bindings == "shared"
    assert spec.package.weights_license
    assert (tmp_path / "model_specs" / "schema.json").read_text() == schema_text()


def test_git_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    repository = Repository(tmp_path / "checkout")
    repository.commit({"LICENSE": b"text"})
    repository.git("branch", "--move", "trunk")
    repository.git("remote", "add", "origin", "git@github.com:Org/Nets.git")
    found = answer(repository.directory, ("github",), "github", None, None)
    assert (found.slug, found.branch, found.title) == ("Org/Nets", "trunk", "Nets")
    assert found.site == "https://org.github.io/Nets/simple/"
    begin(repository.directory, found)
    merge = yaml.safe_load((repository.directory / ".github/workflows/merge.yml").read_text())
    assert merge[True]["push"]["branches"] == ["trunk"]  # YAML 1.1 reads `on` as true
    assert load_config(repository.directory).index.site == found.site


@pytest.mark.parametrize("remote", ["https://gitlab.com/org/models.git", "/srv/models.git"])
def test_another_host_is_no_repository_on_github(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: str
) -> None:
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    repository = Repository(tmp_path / "checkout")
    repository.git("remote", "add", "origin", remote)
    found = answer(repository.directory, ("gitlab",), "token", None, None)
    assert (found.slug, found.site) == ("", "")


def test_nothing_is_overwritten_without_saying_so(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine\n")
    (tmp_path / ".gitignore").mkdir()
    with pytest.raises(
        RepositoryError, match=r"2 files .*README\.md, .*\.gitignore; move"
    ) as error:
        begin(tmp_path, answers())
    assert "--force" in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "README.md"]
    (tmp_path / ".gitignore").rmdir()
    begun = begin(tmp_path, answers(), force=True)
    assert begun.overwritten == ("README.md",)
    assert (tmp_path / "README.md").read_text() != "mine\n"
    again = begin(tmp_path, answers())
    assert (again.overwritten, again.written) == ((), (RECORD,))
    assert len(again.unchanged) == len(files_of(answers()))


def test_the_command(tmp_path: Path) -> None:
    here = tmp_path / "models"
    done = run(*COMMAND, "init", here, "--repository", "org/models", "--ci", "both", "--json")
    written = json.loads(done.out)["written"]
    assert {".gitlab-ci.yml", ".github/workflows/release.yml", RECORD} <= set(written)
    assert all((here / path).is_file() for path in written)
    (here / "README.md").write_text("mine\n")
    done = run(*COMMAND, "init", here, "--repository", "org/models", code=18)
    assert "modelwheel update" in done.err
    assert "Traceback" not in done.err
    done = run(*COMMAND, "check", here / "model_specs", "--spec-only")
    assert "1 spec OK" in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--ci", "gitlab", "--mode", "github"),
            "--mode github cannot be combined with --ci gitlab",
        ),
        (("--repository", "models"), "--repository: must be OWNER/REPOSITORY"),
        (("--site-url", "models.example.org"), "--site-url: must be an https:// address"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    done = run(*COMMAND, "init", tmp_path / "models", *options, code=2)
    assert said in done.err.replace("\n", " ")
    assert not (tmp_path / "models").exists()


def test_a_file_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is a file" in run(*COMMAND, "init", tmp_path / "file", code=2).err


def test_gitlab_runs_commands_that_exist() -> None:

    (text,) = [
        file.text for file in files_of(answers(("gitlab",), "token")) if "gitlab" in file.path
    ]
    pipeline = yaml.safe_load(text)
    lines = [
        line for job in pipeline.values() if isinstance(job, dict) for line in job.get("script", ())
    ]
    assert len(lines) >= 9
    assert not EXPRESSION.search(text)
    for line in lines:
        program, *arguments = line.replace('"', "").replace("$SANDBOX", "off").split()
        assert program == "modelwheel"
        parse(arguments)
