"""The commands of the workflows, run as they are written, in the order of their jobs."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from modelwheel.platforms import WHEEL_PLATFORMS
from modelwheel.versions import RUNTIME, RUNTIME_VERSION
from tests.support.commands import COMMAND, Modelwheel, run
from tests.support.indexes import PASSWORD, USER, serve_index
from tests.support.repositories import Repository, isolate_git
from tests.support.runner import Runner
from tests.support.site_server import serve
from tests.support.wheels import Built
from tests.support.workflows import WORKFLOWS, Step, steps_of

pytestmark = pytest.mark.slow

UNCHANGED = 'model: {name: unchanged, version: "1.0"}\nsource: {directory: not-even-there}\n'

PYPI = b'[release]\nmode = "pypi"\n'

NO_ADDRESSES = {"INDEX_URL": "", "REPOSITORY_URL": "", "SITE_URL": ""}
"""What the repository's variables are on GitHub where nobody has set them."""


def commands(workflow: str, job: str) -> list[Step]:
    """The `modelwheel` steps of a job, where releases go to a package index."""
    (path,) = [path for path in WORKFLOWS if path.name == workflow]
    return [
        step
        for step in steps_of(path)
        if step.job == job
        and step.run.startswith("modelwheel ")
        and "mode == 'github'" not in step.condition
    ]


@pytest.fixture
def runner(
    built: Built, modelwheel: Modelwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Runner:
    """What GitHub checks out for a pull request that adds the model `mlp`."""
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    repository = Repository(tmp_path / "checkout")
    files = {"model_specs/unchanged.yaml": UNCHANGED.encode(), ".gitignore": b"dist\n"}
    repository.commit({**files, "modelwheel.toml": PYPI})
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
        for step in commands("check.yml", "specs"):
            runner.do(step, {"INDEX_URL": f"{server.url}simple/"})
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


(CHECK,) = [s for s in steps_of(WORKFLOWS[0].with_name("publish.yml")) if s.job == "attest"]


def sums_of(*files: Path) -> str:
    return "\n".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}" for f in files)


def test_a_release(runner: Runner, built: Built, tmp_path: Path) -> None:
    """From a tag to a static index; machines of other platforms and the upload are stood in for."""
    for git in (["tag", "mlp-1.0.0"], ["checkout", "--quiet", "mlp-1.0.0"]):
        run("git", "-C", runner.checkout, *git)
    tag = {"SPEC": "model_specs", "PLATFORMS": "linux-x86_64", "TAG": "mlp-1.0.0"}
    branch = {"BRANCH": "refs/heads/main"}
    for step in commands("build.yml", "list"):
        # A tag needs an address before anything is built.
        missing = "--require-upload" in step.run
        runner.do(step, {**NO_ADDRESSES, **tag, **branch}, code=2 if missing else 0)
    listed = runner.outputs()
    (compile_,) = commands("build.yml", "sdist")
    runner.do(compile_, tag)
    compiled = runner.outputs()["sums"]
    dist = (runner.checkout / "sdists").rename(runner.checkout / "dist")
    assert compiled == sums_of(dist / json.loads(listed["list"])["sdist"])
    needs = {"list": {"outputs": listed}, "sdist": {"outputs": {"sums": compiled}}}
    for name, job in json.loads(listed["list"])["jobs"].items():
        # In place of wheels that cibuildwheel built and repaired: indexes take no linux_* tags.
        platform = job["tag"].replace("linux_", "linux_2_28_")
        wheels = [dist / f"model_mlp-1.0.0-{python}-{platform}.whl" for python in job["pythons"]]
        for wheel in wheels:
            shutil.copy(built.wheel("mlp"), wheel)
        needs[name] = {"outputs": {"sums": sums_of(*wheels)}}
    with serve_index(tmp_path / "index") as index:
        urls = {"REPOSITORY_URL": index.url, "INDEX_URL": f"{index.url}simple/", "SITE_URL": ""}
        bound = {"RELEASE": listed["tag"], "LIST": listed["list"], "NEEDS": json.dumps(needs)}
        bound["GITHUB_TOKEN"] = ""
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
