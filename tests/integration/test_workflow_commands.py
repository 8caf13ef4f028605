"""The commands of the workflows in a repository that `modelwheel init` has started, run as they are written, in order."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelwheel.platforms import WHEEL_PLATFORMS
from modelwheel.repository.begin import begin
from modelwheel.repository.files import Answers
from modelwheel.versions import RUNTIME, RUNTIME_VERSION
from tests.support.commands import COMMAND, Modelwheel, run
from tests.support.github import GitHub, serve_github
from tests.support.indexes import PASSWORD, USER, serve_index
from tests.support.repositories import Repository, isolate_git
from tests.support.runner import Runner
from tests.support.sigstore_instance import Sigstore, make_statement
from tests.support.site_server import serve
from tests.support.wheels import Built
from tests.support.workflows import WORKFLOWS, Step, steps_followed, steps_of

pytestmark = pytest.mark.slow

UNCHANGED = 'model: {name: unchanged, version: "1.0"}\nsource: {directory: not-even-there}\n'

ANSWERS = Answers(title="models", services=("github",), slug="org/models")

SIGNER = "https://github.com/modelwheel/modelwheel/.github/workflows/publish.yml@refs/tags/v0.1.0"
"""A reusable workflow signs with its own name."""

GH = """\
#!/bin/sh
echo "$@" >> "$GH_LOG"
"""
"""In place of GitHub's command."""

NO_ADDRESSES = {"INDEX_URL": "", "REPOSITORY_URL": "", "SITE_URL": ""}
"""What the repository's variables are on GitHub where nobody has set them."""


def commands(workflow: str, job: str, mode: str = "pypi") -> list[Step]:
    """The `modelwheel` steps of a job, where releases go to a package index, or to GitHub."""
    (path,) = [path for path in WORKFLOWS if path.name == workflow]
    other = "mode != 'github'" if mode == "github" else "mode == 'github'"
    return [
        step
        for step in steps_of(path)
        if step.job == job and step.run.startswith("modelwheel ") and other not in step.condition
    ]


@pytest.fixture
def runner(
    built: Built, modelwheel: Modelwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Runner:
    """What GitHub checks out for a pull request that adds the model `mlp`."""
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    repository = Repository(tmp_path / "checkout")
    begin(repository.directory, ANSWERS)
    repository.commit({"model_specs/unchanged.yaml": UNCHANGED.encode()})
    repository.git("checkout", "--quiet", "-b", "proposal")
    specs = repository.directory / "model_specs"
    shutil.copy(built.spec("mlp"), specs)
    shutil.copytree(built.directory / "mlp", specs / "mlp")
    repository.commit({})
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "proposal")
    return Runner(repository.directory, modelwheel.cache, tmp_path)


def test_a_pull_request(runner: Runner, sdist: Path, built: Built, tmp_path: Path) -> None:
    """Only the changed spec is looked at; what its wheel is like is told beside the release."""
    released = tmp_path / "released"
    released.mkdir()
    shutil.copy(built.wheel("mlp"), released)
    run(*COMMAND, "index", released, "--out", tmp_path / "site")
    with serve(tmp_path / "site") as server:
        values = {"INDEX_URL": f"{server.url}simple/", "RESULTS": "", "WANTED": ""}
        for step in steps_followed(runner.checkout / ".github" / "workflows" / "spec.yml"):
            runner.do(step, values)
    assert runner.outputs() == {"specs": "true"}
    comment = (runner.checkout / "comment.md").read_text()
    assert comment.startswith("<!-- modelwheel -->\n")
    assert "mlp" in comment
    names = {
        path.name.removeprefix(built.wheel("mlp").name)
        for path in (runner.checkout / "dist").iterdir()
    }
    assert names == {"", ".report.json", ".bench.json"}
    assert (runner.checkout / "sdists" / sdist.name).read_bytes() == sdist.read_bytes()
    summary = runner.files["GITHUB_STEP_SUMMARY"].read_text()
    assert f"| mlp-1.0.0 | {built.wheel('mlp').name[:9]}" in summary.replace("\\_", "_")
    assert "released: 1.0.0" in summary
    assert r"x as fast" in summary
    assert "unchanged" not in summary


def git(runner: Runner, *arguments: str) -> None:
    run("git", "-C", runner.checkout, *arguments)


def test_a_pull_request_without_models(runner: Runner) -> None:
    """The check is required, and passes at once; what git cannot tell counts as a change."""
    (step,) = [s for s in steps_of(WORKFLOWS[0].with_name("check.yml")) if s.job == "changes"]
    (runner.checkout / "README.md").write_text("text\n")
    git(runner, "commit", "--quiet", "--all", "--message", "README")
    found = {}
    for base in ("HEAD^1", "HEAD~2", "unknown"):
        runner.do(step, {"BASE": base})
        found[base] = runner.outputs()
    assert found == {"HEAD^1": {}, "HEAD~2": {"specs": "true"}, "unknown": {"specs": "true"}}


