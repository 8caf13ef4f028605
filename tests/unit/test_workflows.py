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
from modelwheel.platforms import WHEEL_PLATFORMS
from tests.support.commands import parse
from tests.support.lock import EXTRAS
from tests.support.workflows import EXPRESSION, ROOT, WORKFLOWS, Step, read, steps_of, uses_of

STEPS = [step for path in WORKFLOWS for step in steps_of(path)]
SAMPLES = {
    "BASE": "HEAD^1",
    "BRANCH": "refs/remotes/origin/main",
    "BUILD": "cp313-win_amd64",
    "GITHUB_OUTPUT": "output",
    "GITHUB_STEP_SUMMARY": "summary.md",
    "INDEX_URL": "https://example.org/simple/",
    "JOB": '{"name": "linux-x86_64"}',
    "LIST": '{"tag": "digits-1.0.0"}',
    "NEEDS": "{}",
    "PLATFORMS": "",
    "RELEASE": "digits-1.0.0",
    "REPOSITORY_URL": "https://example.org/legacy/",
    "RESULTS": " ".join(["success"] * 7),
    "SANDBOX": "required",
    "SITE_URL": "https://example.org/site/simple/",
    "SPEC": "model_specs/digits.yaml",
    "SUMS": "0123  model_digits-1.0.0.tar.gz",
    "TAG": "digits-1.0.0",
}
NO_VARIABLES = {**SAMPLES, "INDEX_URL": "", "REPOSITORY_URL": "", "SITE_URL": ""}
"""As a pull request from a fork sees them, or a repository that has set none."""

USAGE_ERROR = typer.BadParameter.__mro__[1]
"""Of click, or of the copy that Typer has of it."""

RUNNER_VARIABLES = {"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"}

paths = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
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
    secrets = [line.strip() for line in path.read_text().splitlines() if "secrets." in line]
    signs = ["MODELWHEEL_PROVENANCE_KEY: ${{ secrets.PROVENANCE_KEY }}"]
    assert secrets == (signs if path.name == "release.yml" else [])
    assert "concurrency" in workflow


def caches(workflow: Mapping[str, Any]) -> list[str]:
    """What restores a cache: an action for it, or an option of another action (`cache: pip` of setup-python)."""
    found = [use for use in uses_of(workflow) if "cache" in use]
    for job in workflow["jobs"].values():
        for step in job.get("steps", ()):
            found += [name for name in step.get("with", {}) if "cache" in name.lower()]
    return found


@paths
def test_no_cache_is_restored(path: Path) -> None:
    """Caches are shared between runs: what one puts in, another one would run."""
    assert caches(read(path)) == []


@pytest.mark.parametrize("option", ["cache: pip", "cache-dependency-path: pyproject.toml"])
def test_an_option_that_restores_a_cache_is_found(option: str, tmp_path: Path) -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    version = 'python-version: "3.13"\n'
    changed = tmp_path / "release.yml"
    changed.write_text(text.replace(version, f"{version}          {option}\n", 1))
    assert caches(read(changed)) == [option.partition(":")[0]]


def test_the_site_follows_releases_of_this_repository() -> None:
    """What starts by `workflow_run` may do more than what started it: it must not run what that made."""
    triggered = [path for path in WORKFLOWS if "workflow_run" in read(path)["on"]]
    assert [path.name for path in triggered] == ["site.yml"]
    workflow = read(triggered[0])
    assert workflow["on"]["workflow_run"] == {"workflows": ["release"], "types": ["completed"]}
    write = workflow["jobs"]["write"]
    condition = " ".join(write["if"].split())
    assert "github.event.workflow_run.conclusion == 'success'" in condition
    assert "github.event.workflow_run.head_repository.full_name == github.repository" in condition
    # Nothing of the release's artifacts gets into the directory that becomes the site.
    (measured,) = [s["with"] for s in write["steps"] if "run-id" in s.get("with", {})]
    assert (measured["pattern"], measured["path"]) == ("{measured-*,provenance}", "measured")
    (checkout,) = [s for s in write["steps"] if s.get("uses", "").startswith("actions/checkout@")]
    assert checkout["with"]["ref"] == "${{ github.event.repository.default_branch }}"
    # A tag may not deploy to Pages with GitHub's defaults: no workflow that runs on tags deploys.
    for path in WORKFLOWS:
        if "push" in read(path)["on"]:
            assert "pages" not in path.read_text()


