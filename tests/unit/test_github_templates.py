"""What pull requests and issues begin with: this repository and those that `modelwheel init` writes have the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OURS = ROOT / ".github"
WRITTEN = ROOT / "pipeline" / "modelwheel" / "repository" / "templates" / "github"
SAME = {
    "PULL_REQUEST_TEMPLATE.md": "pull-request.md",
    "ISSUE_TEMPLATE/model.yml": "issue-model.yml",
}


@pytest.mark.parametrize("name", SAME)
def test_other_repositories_get_the_same(name: str) -> None:
    assert (WRITTEN / SAME[name]).read_bytes() == (OURS / name).read_bytes()


def test_a_pull_request_asks_for_licence_and_provenance() -> None:
    text = (OURS / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")
    licence, provenance = text.partition("Licence of the weights")[2].split(
        "Where the weights come from"
    )
    assert licence.count("\n- [ ] ") >= 2
    assert provenance.count("\n- [ ] ") >= 2
    assert "package.weights_license" in text


@pytest.mark.parametrize(
    "path", sorted((OURS / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.stem
)
def test_an_issue_form_is_one_that_github_shows(path: Path) -> None:
    form: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    identifiers = [field["id"] for field in form["body"]]
    assert len(set(identifiers)) == len(identifiers)
    for field in form["body"]:
        assert field["type"] in {"input", "textarea", "checkboxes", "dropdown"}
        assert field["attributes"]["label"]
        assert field["type"] != "checkboxes" or field["attributes"]["options"]


def test_a_model_issue_asks_where_the_weights_come_from() -> None:
    form = yaml.safe_load((OURS / "ISSUE_TEMPLATE" / "model.yml").read_text(encoding="utf-8"))
    assert {"licence", "provenance"} <= {field["id"] for field in form["body"]}