def test_a_merge(runner: Runner, tmp_path: Path) -> None:
    """Each model whose version is new is tagged, and its release started."""
    origin = tmp_path / "origin.git"
    run("git", "init", "--quiet", "--bare", origin)
    git(runner, "remote", "add", "origin", str(origin))
    gh, log = tmp_path / "bin" / "gh", tmp_path / "gh.log"
    gh.parent.mkdir()
    gh.write_text(GH)
    gh.chmod(0o755)
    with serve_github(GitHub(checkout=origin)) as github:
        values = {**github.environment, "GH_LOG": str(log), "GH_TOKEN": "token"}
        values["PATH"] = f"{gh.parent}:{runner.path}"
        plan, *tag = steps_followed(runner.checkout / ".github" / "workflows" / "merge.yml")
        runner.do(plan, {**values, "BEFORE": "HEAD^1"})
        (due,) = json.loads(runner.outputs()["plan"])
        assert (due["spec"], due["tag"], due["new_project"]) == (
            "model_specs/mlp.yaml",
            "mlp-1.0.0",
            True,
        )
        for step in tag:
            runner.do(step, {**values, "SPEC": due["spec"], "TAG": due["tag"]})
    assert run("git", "-C", origin, "tag").out == "mlp-1.0.0\n"
    assert log.read_text() == "auth setup-git\nworkflow run release.yml --ref mlp-1.0.0\n"


(CHECK,) = [s for s in steps_of(WORKFLOWS[0].with_name("publish.yml")) if s.job == "attest"]


def sums_of(*files: Path) -> str:
    return "\n".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}" for f in files)


def build(runner: Runner, built: Built, mode: str, values: Mapping[str, str]) -> dict[str, str]:
    """The jobs of build.yml up to its plan, on a tag; machines of other platforms are stood in for.

    Returns:
        What the plan is given.
    """
    config = runner.checkout / "modelwheel.toml"
    config.write_text(config.read_text().replace('mode = "github"', f'mode = "{mode}"'))
    for line in ("commit -q --all --allow-empty -m mode", "tag mlp-1.0.0", "checkout -q mlp-1.0.0"):
        git(runner, *line.split())
    tag = {"SPEC": "model_specs", "PLATFORMS": "linux-x86_64", "TAG": "mlp-1.0.0"}
    for step in commands("build.yml", "list", mode):
        runner.do(step, {**NO_ADDRESSES, **values, **tag, "BRANCH": "refs/heads/main"})
    listed = runner.outputs()
    assert listed["mode"] == mode
    (compile_,) = commands("build.yml", "sdist", mode)
    runner.do(compile_, tag)
    compiled = runner.outputs()["sums"]
    dist = (runner.checkout / "sdists").rename(runner.checkout / "dist")
    measured = runner.checkout / "measured"
    measured.mkdir()
    for path in dist.glob("*.json"):  # another artifact
        path.rename(measured / path.name)
    assert compiled == sums_of(dist / json.loads(listed["list"])["sdist"])
    needs = {"list": {"outputs": listed}, "sdist": {"outputs": {"sums": compiled}}}
    for name, job in json.loads(listed["list"])["jobs"].items():
        # In place of wheels that cibuildwheel built and repaired: indexes take no linux_* tags.
        platform = job["tag"].replace("linux_", "linux_2_28_")
        wheels = [dist / f"model_mlp-1.0.0-{python}-{platform}.whl" for python in job["pythons"]]
        for wheel in wheels:
            shutil.copy(built.wheel("mlp"), wheel)
        needs[name] = {"outputs": {"sums": sums_of(*wheels)}}
    bound = {"RELEASE": listed["tag"], "LIST": listed["list"], "NEEDS": json.dumps(needs)}
    return {"GITHUB_TOKEN": "", **values, **bound, "MODE": mode}


