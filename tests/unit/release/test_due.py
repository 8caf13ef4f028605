"""What has no release yet, and the tags that release it."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.errors import PublishError, SpecError
from modelwheel.release.due import list_due, make_tags
from modelwheel.release.listing import list_release
from modelwheel.spec import Spec, find_specs, load_specs
from tests.support.commands import Modelwheel
from tests.support.github import GitHub, serve_github
from tests.support.repositories import Repository, isolate_git

NAMES = ("alpha", "beta-gamma", "beta")
SPEC = 'model: {{name: {name}, version: "{version}"}}\nsource: {{directory: ../models/{name}}}\n'


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Three specs on `main`."""
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    made = Repository(tmp_path / "checkout")
    for name in NAMES:
        write(made, name)
        (made.directory / "models" / name).mkdir(parents=True)
        (made.directory / "models" / name / "saved_model.pb").write_text(name)
    made.commit({})
    monkeypatch.chdir(made.directory)
    return made


def write(repository: Repository, name: str, version: str = "1.0.0", more: str = "") -> None:
    path = repository.directory / "model_specs" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(SPEC.format(name=name, version=version) + more)


def specs() -> list[Spec]:
    return load_specs(find_specs(["model_specs"]))


def due(published: list[str] | None = None) -> dict[str, bool]:
    return {one.tag: one.new_project for one in list_due(specs(), published)}


def test_what_has_no_tag_is_due(repository: Repository) -> None:
    assert due() == {"alpha-1.0.0": True, "beta-1.0.0": True, "beta-gamma-1.0.0": True}
    repository.git("tag", "beta-gamma-1.0.0")
    repository.git("tag", "beta-0.9")
    assert due() == {"alpha-1.0.0": True, "beta-1.0.0": False}


def test_what_must_stay_here_is_never_due(repository: Repository) -> None:
    write(repository, "beta", more="package: {publish: false}\n")
    repository.commit({})
    assert due() == {"alpha-1.0.0": True, "beta-gamma-1.0.0": True}
    with pytest.raises(SpecError, match="so it has no release; remove that line"):
        next(make_tags(specs()))
    assert repository.git("tag", "--list") == ""
    (beta,) = [spec for spec in specs() if spec.model.name == "beta"]
    with pytest.raises(SpecError, match="`publish: false`"):
        list_release([beta])


def test_a_released_version_never_changes(repository: Repository) -> None:
    repository.git("tag", "beta-1.0.0")
    write(repository, "beta", more="compilation: {batch_sizes: [4, 1]}\n")
    with pytest.raises(SpecError, match=r"a released version never changes: raise model\.version"):
        due()
    write(repository, "beta", "1.0.1", more="compilation: {batch_sizes: [4, 1]}\n")
    assert due()["beta-1.0.1"] is False


def test_a_tag_without_a_release_is_still_due(repository: Repository) -> None:
    repository.git("tag", "alpha-1.0.0")
    repository.git("tag", "beta-1.0.0")
    assert due(["beta-1.0.0"]) == {"alpha-1.0.0": False, "beta-gamma-1.0.0": True}
    with pytest.raises(
        SpecError, match=r"beta-gamma-1.0.0 is released, but this checkout has no such tag"
    ):
        due(["beta-gamma-1.0.0"])


@pytest.fixture
def remote(repository: Repository) -> Path:
    """`origin`, which lists what arrived in each push."""
    directory = repository.directory.parent / "origin"
    repository.git("init", "--quiet", "--bare", str(directory))
    hook = directory / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncat >> ../pushes && echo >> ../pushes\n")
    hook.chmod(0o755)
    repository.git("remote", "add", "origin", str(directory))
    return directory


def pushes(remote: Path) -> list[list[str]]:
    blocks = (remote.parent / "pushes").read_text().strip().split("\n\n")
    return [[line.split()[-1] for line in block.splitlines()] for block in blocks]


def test_tags_are_pushed_one_by_one(repository: Repository, remote: Path) -> None:
    repository.git("tag", "alpha-1.0.0")
    tags = [f"{name}-1.0.0" for name in NAMES]
    assert list(make_tags(specs())) == [
        (tags[0], "there already"),
        (tags[1], "new"),
        (tags[2], "new"),
    ]
    assert list(make_tags(specs(), "origin")) == [(tag, "pushed") for tag in tags]
    assert pushes(remote) == [[f"refs/tags/{tag}"] for tag in tags]
    assert list(make_tags(specs(), "origin")) == [(tag, "pushed") for tag in tags]
    assert len(pushes(remote)) == 3, "the remote has them"
    assert due() == {}


def test_what_is_not_committed_is_not_tagged(repository: Repository) -> None:
    write(repository, "beta", more="compilation: {batch_sizes: [4, 1]}\n")
    with pytest.raises(SpecError, match=r"beta.yaml: model_specs/beta.yaml is not committed as it"):
        list(make_tags(specs()))
    assert repository.git("tag") == "", "no tag of another spec either"


@pytest.mark.usefixtures("remote")
def test_a_tag_that_the_remote_has_elsewhere(repository: Repository) -> None:
    repository.git("tag", "alpha-1.0.0")
    repository.git("push", "--quiet", "origin", "alpha-1.0.0")
    repository.git("tag", "--delete", "alpha-1.0.0")
    repository.commit({"more": b""})
    with pytest.raises(PublishError, match=r"cannot push the tag alpha-1\.0\.0 to origin: "):
        list(make_tags(specs(), "origin"))
    with pytest.raises(PublishError, match="to nowhere"):
        list(make_tags(specs(), "nowhere"))


def test_the_commands(
    repository: Repository, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modelwheel = Modelwheel(tmp_path / "cache")
    done = modelwheel("release-plan")
    assert "compared with the tags in git alone; set `repository`" in done.err
    assert done.out.endswith("3 models to release, 0 released\n")
    modelwheel("tag", "model_specs/alpha.yaml", "--push", "origin")
    with serve_github(GitHub(checkout=remote)) as github:
        for name, value in github.environment.items():
            monkeypatch.setenv(name, value)
        github.releases.append({"id": 1, "tag_name": "alpha-1.0.0", "draft": True, "assets": []})
        outputs = tmp_path / "outputs"
        planned = modelwheel("release-plan", "--json", "--github-output", outputs).json
        assert [one["tag"] for one in planned] == [f"{name}-1.0.0" for name in NAMES]
        assert planned[0] == {
            "spec": "model_specs/alpha.yaml", "name": "alpha", "version": "1.0.0", "tag": "alpha-1.0.0",
            "new_project": False,
        }  # fmt: skip
        assert outputs.read_text().startswith('plan=[{"spec": "model_specs/alpha.yaml", ')
        github.releases[0]["draft"] = False
        assert [one["name"] for one in modelwheel("release-plan", "--json").json] == [
            "beta-gamma",
            "beta",
        ]
    (repository.directory / "modelwheel.toml").write_text("[release]\nmode = 'pypi'\n")
    done = modelwheel("release-plan")
    assert "2 new names: PyPI keeps one pending publisher for each" in done.err
    assert "an account may have 3 of them at a time" in done.err
    assert [one["tag"] for one in modelwheel("tag", "model_specs", "--json").json] == [
        f"{name}-1.0.0" for name in NAMES
    ]