def test_addresses_come_from_the_repository() -> None:
    """Pull requests from forks see no variables: each is but an override that may be empty."""
    for path in WORKFLOWS:
        uses = re.findall(r"^.*vars\..*$", path.read_text(), re.MULTILINE)
        for line in uses:
            override = re.fullmatch(r" +([A-Z_]+): \$\{\{ vars\.\1 \}\}", line)
            assert override or line.endswith("&& vars.PROVENANCE == 'true' }}"), line


def test_the_key_of_provenance_is_for_signing_alone() -> None:
    """What is signed was checked against the plan, after the environment's reviewers have agreed."""
    job = read(ROOT / ".github/workflows/release.yml")["jobs"]["attest"]
    assert job["environment"]["name"] == "package-index"
    assert job["permissions"] == {"contents": "read"}
    checked, signed = (step for step in job["steps"] if "name" in step)
    assert checked["run"] == CHECK
    assert signed["run"] == "modelwheel attest dist"
    assert [step for step in job["steps"] if "PROVENANCE_KEY" in str(step)] == [signed]


CHECK = 'test "$(cd dist && sha256sum -- * 2>&1)" = "$SUMS"'


def test_only_the_upload_can_publish() -> None:
    """Jobs that may publish or deploy run no code of this repository or of its dependencies."""
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            if "id-token" not in job["permissions"]:
                continue
            uses = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
            if name == "deploy":
                assert uses == ["actions/deploy-pages"]
                continue
            assert uses == ["actions/download-artifact", "pypa/gh-action-pypi-publish"]
            # Between the two: that the files are those of the plan, by what it has handed on.
            assert [step.get("run") for step in job["steps"]] == [None, CHECK, None]
            assert job["env"]["SUMS"] == "${{ needs.plan.outputs.sums }}"
            assert job["environment"]["name"] == "package-index"


RELEASES = [path for path in WORKFLOWS if "publish" in read(path)["jobs"]]
releases = pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.name)


@releases
def test_every_platform_has_a_job_of_its_own(path: Path) -> None:
    """Not one entry of a matrix each: those share their outputs, and could change each other's."""
    jobs = read(path)["jobs"]
    called = {name: job for name, job in jobs.items() if "uses" in job}
    assert list(called) == list(WHEEL_PLATFORMS)
    lists = "sdist" if path.name == "runtime.yml" else "list"
    for name, job in called.items():
        assert job["uses"] == "./.github/workflows/wheels.yml"
        assert "strategy" not in job
        wanted = f"fromJSON(needs.{lists}.outputs.list).jobs['{name}']"
        assert job["with"] == {
            "job": f"${{{{ toJSON({wanted}) }}}}",
            "sdist": "${{ needs.sdist.outputs.artifact }}",
            "sums": "${{ needs.sdist.outputs.sums }}",
        }
        if path.name == "release.yml":  # a model may have no CPU level there; the runtime has all
            assert job["if"] == f"{wanted} != null"
    assert set(jobs["plan"]["needs"]) == {lists, "sdist", *called}
    assert not any("strategy" in job for job in jobs.values())


def test_the_list_is_made_before_anything_hostile_runs() -> None:
    (path,) = [path for path in RELEASES if path.name == "release.yml"]
    job = read(path)["jobs"]["list"]
    assert "needs" not in job
    ours = [step for step in steps_of(path) if step.job == "list" and "modelwheel" in step.run]
    check, plan = (step.argv(SAMPLES) for step in ours[1:])
    assert ours[0].argv(SAMPLES)[:2] == ["modelwheel", "config"]
    assert "--spec-only" in check
    assert "--release-list" in plan
    assert not any("download-artifact" in step.get("uses", "") for step in job["steps"])


@releases
def test_artifacts_are_taken_by_the_ids_that_jobs_have_handed_on(path: Path) -> None:
    """Every job of a run can add artifacts, and delete and replace those of others; an id stays what it was."""
    taken = {}
    for each in (path, path.with_name("wheels.yml")):
        for name, job in read(each)["jobs"].items():
            for step in job.get("steps", ()):
                if step.get("uses", "").startswith("actions/download-artifact@"):
                    assert not {"name", "pattern"} & set(step["with"])
                    taken[name] = step["with"]["artifact-ids"]
    assert taken == {
        "build": "${{ inputs.sdist }}",
        "plan": "${{ join(needs.*.outputs.artifact, ',') }}",
        "publish": "${{ needs.plan.outputs.artifact }}",
        "compare": "${{ needs.plan.outputs.artifact }}",
        **({"attest": "${{ needs.plan.outputs.artifact }}"} if path.name == "release.yml" else {}),
    }


