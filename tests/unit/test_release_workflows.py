"""The workflows of releases: what binds the files that are published to a reviewed commit. See docs/releases.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelwheel.config import Mode
from modelwheel.platforms import WHEEL_PLATFORMS
from modelwheel.repository.files import Answers, files_of
from tests.support.own_workflows import own_workflows
from tests.support.workflows import ROOT, WORKFLOWS, find_called, read, steps_of

CHECK = 'test "$(cd dist && sha256sum -- * 2>&1)" = "$SUMS"'
"""That files are those of the plan, by what it has handed on."""

MODES: tuple[Mode, ...] = ("github", "pypi", "token")

DIRECTORY = ROOT / ".github" / "workflows"


def written(mode: Mode) -> dict[str, Any]:
    """The workflow `release.yml` that `modelwheel init` writes."""
    answers = Answers(title="models", services=("github",), mode=mode, slug="org/models")
    (text,) = [file.text for file in files_of(answers) if file.path.endswith("/release.yml")]
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def all_jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every job with steps: of this project's workflows, and of what `modelwheel init` writes."""
    workflows = [*map(read, WORKFLOWS), *map(written, MODES)]
    for workflow in workflows:
        for name, job in workflow["jobs"].items():
            if "steps" in job:
                yield name, job


def test_own_models_have_the_workflows_that_init_writes() -> None:
    """`python -m tests.support.own_workflows` writes them."""
    for file in own_workflows():
        assert (ROOT / file.path).read_text(encoding="utf-8") == file.text


def test_only_the_upload_can_publish() -> None:
    """Jobs whose identity publishes, deploys or signs run no code of this repository or of its dependencies."""
    found = set()
    for name, job in all_jobs():
        if "id-token" not in job["permissions"]:
            continue
        found.add(name)
        uses = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
        if name == "deploy":
            assert uses == ["actions/deploy-pages"]
            continue
        acts = {"attest": ["actions/attest-build-provenance", "actions/upload-artifact"]}
        acting = acts.get(name, ["pypa/gh-action-pypi-publish"])
        assert uses == ["actions/download-artifact", *acting]
        # Between them: that the files are those of the plan, by what it has handed on.
        assert [step.get("run") for step in job["steps"]] == [None, CHECK, *[None] * len(acting)]
        assert job["env"]["SUMS"].endswith(".sums }}")
        environment = job["environment"]
        assert environment == "release" or environment["name"] == "package-index"
    assert found >= {"attest", "deploy", "publish"}


def test_files_are_compared_with_the_plan_before_they_are_published() -> None:
    """In every mode, in the job that has the right or the password."""
    jobs = [job for name, job in all_jobs() if name == "publish"]
    assert len(jobs) >= 4  # runtime.yml, publish.yml, pypi, token
    for job in jobs:
        steps = job["steps"]
        (download,) = [
            n for n, step in enumerate(steps) if step.get("with", {}).get("path") == "dist"
        ]
        assert steps[download]["uses"].startswith("actions/download-artifact@")
        assert steps[download + 1]["run"] == CHECK
        assert job["env"]["LC_ALL"] == "C"


