"""The settings that a repository on GitHub needs before it can release: `modelwheel doctor --github` asks for each.

docs/repository.md, "Set-up, once", has the commands that make them. https://docs.github.com/rest describes the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from ...errors import PublishError
from ...util.text import one_line
from ...util.words import count, first_few
from .api import GitHub, RefusedError

WORKFLOWS = ("spec.yml", "answer.yml", "merge.yml", "release.yml", "site.yml")
"""What `modelwheel init` writes."""

GATE = "check / pass"
"""The check of a pull request that can be required."""

_SECRETS = ("TWINE_USERNAME", "TWINE_PASSWORD")
_STEP = "docs/repository.md has the command: Set-up, step {}"


@dataclass(frozen=True)
class Setting:
    """One setting of a repository."""

    name: str
    ok: bool
    found: str
    """What is there, in a few words."""
    fix: str | None
    """What to do; None if it is in order."""
    required: bool = True
    """Whether releases fail, or are not protected, without it."""


def examine(github: GitHub, mode: Literal["github", "pypi", "token"]) -> Iterator[Setting]:
    """Asks for every setting that releases of a mode need; changes nothing.

    Args:
        github: The repository, with a token that may read its settings.
        mode: Where releases go.

    Raises:
        PublishError: There is no token, no such repository, or GitHub cannot be reached.
    """
    if not github.token:
        raise PublishError(
            "no token for GitHub, which shows settings to members of a repository alone; set GITHUB_TOKEN, for example to "
            "what `gh auth token` prints"
        )
    repository = github.get("")
    if repository is None:
        raise PublishError(
            f"there is no repository {one_line(github.repository)}, or the token cannot read it; check its name and GITHUB_TOKEN"
        )
    branch = str(repository.get("default_branch", "main"))
    environment = "release" if mode == "github" else "package-index"
    checks: dict[str, Callable[[GitHub], Setting]] = {
        "workflows": _check_workflows,
        "Pages": _check_pages,
        "environment": lambda asked: _check_environment(asked, environment, branch),
        "tags": _check_tags,
        "branch": lambda asked: _check_branch(asked, branch),
    }
    if mode == "github":
        checks["immutable releases"] = _check_immutable
    elif mode == "token":
        checks["secrets"] = lambda asked: _check_secrets(asked, environment)
    for name, check in checks.items():
        try:
            yield check(github)
        except RefusedError as error:
            if error.status == 401:
                raise
            right = "let GITHUB_TOKEN read the settings of the repository (Administration, Actions, Pages, Environments: read)"
            yield Setting(
                name, ok=False, found=f"GitHub refuses to tell ({error.status})", fix=right
            )
    if mode == "pypi":
        yield _trusted_publisher(github, environment)


def _check_workflows(github: GitHub) -> Setting:
    answer = github.get("/actions/workflows?per_page=100") or {}
    active = {
        str(workflow["path"]).rpartition("/")[2]
        for workflow in answer.get("workflows", ())
        if workflow["state"] == "active"
    }
    missing = [name for name in WORKFLOWS if name not in active]
    return _setting(
        "workflows",
        not missing,
        f"no active {first_few(missing)}" if missing else f"all {len(WORKFLOWS)} are active",
        "write them with `modelwheel init` or `modelwheel update`, merge them, and enable them on the page Actions",
    )


def _check_pages(github: GitHub) -> Setting:
    pages = github.get("/pages")
    source = None if pages is None else pages.get("build_type")
    method = "POST" if pages is None else "PUT"
    return _setting(
        "Pages",
        source == "workflow",
        "no site"
        if pages is None
        else "deployed by a workflow"
        if source == "workflow"
        else "built from a branch",
        f"`gh api -X {method} repos/{github.repository}/pages -f build_type=workflow`",
    )


def _check_environment(github: GitHub, name: str, branch: str) -> Setting:
    environment = github.get(f"/environments/{name}")
    if environment is None:
        return Setting("environment", ok=False, found=f"no environment {name}", fix=_STEP.format(2))
    policies = []
    if (environment.get("deployment_branch_policy") or {}).get("custom_branch_policies"):
        answer = github.get(f"/environments/{name}/deployment-branch-policies?per_page=100") or {}
        policies = list(answer.get("branch_policies", ()))
    branches = [policy["name"] for policy in policies if policy.get("type", "branch") == "branch"]
    tags = [policy["name"] for policy in policies if policy.get("type") == "tag"]
    rules = environment.get("protection_rules", ())
    reviewers = sum(len(rule.get("reviewers", ())) for rule in rules)
    summary = f"{name}: {count(reviewers, 'reviewer')}"
    if not policies:
        state = f"{summary}, every branch may deploy"
        return Setting("environment", ok=False, found=state, fix=_STEP.format(2))
    ok = branches == [branch] and bool(tags)
    deploy = first_few([*branches, *(f"tags {pattern}" for pattern in tags)])
    return _setting(
        "environment",
        ok,
        f"{summary}, deployed from {deploy}",
        f"let {branch} and tags alone deploy; {_STEP.format(2)}",
    )


def _check_tags(github: GitHub) -> Setting:
    held: set[str] = set()
    for listed in github.list("/rulesets"):
        if (listed["target"], listed["enforcement"]) != ("tag", "active"):
            continue
        ruleset = github.get(f"/rulesets/{int(listed['id'])}") or {}
        if "~ALL" in ruleset.get("conditions", {}).get("ref_name", {}).get("include", ()):
            held |= {str(rule["type"]) for rule in ruleset.get("rules", ())}
    allowed = [word for rule, word in _TAG_RULES.items() if rule not in held]
    state = (
        f"anybody who can push may {' and '.join(allowed)} tags"
        if allowed
        else "never moved or deleted"
    )
    return _setting("tags", not allowed, state, _STEP.format(3))


_TAG_RULES = {"update": "move", "deletion": "delete"}
"""What nobody may do with a tag, by the rule that forbids it."""

_BRANCH_RULES = {
    "deletion": "protection from deletion",
    "non_fast_forward": "protection from force pushes",
    "pull_request": "pull requests",
    "required_status_checks": f"the check `{GATE}`",
}


def _check_branch(github: GitHub, branch: str) -> Setting:
    rules = {
        str(rule["type"]): rule for rule in github.list(f"/rules/branches/{quote(branch, safe='')}")
    }
    missing = [word for rule, word in _BRANCH_RULES.items() if rule not in rules]
    checks = rules.get("required_status_checks", {}).get("parameters", {})
    contexts = [check["context"] for check in checks.get("required_status_checks", ())]
    if contexts and GATE not in contexts:
        missing.append(_BRANCH_RULES["required_status_checks"])
    state = f"{branch}: no rule for {first_few(missing)}" if missing else f"{branch}: protected"
    return _setting("branch", not missing, state, _STEP.format(4))


def _check_immutable(github: GitHub) -> Setting:
    # GitHub answers 404 where they are off.
    answer: Mapping[str, Any] = github.get("/immutable-releases") or {}
    on = bool(answer.get("enabled"))
    fix = f"`gh api -X PUT repos/{github.repository}/immutable-releases`, or Settings, General"
    return _setting(
        "immutable releases", on, "on" if on else "off: files of a release can be exchanged", fix
    )


def _check_secrets(github: GitHub, environment: str) -> Setting:
    answer = github.get(f"/environments/{environment}/secrets?per_page=100") or {}
    known = {secret["name"] for secret in answer.get("secrets", ())}
    missing = [name for name in _SECRETS if name not in known]
    state = f"{environment} has no {first_few(missing)}" if missing else f"{environment} has both"
    fix = "; ".join(f"`gh secret set {name} --env {environment}`" for name in missing)
    return _setting("secrets", not missing, state, fix)


def _trusted_publisher(github: GitHub, environment: str) -> Setting:
    """PyPI shows a project's publishers to its owners alone, so a person has to look."""
    publisher = f"{github.repository}, release.yml, {environment}"
    fix = f"look at each project on PyPI, Settings, Publishing: it must name {publisher}"
    return Setting(
        "trusted publisher", ok=False, found="cannot be asked for", fix=fix, required=False
    )


def _setting(name: str, ok: bool, state: str, fix: str) -> Setting:
    return Setting(name, ok, one_line(state), None if ok else fix)