def test_a_release(runner: Runner, built: Built, tmp_path: Path) -> None:
    """From a tag to a package index and a static one."""
    dist = runner.checkout / "dist"
    with serve_index(tmp_path / "index") as index:
        urls = {"REPOSITORY_URL": index.url, "INDEX_URL": f"{index.url}simple/", "SITE_URL": ""}
        bound = build(runner, built, "token", urls)
        (plan,) = commands("build.yml", "plan")
        assert "upload" in runner.do(plan, {**urls, **bound}).out
        planned = runner.outputs()["sums"]
        assert index.release() == {}
        runner.do(CHECK, {"SUMS": planned})
        (compare,) = commands("compare.yml", "compare")
        runner.do(compare, {**urls, "TWINE_USERNAME": USER, "TWINE_PASSWORD": PASSWORD})
        files = len(list(dist.iterdir()))
        assert f"0 uploaded, {files} compared" in runner.do(compare, urls).out
        shutil.rmtree(dist)
        for step in commands("pages.yml", "write"):
            runner.do(step, urls)
    site = runner.checkout / "site"
    assert {wheel.read_bytes() for wheel in site.glob("*.whl")} == {built.wheel("mlp").read_bytes()}
    assert "model-mlp" in (site / "simple" / "index.html").read_text()


def test_a_release_on_github(runner: Runner, built: Built) -> None:
    """From a tag to a release with all files, and a static index that links to them."""
    with serve_github(GitHub(tags={"mlp-1.0.0"})) as github:
        bound = build(runner, built, "github", github.environment)
        (plan,) = commands("build.yml", "plan", "github")
        runner.do(plan, {**NO_ADDRESSES, **bound})
        planned = runner.outputs()["sums"]
        measured = runner.checkout / "measured"
        wheel = min((runner.checkout / "dist").glob("*.whl"))
        (measured / "other.whl").touch()  # a job may have put anything there
        attestation = runner.checkout / "attestation" / "attestation.json"
        attestation.parent.mkdir()
        statement = make_statement(sorted((runner.checkout / "dist").iterdir()))
        signed = Sigstore().attest(statement, SIGNER, "https://github.com/org/models")
        attestation.write_text(json.dumps(signed))
        publish = WORKFLOWS[0].with_name("publish.yml")
        check, attest, upload = [step for step in steps_of(publish) if step.job == "publish"]
        values = {**github.environment, "SUMS": planned, "TAG": bound["RELEASE"]}
        runner.do(check, values)
        runner.do(attest, values)
        assert "compared with the release" in runner.do(upload, values).out
        files = github.release("mlp-1.0.0")
        assert wheel.read_bytes() == files[wheel.name]
        assert "other.whl" not in files
        shutil.rmtree(runner.checkout / "dist")
        template = f"{github.web}/org/models/releases/download/{{tag}}/{{file}}"
        for step in commands("pages.yml", "write", "github"):
            runner.do(step, {**NO_ADDRESSES, **github.environment, "TEMPLATE": template})
        link = f"{github.web}/org/models/releases/download/mlp-1.0.0/{wheel.name}"
    assert link in (runner.checkout / "site" / "simple" / "model-mlp" / "index.html").read_text()
    assert list((runner.checkout / "site").glob("*.whl")) == []
    assert (runner.checkout / "site" / f"{wheel.name}.intoto.jsonl").is_file()


def test_the_upload_takes_what_was_planned_and_nothing_else(tmp_path: Path) -> None:
    """The last step before the upload: anything but the planned files ends the job."""
    runner, dist = Runner(tmp_path, tmp_path, tmp_path), tmp_path / "dist"
    dist.mkdir()
    wheel, sdist = dist / "model_a-1.0-py3-none-any.whl", dist / "model_a-1.0.tar.gz"
    wheel.write_bytes(b"wheel")
    sdist.write_bytes(b"sdist")
    planned = {"SUMS": sums_of(wheel, sdist)}
    runner.do(CHECK, planned)
    for name in ("model_victim-9.9.9.tar.gz", "zzz"):
        (dist / name).touch()
        runner.do(CHECK, planned, code=1)
        (dist / name).unlink()
    (dist / "directory").mkdir()
    runner.do(CHECK, planned, code=1)
    (dist / "directory").rmdir()
    wheel.write_bytes(b"another")
    runner.do(CHECK, planned, code=1)
    wheel.unlink()
    runner.do(CHECK, planned, code=1)
    runner.do(CHECK, {"SUMS": ""}, code=1)


def test_a_release_of_the_runtime(runner: Runner) -> None:
    tag = f"{RUNTIME}-{RUNTIME_VERSION}"
    run("git", "-C", runner.checkout, "tag", tag)
    for step in commands("runtime.yml", "sdist"):
        runner.do(step, {**NO_ADDRESSES, "TAG": tag, "BRANCH": "refs/heads/main"})
    (written,) = (runner.checkout / "sdists").iterdir()
    handed = runner.outputs()
    listed = json.loads(handed["list"])
    assert (handed["tag"], listed["sdist"], handed["sums"]) == (tag, written.name, sums_of(written))
    assert list(listed["jobs"]) == list(WHEEL_PLATFORMS)