@releases
def test_jobs_check_what_others_have_handed_on(path: Path) -> None:
    (plan,) = [s for s in steps_of(path) if s.job == "plan" and "modelwheel" in s.run]
    assert '--release "$RELEASE" --list "$LIST" --github-needs "$NEEDS"' in plan.run
    assert plan.environment["NEEDS"] == "${{ toJSON(needs) }}"
    (wheel,) = [s for s in steps_of(path.with_name("wheels.yml")) if "modelwheel wheel" in s.run]
    assert '--github-job "$JOB" --sums "$SUMS"' in wheel.run
    assert wheel.environment["SUMS"] == "${{ inputs.sums }}"
    for step in (plan, wheel):
        assert step.run.endswith('--github-output "$GITHUB_OUTPUT"')


@releases
def test_nothing_is_published_but_from_the_default_branch(path: Path) -> None:
    jobs = read(path)["jobs"]
    allowed = "github.ref_type == 'tag'"
    if path.name == "release.yml":
        by_hand = "inputs.publish && github.ref_name == github.event.repository.default_branch"
        allowed = f"( {allowed} || ({by_hand}) )"
    condition = f"!cancelled() && !failure() && needs.plan.result == 'success' && {allowed}"
    assert " ".join(jobs["publish"]["if"].split()) == condition
    (checked,) = [s for s in steps_of(path) if '--on-branch "$BRANCH"' in s.run]
    # In full: a tag may have the short name of the branch, and git would prefer it.
    full = "format('refs/remotes/origin/{0}', github.event.repository.default_branch)"
    allowed = "github.ref_type == 'tag'"
    if path.name == "release.yml":
        allowed = f"({allowed} || inputs.publish)"
    assert checked.environment["BRANCH"] == f"${{{{ {allowed} && {full} || '' }}}}"
    (job,) = [job for job in jobs.values() if checked.run in str(job.get("steps"))]
    assert job["steps"][0]["with"]["fetch-depth"] == 0


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
        case ["python", "-m", "pip", "install", "--no-index", *options, "."]:
            assert options == ["--no-deps", "--no-build-isolation"]
        case ["python", "-m", "pip", "install", *arguments]:
            (project,) = [word for word in arguments if word.startswith(".")] or ["pip"]
            extras = project.removeprefix(".").strip("[]").split(",") if "[" in project else []
            groups = arguments[arguments.index("--group") + 1 :] if "--group" in arguments else []
            for name in (*extras, *groups):
                assert f"\n{name} = [" in (ROOT / "pyproject.toml").read_text()
        case ["python", "-m", "pytest", *files]:
            assert [file for file in files if not (ROOT / file).exists()] == []
        case ["make", target] | ["sudo", "make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case ["sudo", *command]:
            assert command in [*SANDBOX_COMMANDS, BARE_MACHINE, WINDOWS]
        case _ if step.run == CHECK:
            assert step.job in ("publish", "attest")
        case _:
            assert words[0] == "test"
            assert words[1:] == [SAMPLES["RESULTS"], "=", SAMPLES["RESULTS"]]


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
    ("workflow", "count"), [("spec.yml", 4), ("release.yml", 1), ("wheels.yml", 1)]
)
def test_models_run_in_a_sandbox(workflow: str, count: int) -> None:
    """Every command that can be told to use one is; it was made to work before."""
    prepared: list[list[str]] = []
    required = 0
    for step in (step for step in STEPS if step.workflow == workflow):
        match step.argv(SAMPLES):
            case ["sudo", *command]:
                prepared.append(command)
            case ["modelwheel", "check", *options] if "--spec-only" in options:
                pass
            case ["modelwheel", "check" | "build" | "report" | "compile", *options]:
                assert options[options.index("--sandbox") + 1] == "required"
                assert prepared == SANDBOX_COMMANDS or workflow == "wheels.yml"
                required += 1
    assert required == count
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
    assert {step.workflow for step in ours} == {path.name for path in WORKFLOWS}


NEEDS = {
    **dict.fromkeys(("new", "build", "compile", "tune"), "compile"),
    **dict.fromkeys(("report", "download", "index", "publish"), "publish"),
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
    assert {(step.workflow, step.job) for step in loose} == {("ci.yml", "unit")}
    assert not any(
        "index" in step.run.replace("--no-index", "") for step in STEPS if "pip" in step.run
    )


@paths
def test_each_job_installs_what_its_commands_need(path: Path) -> None:
    jobs: dict[str, set[str]] = {}
    for step in steps_of(path):
        installed = jobs.setdefault(step.job, set())
        match step.argv(SAMPLES):
            case ["python", "-m", "pip", "install", "--require-hashes", "-r", lock]:
                for extra in EXTRAS[Path(lock).stem]:
                    installed |= set(distributions(extra))
            case ["modelwheel", *arguments]:
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
