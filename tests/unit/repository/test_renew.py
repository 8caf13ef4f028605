"""`modelwheel update`: what a new version changes, what a repository changed, and what becomes of both."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from modelwheel.config import FILE_NAME
from modelwheel.errors import RepositoryError
from modelwheel.repository.begin import begin
from modelwheel.repository.files import Answers, File, files_of
from modelwheel.repository.record import RECORD, describe, load, save
from modelwheel.repository.renew import Change, Choice, apply, plan
from tests.support.commands import COMMAND, run

SPEC = ".github/workflows/spec.yml"
ANSWERS = Answers(title="models", services=("github",), slug="org/models")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """As an older version wrote it: spec.yml called another version, and schema.json was empty."""
    begin(tmp_path, ANSWERS)
    record = load(tmp_path)
    old = {SPEC: old_text(tmp_path), "model_specs/schema.json": "{}\n"}
    for path, text in old.items():
        (tmp_path / path).write_text(text)
    files = {path: describe(File(path, text)) for path, text in old.items()}
    save(tmp_path, ANSWERS, {**record.files, **files})
    return tmp_path


def old_text(repository: Path) -> str:
    return re.sub(r"check\.yml@v\S+", "check.yml@v0.0.1", (repository / SPEC).read_text())


def update(repository: Path, choice: Choice = "stop") -> dict[str, Change]:
    """Updates, and returns what became of each file that is not up to date."""
    record, changes = plan(repository, choice)
    apply(repository, record, changes)
    return {change.path: change for change in changes if change.state != "same"}


def test_a_new_repository_is_up_to_date(tmp_path: Path) -> None:
    begin(tmp_path, ANSWERS)
    before = (tmp_path / RECORD).read_bytes()
    assert update(tmp_path) == {}
    assert (tmp_path / RECORD).read_bytes() == before


def test_what_nobody_changed_is_renewed(repository: Path) -> None:
    old = old_text(repository)
    changes = update(repository)
    assert {path: change.state for path, change in changes.items()} == {
        SPEC: "renewed",
        "model_specs/schema.json": "renewed",
    }
    assert (repository / SPEC).read_text() != old
    assert (
        "-    uses: modelwheel/modelwheel/.github/workflows/check.yml@v0.0.1"
        in changes[SPEC].difference
    )
    assert update(repository) == {}


def test_changes_of_the_repository_are_kept(repository: Path) -> None:
    mine = old_text(repository).replace(
        "  pull_request:\n", "  pull_request:\n    branches: [main]\n"
    )
    (repository / SPEC).write_text(mine)
    (repository / "README.md").write_text("mine\n")
    changes = update(repository)
    assert changes[SPEC].state == "merged"
    text = (repository / SPEC).read_text()
    assert "branches: [main]" in text
    assert "@v0.0.1" not in text
    assert (repository / "README.md").read_text() == "mine\n"
    assert update(repository) == {}
    assert (repository / SPEC).read_text() == text


def test_the_same_lines_are_a_conflict(repository: Path) -> None:
    mine = old_text(repository).replace("check.yml@v0.0.1", "check.yml@main #")
    for choice, text in (("stop", mine), ("mine", mine), ("new", None)):
        begin(repository, ANSWERS, force=True)
        (repository / SPEC).write_text(mine)
        record = load(repository)
        old = describe(File(SPEC, mine.replace("check.yml@main #", "check.yml@v0.0.1")))
        save(repository, ANSWERS, {**record.files, SPEC: old})
        changes = update(repository, choice)  # type: ignore[arg-type]
        found = (repository / SPEC).read_text()
        assert found == text if text else found != mine
        # Until it is resolved, it is a conflict again.
        again = update(repository)
        assert [change.state for change in again.values()] == (
            ["conflict"] if choice == "stop" else []
        )
        assert ("conflict" in {c.state for c in changes.values()}) == (choice == "stop")


def test_a_conflict_is_over_when_the_new_lines_are_there(repository: Path) -> None:
    (new,) = [file.text for file in files_of(ANSWERS) if file.path == SPEC]
    (repository / SPEC).write_text(
        old_text(repository).replace("check.yml@v0.0.1", "check.yml@main #")
    )
    assert update(repository)[SPEC].state == "conflict"
    (repository / SPEC).write_text(f"# mine\n{new}")
    assert update(repository) == {}
    assert (repository / SPEC).read_text() == f"# mine\n{new}"


def test_a_file_that_was_removed_stays_away(repository: Path) -> None:
    (repository / SPEC).unlink()
    assert update(repository)[SPEC].state == "kept"
    assert update(repository)[SPEC].state == "kept"
    assert not (repository / SPEC).exists()


def test_a_file_that_is_new_in_this_version_is_written(repository: Path) -> None:
    record = load(repository)
    (repository / SPEC).unlink()
    save(repository, ANSWERS, {path: f for path, f in record.files.items() if path != SPEC})
    assert update(repository)[SPEC].state == "new"
    assert (repository / SPEC).is_file()


def test_a_file_that_this_version_does_not_have_is_removed(repository: Path) -> None:
    record = load(repository)
    gone = {name: describe(File(name, "old\n")) for name in ("gone.yml", "changed.yml")}
    save(repository, ANSWERS, {**record.files, **gone})
    (repository / "gone.yml").write_text("old\n")
    (repository / "changed.yml").write_text("mine\n")
    changes = update(repository)
    assert (changes["gone.yml"].state, changes["changed.yml"].state) == ("removed", "conflict")
    assert not (repository / "gone.yml").exists()
    assert (repository / "changed.yml").read_text() == "mine\n"
    assert "gone.yml" not in update(repository)


def test_the_mode_of_releases_is_that_of_the_configuration(repository: Path) -> None:
    config = repository / FILE_NAME
    config.write_text(config.read_text().replace('mode = "github"', 'mode = "pypi"'))
    update(repository)
    assert (
        "pypa/gh-action-pypi-publish" in (repository / ".github/workflows/release.yml").read_text()
    )


@pytest.mark.parametrize(
    ("content", "said"), [(None, "has no .modelwheel.json"), ("{}", "version")]
)
def test_without_a_record(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / RECORD).write_text(content)
    with pytest.raises(RepositoryError, match=said):
        plan(tmp_path)


def test_the_command(repository: Path) -> None:
    done = run(*COMMAND, "update", repository, "--check", code=18)
    assert "2 files would change" in done.out
    assert "+    uses: " in done.out
    assert "run `modelwheel update`" in done.err
    (repository / SPEC).write_text(
        old_text(repository).replace("check.yml@v0.0.1", "check.yml@main #")
    )
    done = run(*COMMAND, "update", repository, code=18)
    assert done.err.count("\n") == 1
    assert f"{SPEC}: you and the new version of modelwheel changed the same lines" in done.err
    done = run(*COMMAND, "update", repository, "--on-conflict", "new", "--json")
    states = {change["path"]: change["state"] for change in json.loads(done.out)}
    assert states[SPEC] == "renewed"
    assert "0 files would change" in run(*COMMAND, "update", repository, "--check").out
