"""What must be built again since a tag; nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.engine.planning.plan import survey
from modelwheel.engine.planning.since import surveys_at
from modelwheel.engine.planning.why import Explainer
from modelwheel.errors import UsageError
from modelwheel.request import Request, make_request
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from modelwheel.workers import jobs
from tests.support.histories import pretend_build
from tests.support.repositories import Repository, isolate_git
from tests.unit.engine.test_why import use_compiler

_SPEC = """
model: {name: tiny, version: "1.0.0", saved_model: ./model}
targets: [x86-64]
package: {license_files: [LICENSE]}
"""


@pytest.fixture(autouse=True)
def _compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    use_compiler(monkeypatch, "g++ 12")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with one spec, its model and a licence, tagged v1."""
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    made = Repository(tmp_path / "repository")
    made.commit(
        {
            "specs/tiny.yaml": _SPEC.encode(),
            "specs/model/saved_model.pb": b"toy",
            "specs/LICENSE": b"Do what you like.",
        }
    )
    made.git("tag", "v1")
    return made


def _request(repository: Repository, name: str = "tiny.yaml") -> Request:
    spec = load_spec(repository.directory / "specs" / name)
    return make_request(spec, platforms=["linux-x86_64"])


def _since(request: Request, store: Store, scratch: Path, tag: str = "v1") -> dict[str, list[str]]:
    scratch.mkdir()
    now = survey(request, store)
    (then,) = surveys_at(tag, [now], store, "wheel", scratch)
    found = Explainer(store).since(now, then.survey, then.time)
    return {
        name.partition("/")[2]: [reason.text for reason in reasons]
        for name, reasons in found.items()
    }


def test_nothing_has_changed(repository: Repository, store: Store, tmp_path: Path) -> None:
    pretend_build(_request(repository), store)
    assert _since(_request(repository), store, tmp_path / "scratch") == {}


def test_a_field_and_what_follows_although_it_was_built_meanwhile(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    pretend_build(_request(repository), store)
    repository.commit({"specs/tiny.yaml": f"{_SPEC}verify: {{seed: 7}}\n".encode()})
    pretend_build(_request(repository), store)
    found = _since(_request(repository), store, tmp_path / "scratch")
    assert found["reference"] == ["seed changed from 0 to 7"]
    assert found["project"][0] == "spec field verify.seed changed from 0 to 7"
    # The pretended project has the same files, from which the same wheel is made.
    assert set(found) == {"reference", "project"}


def test_a_model_and_a_licence_are_compared_with_those_of_the_tag(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    pretend_build(_request(repository), store)
    repository.commit({"specs/model/saved_model.pb": b"Toy", "specs/LICENSE": b"Do nothing."})
    found = _since(_request(repository), store, tmp_path / "scratch")
    assert found["inspect"] == ["model file saved_model.pb changed"]
    assert "licenses.LICENSE changed" in found["project"]


def test_a_tensorflow_that_came_after_the_tag(
    repository: Repository, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "TENSORFLOW_VERSION", "2.1.0")
    pretend_build(_request(repository), store)
    monkeypatch.setattr(jobs, "TENSORFLOW_VERSION", "2.2.0")
    said = ["TensorFlow changed from 2.1.0 to 2.2.0"]
    assert _since(_request(repository), store, tmp_path / "before")["inspect"] == said
    # Also if it was built with the new one meanwhile: the release was not.
    pretend_build(_request(repository), store)
    assert _since(_request(repository), store, tmp_path / "after")["inspect"] == said


def test_a_new_spec_and_a_renamed_one(repository: Repository, store: Store, tmp_path: Path) -> None:
    repository.git("mv", "specs/tiny.yaml", "specs/renamed.yaml")
    repository.commit({})
    renamed = _request(repository, "renamed.yaml")
    pretend_build(renamed, store)
    assert _since(renamed, store, tmp_path / "renamed") == {}

    repository.commit({"specs/other.yaml": b"targets: [x86-64-v3]\n" + _OTHER})
    found = _since(_request(repository, "other.yaml"), store, tmp_path / "other")
    assert {tuple(reasons) for reasons in found.values()} == {("never built",)}


_OTHER = b'model: {name: another, version: "1.0.0", saved_model: ./model}\n'


def test_a_model_that_git_does_not_keep(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    repository.git("rm", "--quiet", "-r", "--cached", "specs/model")
    (repository.directory / ".gitignore").write_text("model\n")
    repository.git("add", ".gitignore", "specs")
    repository.git("commit", "--quiet", "--message=x")
    repository.git("tag", "v2")
    pretend_build(_request(repository), store)
    assert _since(_request(repository), store, tmp_path / "scratch", "v2") == {}


def test_a_tag_that_does_not_exist(repository: Repository, store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no tag 'v9'; fetch it with `git fetch --tags`"):
        _since(_request(repository), store, tmp_path / "scratch", "v9")
