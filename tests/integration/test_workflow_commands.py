"""The commands of the workflows, run as they are written, in the order of their jobs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modelwheel.release.matrix import WheelJob, read_job
from modelwheel.versions import RUNTIME, RUNTIME_VERSION
from modelwheel.wheelfile.collect import SDIST, find_distributions
from tests.support.commands import COMMAND, Done, Modelwheel, run
from tests.support.indexes import PASSWORD, USER, serve_index
from tests.support.repositories import Repository, isolate_git
from tests.support.site_server import serve
from tests.support.wheels import Built
from tests.support.workflows import WORKFLOWS, Step, steps_of

pytestmark = pytest.mark.slow

UNCHANGED = 'model: {name: unchanged, version: "1.0"}\nsource: {directory: not-even-there}\n'

NO_ADDRESSES = {"INDEX_URL": "", "REPOSITORY_URL": "", "SITE_URL": ""}
"""What the repository's variables are on GitHub where nobody has set them."""


class Runner:
    """A checkout in which jobs are run as on a machine of GitHub's."""

    def __init__(self, checkout: Path, cache: Path, scratch: Path) -> None:
        self.checkout = checkout
        self.files = {name: scratch / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "MODELWHEEL_CACHE_DIR": str(cache),
            **{name: str(path) for name, path in self.files.items()},
        }

    def do(self, step: Step, values: Mapping[str, str]) -> Done:
        """Runs a step; variables that are not given are what the workflow says without expressions."""
        given = {name: value for name, value in step.environment.items() if "${{" not in value}
        environment: dict[str, Any] = {**self._environment, **given, **values}
        assert set(step.environment) <= set(environment)
        line = f"cd '{self.checkout}'\nset -eo pipefail\n{step.run}"
        return run("bash", "--noprofile", "--norc", "-c", line, **environment)


def commands(workflow: str, job: str) -> list[Step]:
    """The `modelwheel` steps of a job."""
    (path,) = [path for path in WORKFLOWS if path.name == workflow]
    return [s for s in steps_of(path) if s.job == job and s.run.startswith("modelwheel ")]


@pytest.fixture
def runner(
    built: Built, modelwheel: Modelwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Runner:
    """What GitHub checks out for a pull request that adds the model `mlp`."""
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    repository = Repository(tmp_path / "checkout")
    repository.commit({"model_specs/unchanged.yaml": UNCHANGED.encode(), ".gitignore": b"dist\n"})
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
        for step in commands("spec.yml", "spec"):
            runner.do(step, {"INDEX_URL": f"{server.url}simple/"})
    names = {
        path.name.removeprefix(built.wheel("mlp").name)
        for path in (runner.checkout / "dist").iterdir()
    }
    assert names == {"", ".report.json", ".bench.json"}
    assert (runner.checkout / "sdists" / sdist.name).read_bytes() == sdist.read_bytes()
    summary = runner.files["GITHUB_STEP_SUMMARY"].read_text()
    assert f"| mlp\\-1\\.0\\.0 | {built.wheel('mlp').name[:9]}" in summary.replace("\\_", "_")
    assert r"released\: 1\.0\.0" in summary
    assert r"x as fast" in summary
    assert "unchanged" not in summary


def test_a_release(runner: Runner, sdist: Path, built: Built, tmp_path: Path) -> None:
    """From a tag to a static index; machines of other platforms and the upload are stood in for."""
    for git in (["tag", "mlp-1.0.0"], ["checkout", "--quiet", "mlp-1.0.0"]):
        run("git", "-C", runner.checkout, *git)
    for step in commands("release.yml", "compile"):
        runner.do(
            step, {**NO_ADDRESSES, "SPECS": "model_specs", "PLATFORMS": "", "TAG": "mlp-1.0.0"}
        )
    jobs = read_matrix(runner.files["GITHUB_OUTPUT"])
    assert {job.sdists for job in jobs} == {sdist.name}
    assert jobs[0].pick(find_distributions([runner.checkout / "sdists"], (SDIST,)))

    dist = runner.checkout / "dist"
    dist.mkdir()
    shutil.copy(runner.checkout / "sdists" / sdist.name, dist)
    # In place of a wheel that cibuildwheel repaired: indexes take no linux_* tags.
    repaired = built.wheel("mlp").name.replace("-linux_", "-manylinux_2_28_")
    shutil.copy(built.wheel("mlp"), dist / repaired)
    with serve_index(tmp_path / "index") as index:
        urls = {"REPOSITORY_URL": index.url, "INDEX_URL": f"{index.url}simple/", "SITE_URL": ""}
        (plan,) = commands("release.yml", "plan")
        assert "upload" in runner.do(plan, urls).out
        assert index.release() == {}
        (compare,) = commands("release.yml", "compare")
        runner.do(compare, {**urls, "TWINE_USERNAME": USER, "TWINE_PASSWORD": PASSWORD})
        assert "0 uploaded, 2 compared" in runner.do(compare, urls).out
        shutil.rmtree(dist)
        for step in commands("site.yml", "write"):
            runner.do(step, urls)
    site = runner.checkout / "site"
    assert (site / repaired).read_bytes() == built.wheel("mlp").read_bytes()
    assert "model-mlp" in (site / "simple" / "index.html").read_text()


def test_a_release_of_the_runtime(runner: Runner) -> None:
    for step in commands("runtime.yml", "sdist"):
        runner.do(step, {**NO_ADDRESSES, "TAG": f"{RUNTIME}-{RUNTIME_VERSION}"})
    (written,) = (runner.checkout / "sdists").iterdir()
    assert written.name == f"modelwheel_runtime-{RUNTIME_VERSION}.tar.gz"


def read_matrix(output: Path) -> list[WheelJob]:
    """The jobs that GitHub would start, each as it would be handed over."""
    outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
    text = outputs["matrix"]
    return [read_job(json.dumps(entry, indent=2)) for entry in json.loads(text)["include"]]
