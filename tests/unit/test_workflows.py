"""The workflows of GitHub Actions: our own rules, and each command in them is one that our parser accepts.

Four linters check them too, in `tests/integration/test_workflow_linters.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from modelwheel.extras import distributions
from tests.support.commands import parse
from tests.support.lock import EXTRAS
from tests.support.workflows import (
    ACTIONS,
    EXPRESSION,
    ROOT,
    WORKFLOWS,
    Step,
    find_called,
    read,
    steps_of,
    uses_of,
)

STEPS = [step for path in (*WORKFLOWS, *ACTIONS) for step in steps_of(path)]
SAMPLES = {
    "BASE": "HEAD^1",
    "BEFORE": "HEAD^1",
    "BRANCH": "refs/remotes/origin/main",
    "BUILD": "cp313-win_amd64",
    "EXTRA": "compile",
    "FILE": "comment/comment.md",
    "GITHUB_ACTION_PATH": ".github/actions/setup-modelwheel",
    "GITHUB_OUTPUT": "output",
    "GITHUB_REPOSITORY": "org/models",
    "GITHUB_STEP_SUMMARY": "summary.md",
    "INDEX_URL": "https://example.org/simple/",
    "JOB": '{"name": "linux-x86_64"}',
    "MODE": "pypi",
    "LIST": '{"tag": "digits-1.0.0"}',
    "NEEDS": "{}",
    "PACKAGE": "modelwheel==0.1.0",
    "PLATFORMS": "",
    "RELEASE": "digits-1.0.0",
    "REPOSITORY_URL": "https://example.org/legacy/",
    "RESULTS": " ".join(["success"] * 8),
    "SANDBOX": "required",
    "SITE_URL": "https://example.org/site/simple/",
    "SHARD": "48/4",
    "SPEC": "model_specs/digits.yaml",
    "SUMS": "0123  model_digits-1.0.0.tar.gz",
    "TAG": "digits-1.0.0",
    "TEMPLATE": "https://github.com/org/models/releases/download/{tag}/{file}",
    "WANTED": " ".join(["success"] * 8),
}
NO_VARIABLES = {**SAMPLES, "INDEX_URL": "", "REPOSITORY_URL": "", "SITE_URL": ""}
"""As a pull request from a fork sees them, or a repository that has set none."""

USAGE_ERROR = typer.BadParameter.__mro__[1]
"""Of click, or of the copy that Typer has of it."""

RUNNER_VARIABLES = {
    *("GITHUB_ACTION_PATH", "GITHUB_OUTPUT", "GITHUB_REPOSITORY", "GITHUB_STEP_SUMMARY"),
}

paths = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
every = pytest.mark.parametrize(
    "path", [*WORKFLOWS, *ACTIONS], ids=lambda path: f"{path.parent.name}/{path.name}"
)
"""Composite actions too."""
steps = pytest.mark.parametrize("step", STEPS, ids=str)


# --- what we ask of them ourselves ----------------------------------------------------------------


@paths
def test_permissions_are_given_job_by_job(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {}
    assert "pull_request_target" not in workflow["on"]
    for job in workflow["jobs"].values():
        assert "permissions" in job
        assert "timeout-minutes" in job or "uses" in job
    assert "secrets." not in path.read_text()
    assert "concurrency" in workflow


def caches(workflow: Mapping[str, Any]) -> list[str]:
    """What restores a cache: an action for it, or an option of another action (`cache: pip` of setup-python)."""
    found = [use for use in uses_of(workflow) if "cache" in use]
    for job in (workflow.get("jobs") or {"": workflow.get("runs", {})}).values():
        for step in job.get("steps", ()):
            found += [name for name in step.get("with", {}) if "cache" in name.lower()]
    return found


@every
def test_no_cache_is_restored(path: Path) -> None:
    """Caches are shared between runs: what one puts in, another one would run."""
    assert caches(read(path)) == []


@pytest.mark.parametrize("option", ["cache: pip", "cache-dependency-path: pyproject.toml"])
def test_an_option_that_restores_a_cache_is_found(option: str, tmp_path: Path) -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    version = 'python-version: "3.13"\n'
    changed = tmp_path / "ci.yml"
    changed.write_text(text.replace(version, f"{version}          {option}\n", 1))
    assert caches(read(changed)) == [option.partition(":")[0]]


def test_addresses_come_from_the_repository() -> None:
    """Pull requests from forks see no variables: each is but an override that may be empty."""
    for path in WORKFLOWS:
        uses = re.findall(r"^.*vars\..*$", path.read_text(), re.MULTILINE)
        for line in uses:
            assert re.fullmatch(r" +([A-Z_]+): \$\{\{ vars\.\1 \}\}", line), line


@every
def test_actions_are_pinned(path: Path) -> None:
    """By a commit, with the version beside it that Dependabot keeps; the same one everywhere."""
    ours, uses = split_uses(path)
    assert [use for use in ours if not use.startswith("./")] == []
    assert all(called.is_file() for called in map(find_called, ours) if called)
    text = path.read_text()
    for use in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", use)
        assert re.search(rf"{re.escape(use)} # v\d+\.\d+\.\d+$", text, re.MULTILINE)


def split_uses(path: Path) -> tuple[list[str], list[str]]:
    """What a workflow uses of this project, and what of others."""
    uses = list(uses_of(read(path)))
    ours = [use for use in uses if find_called(use)]
    return ours, [use for use in uses if use not in ours]


def test_each_action_has_one_version() -> None:
    pins = {use for path in (*WORKFLOWS, *ACTIONS) for use in split_uses(path)[1]}
    assert len(pins) == len({pin.partition("@")[0] for pin in pins})


@paths
def test_a_reusable_workflow_takes_actions_from_its_own_commit(path: Path) -> None:
    """`./` is the repository that calls: the tool is checked out beside it, at the commit of the workflow."""
    workflow = read(path)
    if "workflow_call" not in workflow["on"]:
        return
    for job in workflow["jobs"].values():
        steps = job.get("steps", [])
        for number, step in enumerate(steps):
            if not find_called(step.get("uses", "")):
                continue
            assert step["uses"].startswith("./.modelwheel/")
            (tool,) = [s["with"] for s in steps[:number] if "repository" in s.get("with", {})]
            assert tool == {
                "repository": "${{ job.workflow_repository }}",
                "ref": "${{ job.workflow_sha }}",
                "path": ".modelwheel",
                "persist-credentials": False,
            }


def test_untrusted_code_sees_nothing() -> None:
    jobs = read(ROOT / ".github/workflows/check.yml")["jobs"]
    assert jobs.pop("pass")["permissions"] == {}
    for job in jobs.values():
        assert job["permissions"] == {"contents": "read"}
        assert "environment" not in job
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_what_answers_a_pull_request_runs_nothing_of_it() -> None:
    """The comment is data of a stranger, and this job may write."""
    (job,) = read(ROOT / ".github/workflows/comment.yml")["jobs"].values()
    checkout, download, post = job["steps"]
    assert checkout["with"]["repository"] == "${{ job.workflow_repository }}"
    assert (download["with"]["pattern"], download["with"]["path"]) == ("comment", "comment")
    assert post["with"]["file"] == "comment/comment.md"
    assert "checkout@" in checkout["uses"]


@pytest.mark.parametrize(
    ("file", "output", "skipped"), [("ci.yml", "tool", 7), ("check.yml", "specs", 1)]
)
def test_a_gate_reports_on_every_pull_request(file: str, output: str, skipped: int) -> None:
    """A workflow with a path filter would leave a required check waiting."""
    workflow = read(ROOT / ".github/workflows" / file)
    assert "paths" not in str(workflow["on"])
    gate = workflow["jobs"].pop("pass")
    assert gate["if"] == "always()"
    assert gate["needs"] == list(workflow["jobs"])
    for name, job in workflow["jobs"].items():
        # Skipped by itself, or with what it needs.
        alone = job.get("if") == f"needs.changes.outputs.{output} == 'true'"
        assert (name == "changes") != (alone or "needs" in job)
    step = gate["steps"][0]
    assert step["run"] == 'test "$RESULTS" = "$WANTED"'
    words = " ".join(step["env"]["WANTED"].split())
    ran, passed = re.fullmatch(
        rf"\$\{{\{{ needs\.changes\.outputs\.{output} == 'true' && '(.*)' \|\| '(.*)' \}}\}}", words
    ).groups()  # type: ignore[union-attr]
    assert ran == " ".join(["success"] * (skipped + 1))
    assert passed == " ".join(["success", *["skipped"] * skipped])


# --- the commands ---------------------------------------------------------------------------------


@steps
def test_a_command_is_one_line_without_expressions(step: Step) -> None:
    assert "\n" not in step.run.strip()
    assert not EXPRESSION.search(step.run)
    variables = re.findall(r"\$\{?\w+", step.run)
    assert {name.lstrip("${") for name in variables} <= {*step.environment, *RUNNER_VARIABLES}
    quoted = "".join(re.findall(r'"[^"]*"', step.run))
    assert [name for name in variables if name not in quoted] == []


@pytest.mark.parametrize("values", [SAMPLES, NO_VARIABLES], ids=["set", "unset"])
@steps
def test_a_command_is_known(step: Step, values: dict[str, str]) -> None:
    """Each is a command of ours that its parser accepts, or one of few others."""
    words = step.argv(values)
    match words:
        case ["modelwheel", *arguments]:
            parse(arguments)
        case ["bash", ".ci/run"]:
            assert (ROOT / ".ci" / "run").is_file()
        case ["python", "-m", "pip", "install", "--require-hashes", "-r", lock]:
            assert (ROOT / lock).is_file()
        case ["python", "-m", "pip", "install", "--no-index", *options, project]:
            assert options == ["--no-deps", "--no-build-isolation"]
            assert (ROOT / project).samefile(ROOT)
        case ["python", "-m", "pip", "install", "--no-deps", *options, package]:
            assert (options, package) == (["--only-binary", ":all:"], SAMPLES["PACKAGE"])
        case ["python", "-m", "pip", "install", *arguments]:
            (project,) = [word for word in arguments if word.startswith(".")] or ["pip"]
            extras = project.removeprefix(".").strip("[]").split(",") if "[" in project else []
            groups = arguments[arguments.index("--group") + 1 :] if "--group" in arguments else []
            for name in (*extras, *groups):
                assert f"\n{name} = [" in (ROOT / "pyproject.toml").read_text()
        case ["python", "-m", "tests.support.tool_dist", *options]:
            assert options[::2] == ["--tag", "--on-branch", "--out", "--github-output"]
        case ["python", "-m", "tests.docs", _]:
            assert step.job == "documentation"
        case ["python", "-m", "pytest", *files]:
            assert [file for file in files if not (ROOT / file).exists()] == []
        case ["make", target] | ["sudo", "make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case ["sudo", *command]:
            assert command in [*SANDBOX_COMMANDS, BARE_MACHINE, WINDOWS]
        case ["python3", script, _]:
            assert script.endswith("post.py")
        case ["gh", "auth", "setup-git"] | ["gh", "workflow", "run", "release.yml", "--ref", _]:
            assert step.job == "tag"
        case ["git", "diff", "--quiet", *_]:
            assert step.job == "changes"
        case _ if "sha256sum" in step.run:
            assert step.job in ("publish", "attest", "upload")
        case _:
            assert words == ["test", SAMPLES["RESULTS"], "=", SAMPLES["WANTED"]]


SANDBOX_COMMANDS = [
    ["apt-get", "update"],
    ["apt-get", "install", "--yes", "--no-install-recommends", "bubblewrap"],
    ["sysctl", "--write", "kernel.apparmor_restrict_unprivileged_userns=0"],
]
"""What makes bubblewrap work on GitHub's Ubuntu."""

