"""`modelwheel doctor --github` against a server that answers as GitHub does about a repository's settings."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelwheel.config import Mode
from modelwheel.errors import PublishError
from modelwheel.index.github.api import GitHub
from modelwheel.index.github.settings import WORKFLOWS, Setting, examine
from tests.support import github as fake
from tests.support.commands import Modelwheel

_ENVIRONMENT = {
    "protection_rules": [
        {"type": "branch_policy"},
        {"type": "required_reviewers", "reviewers": [{"type": "Team"}]},
    ],
    "deployment_branch_policy": {"protected_branches": False, "custom_branch_policies": True},
}
_POLICIES = {
    "branch_policies": [
        {"name": "main", "type": "branch"},
        {"name": "*-[0-9]*", "type": "tag"},
    ]
}
_CHECKS = {"required_status_checks": [{"context": "check / pass"}]}
READY: dict[str, Any] = {
    "": {"default_branch": "main"},
    "/actions/workflows": {
        "workflows": [
            {"path": f".github/workflows/{name}", "state": "active"} for name in WORKFLOWS
        ]
    },
    "/pages": {"build_type": "workflow"},
    "/environments/release": _ENVIRONMENT,
    "/environments/release/deployment-branch-policies": _POLICIES,
    "/environments/package-index": _ENVIRONMENT,
    "/environments/package-index/deployment-branch-policies": _POLICIES,
    "/environments/package-index/secrets": {
        "secrets": [{"name": "TWINE_USERNAME"}, {"name": "TWINE_PASSWORD"}]
    },
    "/rulesets": [
        {"id": 6, "target": "branch", "enforcement": "active"},
        {"id": 7, "target": "tag", "enforcement": "active"},
        {"id": 8, "target": "tag", "enforcement": "disabled"},
    ],
    "/rulesets/7": {
        "conditions": {"ref_name": {"include": ["~ALL"], "exclude": []}},
        "rules": [{"type": "update"}, {"type": "deletion"}],
    },
    "/rules/branches/main": [
        {"type": "deletion"},
        {"type": "non_fast_forward"},
        {"type": "pull_request", "parameters": {"required_approving_review_count": 0}},
        {"type": "required_status_checks", "parameters": _CHECKS},
    ],
    "/immutable-releases": {"enabled": True, "enforced_by_owner": False},
}
"""A repository after every step of docs/repository.md, "Set-up, once"."""

NAMES = ["workflows", "Pages", "environment", "tags", "branch"]


@pytest.fixture
def repository() -> Iterator[fake.GitHub]:
    with fake.serve_github(fake.GitHub(settings=copy.deepcopy(READY))) as served:
        yield served


def settings(served: fake.GitHub, mode: Mode = "github") -> dict[str, Setting]:
    with GitHub(served.repository, token=fake.TOKEN, url=served.api) as github:
        return {one.name: one for one in examine(github, mode)}


@pytest.mark.parametrize(
    ("mode", "more"),
    [("github", "immutable releases"), ("token", "secrets"), ("pypi", "trusted publisher")],
)
def test_a_repository_that_is_ready(repository: fake.GitHub, mode: Mode, more: str) -> None:
    found = settings(repository, mode)
    assert list(found) == [*NAMES, more]
    seen_by_nobody = {"trusted publisher"} & set(found)
    assert {name for name, one in found.items() if not one.ok} == seen_by_nobody
    assert all(one.fix is None for one in found.values() if one.ok)
    assert {method for method, _, _ in repository.requests} == {"GET"}


def test_a_new_repository_has_nothing(repository: fake.GitHub) -> None:
    repository.settings = {
        "": {"default_branch": "main"},
        "/actions/workflows": {"workflows": []},
        "/rulesets": [],
        "/rules/branches/main": [],
    }
    found = settings(repository)
    assert [name for name, one in found.items() if one.ok] == []
    assert found["Pages"].fix == "`gh api -X POST repos/org/models/pages -f build_type=workflow`"
    assert found["environment"].found == "no environment release"
    assert found["tags"].found == "anybody who can push may move and delete tags"
    assert found["branch"].found.startswith("main: no rule for protection from deletion, ")
    assert found["immutable releases"].fix.startswith("`gh api -X PUT repos/org/models/immutable-")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "answer", "name", "said"),
    [
        ("/pages", {"build_type": "legacy"}, "Pages", "built from a branch"),
        ("/immutable-releases", {"enabled": False}, "immutable releases", "off: files of"),
        (
            "/environments/release",
            {"protection_rules": [], "deployment_branch_policy": None},
            "environment",
            "release: 0 reviewers, every branch may deploy",
        ),
        (
            "/environments/release/deployment-branch-policies",
            {"branch_policies": [{"name": "*", "type": "branch"}]},
            "environment",
            "release: 1 reviewer, deployed from *",
        ),
        (
            "/rulesets/7",
            {
                "conditions": {"ref_name": {"include": ["refs/tags/v*"]}},
                "rules": [{"type": "update"}, {"type": "deletion"}],
            },
            "tags",
            "anybody who can push may move and delete tags",
        ),
        (
            "/rules/branches/main",
            [
                *READY["/rules/branches/main"][:3],
                {
                    "type": "required_status_checks",
                    "parameters": {"required_status_checks": [{"context": "pass"}]},
                },
            ],
            "branch",
            "main: no rule for the check `check / pass`",
        ),
        (
            "/actions/workflows",
            {"workflows": [{"path": ".github/workflows/site.yml", "state": "disabled_manually"}]},
            "workflows",
            "no active spec.yml, answer.yml, merge.yml",
        ),
        ("/pages", 403, "Pages", "GitHub refuses to tell (403)"),
    ],
)
def test_what_is_wrong_is_named(
    repository: fake.GitHub, path: str, answer: Any, name: str, said: str
) -> None:
    repository.settings[path] = answer
    found = settings(repository)
    assert {one.name for one in found.values() if not one.ok} == {name}
    assert found[name].found.startswith(said)
    assert found[name].fix


def test_the_command(
    repository: fake.GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in repository.environment.items():
        monkeypatch.setenv(name, value)
    modelwheel = Modelwheel(tmp_path / "cache")
    assert modelwheel("doctor", "--github").out.endswith("Ready to release from GitHub\n")
    del repository.settings["/pages"]
    done = modelwheel("doctor", "--github", code=1)
    assert "missing Pages" in done.out
    assert done.out.endswith("Not ready to release from GitHub: Pages\n")
    found = modelwheel("doctor", "--github", "--json", code=1).json
    assert [one["name"] for one in found if not one["ok"]] == ["Pages"]
    monkeypatch.setenv("GITHUB_TOKEN", "")
    assert "set GITHUB_TOKEN" in modelwheel("doctor", "--github", code=PublishError.exit_code).err
    assert "--github" in modelwheel("doctor", "--github", "--for", "author", code=2).err
    assert "--github" in modelwheel("doctor", "--github-repository", "a/b", code=2).err