@pytest.mark.parametrize("mode", MODES)
def test_a_release_builds_with_less_than_it_publishes_with(mode: Mode) -> None:
    jobs = written(mode)["jobs"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    publish = jobs["publish"]
    assert publish["if"].endswith("needs.build.outputs.publish == 'true' }}")
    permissions = {
        "github": {"attestations": "write", "contents": "write", "id-token": "write"},
        "pypi": {"id-token": "write"},
        "token": {},
    }
    assert publish["permissions"] == permissions[mode]
    secrets = re.findall(r"secrets\.\w+", str(jobs))
    assert secrets == (
        ["secrets.TWINE_USERNAME", "secrets.TWINE_PASSWORD"] if mode == "token" else []
    )
    # Trusted publishing and secrets of an environment are for this repository's own workflow.
    assert ("uses" in publish) == (mode == "github")


@pytest.mark.parametrize("mode", MODES)
def test_what_is_called_takes_what_is_given(mode: Mode) -> None:
    """Every `with` is an input of the workflow that it calls, required ones are given, and outputs exist."""
    jobs = written(mode)["jobs"]
    for job in jobs.values():
        called = find_called(job.get("uses", ""))
        if called is None:
            continue
        inputs = read(called)["on"]["workflow_call"]["inputs"]
        given = set(job.get("with", {}))
        assert given <= set(inputs)
        assert {name for name, each in inputs.items() if each.get("required")} <= given
        assert missing_permissions(job) == set()
    outputs = read(DIRECTORY / "build.yml")["on"]["workflow_call"]["outputs"]
    assert set(re.findall(r"needs\.build\.outputs\.(\w+)", str(jobs))) <= set(outputs)


def missing_permissions(job: dict[str, Any]) -> set[tuple[str, str]]:
    """What the jobs of the workflow that a job calls ask for, and the job has not."""
    called = find_called(job["uses"])
    assert called is not None
    given = job["permissions"]
    asked = {item for each in read(called)["jobs"].values() for item in each["permissions"].items()}
    return {(scope, level) for scope, level in asked if given.get(scope) not in (level, "write")}


def test_every_workflow_that_init_writes_gives_what_is_asked_for() -> None:
    for file in own_workflows():
        for job in yaml.safe_load(file.text)["jobs"].values():
            if "uses" in job:
                assert missing_permissions(job) == set()


def test_the_documentation_is_published_beside_the_catalogue() -> None:
    """By an artifact's id, which stays what it was; built without a right, from the branch that may deploy."""
    jobs = read(DIRECTORY / "site.yml")["jobs"]
    build, pages = jobs["documentation"], jobs["pages"]
    assert build["permissions"] == {"contents": "read"}
    assert build["steps"][0]["with"]["ref"] == "${{ github.event.repository.default_branch }}"
    assert build["steps"][1]["with"]["extra"] == "docs"
    assert build["outputs"]["artifact"] == "${{ steps.upload.outputs.artifact-id }}"
    assert build["steps"][-1]["with"]["path"] == build["steps"][-2]["run"].rpartition(" ")[2]
    assert pages["needs"] == "documentation"
    assert pages["with"] == {"documentation": "${{ needs.documentation.outputs.artifact }}"}
    steps = read(DIRECTORY / "pages.yml")["jobs"]["write"]["steps"]
    (taken,) = [s for s in steps if "documentation" in str(s.get("if"))]
    assert taken["with"] == {
        "artifact-ids": "${{ inputs.documentation }}",
        "path": f"{steps[-1]['with']['path']}/docs",
        "merge-multiple": True,
    }
    assert steps.index(taken) == len(steps) - 2  # after the site is written


RELEASES = [path for path in WORKFLOWS if path.name in ("build.yml", "runtime.yml")]
releases = pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.name)


@releases
def test_every_platform_has_a_job_of_its_own(path: Path) -> None:
    """Not one entry of a matrix each: those share their outputs, and could change each other's."""
    jobs = read(path)["jobs"]
    called = {name: job for name, job in jobs.items() if "uses" in job}
    assert list(called) == list(WHEEL_PLATFORMS)
    of_a_model = path.name == "build.yml"
    lists = "list" if of_a_model else "sdist"
    for name, job in called.items():
        assert job["uses"] == "./.github/workflows/wheels.yml"
        assert "strategy" not in job
        wanted = f"fromJSON(needs.{lists}.outputs.list).jobs['{name}']"
        given = {
            "job": f"${{{{ toJSON({wanted}) }}}}",
            "sdist": "${{ needs.sdist.outputs.artifact }}",
            "sums": "${{ needs.sdist.outputs.sums }}",
        }
        if of_a_model:  # a model may have no CPU level there; the runtime has all
            assert job["if"] == f"{wanted} != null"
            given["package"] = "${{ inputs.package }}"
            given["measured"] = "${{ needs.sdist.outputs.measured }}"
        assert job["with"] == given
    assert set(jobs["plan"]["needs"]) == {lists, "sdist", *called}
    assert not any("strategy" in job for job in jobs.values())


def test_the_list_is_made_before_anything_hostile_runs() -> None:
    path = DIRECTORY / "build.yml"
    job = read(path)["jobs"]["list"]
    assert "needs" not in job
    ours = [step.run for step in steps_of(path) if step.job == "list"]
    where, early, check, plan = ours
    assert where.startswith("modelwheel config ")
    assert early.endswith(" --require-upload")
    assert "--spec-only" in check
    assert "--release-list" in plan
    assert not any("download-artifact" in step.get("uses", "") for step in job["steps"])


def taken_by(path: Path) -> dict[str, str]:
    """Which artifacts the jobs of a workflow take: expressions of their ids."""
    taken = {}
    for name, job in read(path)["jobs"].items():
        for step in job.get("steps", ()):
            if step.get("uses", "").startswith("actions/download-artifact@"):
                assert not {"name", "pattern"} & set(step["with"])
                # Measurements are as trustworthy as the jobs that made them; attestations are signed.
                artifact = step["with"]["artifact-ids"]
                if not artifact.endswith((".measured }}", ".attestation }}")):
                    taken[name] = artifact
    return taken