WINDOWS = [
    *("apt-get", "install", "--yes", "--no-install-recommends"),
    "gcc-mingw-w64-x86-64-win32",
    "wine64",
]
"""What compiles and runs the test of a bundle for Windows."""

BARE_MACHINE = ["apt-get", "install", "--yes", "--no-install-recommends", "mmdebstrap"]
"""What makes a bare Debian there."""


@pytest.mark.parametrize(
    ("workflow", "count"), [("check.yml", 4), ("build.yml", 1), ("wheels.yml", 1)]
)
def test_models_run_in_a_sandbox(workflow: str, count: int) -> None:
    """Every command that can be told to use one is; it was made to work before."""
    required = set()
    for step in (step for step in STEPS if step.workflow == workflow):
        match step.argv(SAMPLES):
            case ["modelwheel", "check", *options] if "--spec-only" in options:
                pass
            case ["modelwheel", "check" | "build" | "report" | "compile", *options]:
                assert options[options.index("--sandbox") + 1] == "required"
                required.add((step.job, step.run))
    assert len(required) == count
    jobs = read(ROOT / ".github/workflows" / workflow)["jobs"]
    prepared = [
        str(step["with"]["sandbox"]) == "true"
        for job in {job for job, _ in required}
        for step in jobs[job]["steps"]
        if "setup-modelwheel" in step.get("uses", "")
    ]
    assert prepared == [workflow != "wheels.yml"]
    if workflow == "wheels.yml":
        # Landlock is enough there; the sandboxes of other systems are weaker.
        text = (ROOT / ".github/workflows" / workflow).read_text()
        assert "startsWith(fromJSON(inputs.job).name, 'linux') && 'required' ||" in text


@pytest.mark.parametrize(
    "line",
    [
        "chek model_specs",
        "build",
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
    files = {"build", "check", "ci", "compare", "pages", "publish", "runtime", "tag", "wheels"}
    assert {step.workflow for step in ours} >= {f"{name}.yml" for name in files}


NEEDS = {
    **dict.fromkeys(("new", "build", "compile", "tune"), "compile"),
    **dict.fromkeys(("report", "download", "index", "publish", "release-plan"), "publish"),
    "audit": "release",
    "runtime": "build",
    "wheel": "release",
}
"""The extras of commands, which `test_extras.py` runs without them."""


def needs(arguments: list[str]) -> set[str]:
    """The packages that a command of ours needs beyond the core."""
    command, *options = arguments
    extra = "compile" if command == "check" and "--spec-only" not in options else NEEDS.get(command)
    return set(distributions(extra)) if extra else set()


def test_only_our_own_tests_install_without_hashes() -> None:
    loose = [
        step
        for step in STEPS
        if "pip install" in step.run
        and "--require-hashes" not in step.run
        and "--no-index --no-deps --no-build-isolation" not in step.run
    ]
    # The second one by the wish of the caller, who names a version.
    assert {(step.workflow, step.job) for step in loose} == {
        ("ci.yml", "unit"),
        ("setup-modelwheel", "setup-modelwheel"),
    }
    assert not any(
        "index" in step.run.replace("--no-index", "") for step in STEPS if "pip" in step.run
    )


@paths
def test_each_job_installs_what_its_commands_need(path: Path) -> None:
    jobs = read(path)["jobs"]
    for step in steps_of(path):
        match step.argv(SAMPLES):
            case ["modelwheel", *arguments]:
                installed: set[str] = set()
                for setup in jobs[step.job]["steps"]:
                    if "setup-modelwheel" in setup.get("uses", ""):
                        for extra in EXTRAS[setup["with"]["extra"]]:
                            installed |= set(distributions(extra))
                assert needs(arguments) <= installed, step


# --- pre-commit -----------------------------------------------------------------------------------


def test_pre_commit_runs_what_exists() -> None:
    """Each hook calls a tool of `make lint`, or a command of ours that its parser accepts."""
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    tools = {*re.findall(r"\$\(BIN\)/(\w+)", (ROOT / "Makefile").read_text()), "modelwheel"}
    for hook in local["hooks"]:
        program, *arguments = hook["entry"].split()
        assert program.removeprefix(".venv/bin/") in tools
        match arguments:
            case ["-m", module]:
                assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
            case _ if program.endswith("modelwheel"):
                parse([*arguments, "model_specs"])