def test_artifacts_are_taken_by_the_ids_that_jobs_have_handed_on() -> None:
    """Every job of a run can add artifacts, and delete and replace those of others; an id stays what it was."""
    given = "${{ inputs.artifact }}"
    planned = "${{ needs.plan.outputs.artifact }}"
    every = "${{ join(needs.*.outputs.artifact, ',') }}"
    assert taken_by(DIRECTORY / "wheels.yml") == {"build": "${{ inputs.sdist }}"}
    assert taken_by(DIRECTORY / "build.yml") == {"plan": every}
    assert taken_by(DIRECTORY / "publish.yml") == {"attest": given, "publish": given}
    assert taken_by(DIRECTORY / "compare.yml") == {"compare": given}
    assert taken_by(DIRECTORY / "runtime.yml") == {
        "plan": every,
        "publish": planned,
        "compare": planned,
    }
    outputs = read(DIRECTORY / "build.yml")["on"]["workflow_call"]["outputs"]
    assert outputs["artifact"]["value"] == "${{ jobs.plan.outputs.artifact }}"
    assert outputs["sums"]["value"] == "${{ jobs.plan.outputs.sums }}"


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
    tag = "github.ref_type == 'tag'"
    if path.name == "build.yml":
        by_hand = "inputs.publish && github.ref_name == github.event.repository.default_branch"
        publish = " ".join(jobs["plan"]["outputs"]["publish"].split())
        assert publish == f"${{{{ {tag} || ({by_hand}) }}}}"
        allowed = f"({tag} || inputs.publish)"
    else:
        condition = f"!cancelled() && !failure() && needs.plan.result == 'success' && {tag}"
        assert " ".join(jobs["publish"]["if"].split()) == condition
        allowed = tag
    (checked,) = [s for s in steps_of(path) if '--on-branch "$BRANCH"' in s.run]
    # In full: a tag may have the short name of the branch, and git would prefer it.
    full = "format('refs/remotes/origin/{0}', github.event.repository.default_branch)"
    assert checked.environment["BRANCH"] == f"${{{{ {allowed} && {full} || '' }}}}"
    (job,) = [job for job in jobs.values() if checked.run in str(job.get("steps"))]
    assert job["steps"][0]["with"]["fetch-depth"] == 0


def test_a_merge_tags_one_by_one_and_starts_each_release() -> None:
    """GitHub starts nothing for a fourth tag of one push, nor for tags that a workflow pushes."""
    jobs = read(DIRECTORY / "tag.yml")["jobs"]
    plan, tag = jobs["plan"], jobs["tag"]
    assert plan["permissions"] == {"contents": "read"}
    assert plan["if"] == "${{ !github.event.created }}"  # the first push releases nothing
    assert tag["strategy"]["max-parallel"] == 1
    assert [step.run for step in steps_of(DIRECTORY / "tag.yml") if step.job == "tag"] == [
        "gh auth setup-git",
        'modelwheel tag "$SPEC" --push origin',
        'gh workflow run release.yml --ref "$TAG"',
    ]
    merge = read(DIRECTORY / "merge.yml")
    assert merge["on"]["push"]["branches"] == ["main"]
    assert "model_specs/**" in merge["on"]["push"]["paths"]
    assert "workflow_dispatch" in read(DIRECTORY / "release.yml")["on"]


def test_what_follows_other_workflows_does_not_run_what_they_made() -> None:
    """What starts by `workflow_run` may do more than what started it."""
    triggered = {path.name: path for path in WORKFLOWS if "workflow_run" in read(path)["on"]}
    assert sorted(triggered) == ["answer.yml", "site.yml"]
    on = read(triggered["site.yml"])["on"]["workflow_run"]
    assert on == {"workflows": ["release"], "types": ["completed"]}
    write = read(DIRECTORY / "pages.yml")["jobs"]["write"]
    condition = " ".join(write["if"].split())
    assert "github.event.workflow_run.conclusion == 'success'" in condition
    assert "github.event.workflow_run.head_repository.full_name == github.repository" in condition
    # Nothing of the release's artifacts gets into the directory that becomes the site.
    (measured,) = [s["with"] for s in write["steps"] if "run-id" in s.get("with", {})]
    assert (measured["pattern"], measured["path"]) == ("measured-*", "measured")
    checkout = write["steps"][0]
    assert checkout["with"]["ref"] == "${{ github.event.repository.default_branch }}"
    # A tag may not deploy to Pages with GitHub's defaults: no workflow that runs on tags deploys.
    for path in WORKFLOWS:
        if "tags" in str(read(path)["on"].get("push", "")):
            assert "pages" not in path.read_text()
